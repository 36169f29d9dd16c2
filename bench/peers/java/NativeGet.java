import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * {@code NativeGet URI REMOTE LOCAL BUFFER_BYTES}: HDFS's own client as the report's native program
 * used it, reading into a buffer and writing the buffer, one after the other. Prints "ready" when
 * it is connected, waits for a line, copies, prints "done".
 */
final class NativeGet {
    private NativeGet() {}

    public static void main(String[] given) throws IOException {
        byte[] buffer = new byte[Integer.parseInt(given[3])];
        FileSystem files = FileSystem.get(URI.create(given[0]), new Configuration());
        // Connects: start-up is reported apart.
        files.getFileStatus(new Path("/"));
        System.out.println("ready");
        System.in.read();
        try (InputStream in = files.open(new Path(given[1]));
                FileOutputStream out = new FileOutputStream(given[2])) {
            int count;
            while ((count = in.read(buffer)) > 0) {
                out.write(buffer, 0, count);
            }
        }
        System.out.println("done");
        files.close();
    }
}
