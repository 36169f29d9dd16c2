import fs.strait.client.ConnectOptions;
import fs.strait.client.StraitChannel;
import fs.strait.client.StraitClient;
import fs.strait.client.Tls;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.Map;

/**
 * {@code CopyFile get|put GATEWAY REMOTE LOCAL [--blocking BYTES] [--ca FILE]}.
 *
 * <p>Copies one file with the Java client, as copy_file.cpp does.
 */
final class CopyFile {
    private static final int PIECE_BYTES = 1 << 20;

    private CopyFile() {}

    public static void main(String[] given) throws IOException {
        Map<String, String> options = new HashMap<>();
        for (int n = 4; n + 1 < given.length; n += 2) {
            options.put(given[n], given[n + 1]);
        }
        int blocking = Integer.parseInt(options.getOrDefault("--blocking", "0"));
        ConnectOptions connect = ConnectOptions.defaults();
        if (options.containsKey("--ca")) {
            connect = connect.tls(Tls.trusting(Path.of(options.get("--ca"))));
        }
        try (StraitClient client = StraitClient.connect(given[1], connect)) {
            System.out.println("ready");
            System.in.read();
            copy(client, given[0], given[2], given[3], blocking);
            System.out.println("done");
        }
    }

    private static void copy(
            StraitClient client, String action, String remote, String local, int blocking)
            throws IOException {
        if (action.equals("put")) {
            client.put(Path.of(local), remote, StandardCopyOption.REPLACE_EXISTING);
        } else if (local.equals("-")) {
            readToMemory(client, remote, blocking);
        } else if (blocking != 0) {
            try (OutputStream out = new FileOutputStream(local)) {
                readBlocking(client, remote, blocking, out);
            }
        } else {
            client.get(remote, Path.of(local), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private static void readToMemory(StraitClient client, String remote, int blocking)
            throws IOException {
        if (blocking != 0) {
            readBlocking(client, remote, blocking, OutputStream.nullOutputStream());
            return;
        }
        byte[] piece = new byte[PIECE_BYTES];
        try (InputStream in = client.newInputStream(remote)) {
            while (in.read(piece) >= 0) {
                // Thrown away.
            }
        }
    }

    private static void readBlocking(
            StraitClient client, String remote, int blocking, OutputStream out)
            throws IOException {
        ByteBuffer piece = ByteBuffer.allocate(blocking);
        try (StraitChannel in = client.newByteChannel(remote)) {
            int count;
            for (long done = 0; (count = in.read(piece.clear(), done)) > 0; done += count) {
                out.write(piece.array(), 0, count);
            }
        }
    }
}
