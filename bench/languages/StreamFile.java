import fs.strait.client.ConnectOptions;
import fs.strait.client.StraitClient;
import fs.strait.client.Tls;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * {@code StreamFile read|write HOST:PORT PATH MIB [CA]}: as stream_file.cpp, with the Java client.
 */
final class StreamFile {
    private static final int PIECE_BYTES = 1 << 20;

    private StreamFile() {}

    public static void main(String[] given) throws IOException {
        long mib = Long.parseLong(given[3]);
        ConnectOptions options = ConnectOptions.defaults();
        if (given.length > 4) {
            options = options.tls(Tls.trusting(Path.of(given[4])));
        }
        try (StraitClient client = StraitClient.connect(given[1], options)) {
            System.out.println("ready");
            System.in.read();
            if (given[0].equals("read")) {
                read(client, given[2], mib);
            } else {
                write(client, given[2], mib);
            }
            System.out.println("done");
        }
    }

    private static void read(StraitClient client, String path, long mib) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        long bytes = 0;
        try (InputStream in = client.newInputStream(path)) {
            for (int count; (count = in.read(piece)) >= 0; bytes += count) {
                // Thrown away.
            }
        }
        if (bytes != mib << 20) {
            throw new IOException("another length: " + bytes);
        }
    }

    private static void write(StraitClient client, String path, long mib) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        try (OutputStream out = client.newOutputStream(path, StandardOpenOption.CREATE_NEW)) {
            for (long n = 0; n < mib; n++) {
                out.write(piece);
            }
        }
    }
}
