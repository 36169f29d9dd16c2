package fs.strait.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A proxy between client and gateway that cuts a connection after this many bytes in one direction.
 */
final class CuttingProxy implements AutoCloseable {
    /** Bytes to the client until its connection is cut. */
    final AtomicLong cutRepliesAfter = new AtomicLong(Long.MAX_VALUE);
    /** Bytes to the gateway until its connection is cut. */
    final AtomicLong cutRequestsAfter = new AtomicLong(Long.MAX_VALUE);
    /** Connections so far. */
    final AtomicInteger connections = new AtomicInteger();

    private final ServerSocket listener;
    private final int target;

    CuttingProxy(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    String address() {
        return "strait://127.0.0.1:" + listener.getLocalPort() + "/";
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "cutting-proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            for (; ; ) {
                Socket client = listener.accept();
                connections.incrementAndGet();
                Socket gateway = new Socket(InetAddress.getLoopbackAddress(), target);
                start(() -> copy(client, gateway, cutRequestsAfter, client));
                start(() -> copy(gateway, client, cutRepliesAfter, client));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private static void copy(Socket from, Socket to, AtomicLong cutAfter, Socket client) {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] piece = new byte[16 << 10];
            for (int count = in.read(piece); count >= 0; count = in.read(piece)) {
                long left = cutAfter.getAndAdd(-count) - count;
                if (left < 0) {
                    out.write(piece, 0, (int) Math.max(0, count + left));
                    cutAfter.set(Long.MAX_VALUE); // once
                    // First of the two: the gateway would answer that its client has left.
                    client.close();
                    return;
                }
                out.write(piece, 0, count);
            }
        } catch (IOException gone) {
            // Either side ended it.
        }
    }
}
