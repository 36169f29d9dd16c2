package fs.strait.client;

import java.io.IOException;
import java.nio.file.Path;

/** Copies one remote file: {@code java fs.strait.client.Get strait://host:port/[@store/]path FILE}. */
public final class Get {
    private Get() {}

    /**
     * Copies the file, and prints its bytes and the speed on standard error.
     *
     * @param arguments the remote file's URI and the local file's path
     * @throws IOException of either side
     */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 2) {
            System.err.println("usage: Get strait://host:port/[@store/]path FILE");
            System.exit(2);
        }
        StraitUri source = StraitUri.parse(arguments[0]);
        try (StraitClient client = StraitClient.connect(source.gateway())) {
            long start = System.nanoTime();
            long bytes = client.get(source.path(), Path.of(arguments[1]));
            double seconds = (System.nanoTime() - start) / 1e9;
            System.err.printf(
                    "%d bytes in %.3f s, %.0f MB/s%n", bytes, seconds, bytes / seconds / 1e6);
        }
    }
}
