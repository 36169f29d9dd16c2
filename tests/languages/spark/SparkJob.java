import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/** Writes and reads tables by Spark in local mode: SparkJob strait://HOST:PORT/DIRECTORY. */
public final class SparkJob {
    public static void main(String[] arguments) throws Exception {
        String base = arguments[0];
        try (SparkSession spark =
                SparkSession.builder()
                        .master("local[2]")
                        .config("spark.ui.enabled", "false")
                        .config("spark.sql.shuffle.partitions", "2")
                        .getOrCreate()) {
            Dataset<Row> numbers =
                    spark.range(0, 10_000, 1, 4).selectExpr("id AS n", "id % 7 AS site");
            numbers.write().mode(SaveMode.Overwrite).partitionBy("site").parquet(base + "/parquet");
            Dataset<Row> sums =
                    spark.read().parquet(base + "/parquet").where("site >= 3").groupBy("site").agg(functions.sum("n").as("sum"));
            sums.write().mode(SaveMode.Overwrite).option("header", "true").csv(base + "/csv");
            Row total = spark.read().option("header", "true").option("inferSchema", "true").csv(base + "/csv")
                    .agg(functions.sum("sum"), functions.count("sum")).first();
            long wanted = 0;
            for (long n = 0; n < 10_000; n++) {
                wanted += n % 7 >= 3 ? n : 0;
            }
            if (total.getLong(0) != wanted || total.getLong(1) != 4) {
                throw new IllegalStateException(total + " in place of " + wanted + " in 4 rows");
            }
            long lines = spark.read().textFile(base + "/csv").count();
            System.out.println("Spark: partitions, Parquet, CSV; " + lines + " lines");
        }
    }
}
