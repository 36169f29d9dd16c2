/**
 * {@code strait://} for Hadoop, and so for Spark, Hive, Flink and all others that use its interface.
 *
 * <p>Hadoop finds {@link fs.strait.hadoop.StraitFileSystem} by its service loader: a jar on the
 * class path suffices.
 */
package fs.strait.hadoop;
