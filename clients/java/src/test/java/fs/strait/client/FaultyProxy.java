package fs.strait.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A proxy for a gateway that simulates faults: it falls silent, stutters, or is gone. */
final class FaultyProxy implements AutoCloseable {
    enum Fault {
        NONE,
        SILENT,
        HALF,
        STUTTER,
        GONE
    }

    // Often enough to renew any limit of a single wait.
    private static final Duration STUTTER = Duration.ofMillis(100);
    // Bytes sent of a half reply: they end within a frame's header, or after it.
    private static final int HALF_BYTES = 7;

    private final ServerSocket listener;
    // Keeps the port of a gateway that is gone, without listening: a test beside this one could get it.
    private final Socket reserved = new Socket();
    private final Thread accepting;
    private final int target;
    private final List<Socket> sockets = new ArrayList<>();
    private volatile Fault fault = Fault.NONE;

    FaultyProxy(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        accepting = start(this::accept);
    }

    String address() {
        return "strait://127.0.0.1:" + listener.getLocalPort() + "/";
    }

    /** From now on the gateway's answers suffer from this fault. */
    void strike(Fault next) {
        fault = next;
        if (next == Fault.GONE) {
            try {
                end();
                reserve();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    @Override
    public void close() throws IOException {
        end();
        reserved.close();
    }

    /** Takes the port when the thread that accepts has let it go. */
    private void reserve() throws IOException {
        if (reserved.isBound()) {
            return;
        }
        try {
            accepting.join();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
        reserved.setReuseAddress(true);
        reserved.bind(listener.getLocalSocketAddress());
    }

    private synchronized void end() throws IOException {
        listener.close();
        for (Socket socket : sockets) {
            try (socket) {
                // At once, even while another thread reads from it.
                socket.setSoLinger(true, 0);
            } catch (SocketException closed) {
                // Its copying thread has closed it.
            }
        }
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(work, "faulty-proxy");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void accept() {
        try {
            for (; ; ) {
                Socket client = listener.accept();
                Socket gateway = new Socket(InetAddress.getLoopbackAddress(), target);
                synchronized (this) {
                    sockets.addAll(List.of(client, gateway));
                    if (listener.isClosed()) {
                        // The connection was accepted while the listener closed.
                        end();
                        return;
                    }
                }
                start(() -> copy(client, gateway, false));
                start(() -> copy(gateway, client, true));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private void copy(Socket from, Socket to, boolean isReply) {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] piece = new byte[16 << 10];
            boolean holding = false;
            for (int count = in.read(piece); count >= 0; count = in.read(piece)) {
                switch (isReply ? fault : Fault.NONE) {
                    case NONE -> out.write(piece, 0, count);
                    case STUTTER -> stutter(out, piece, count);
                    case HALF -> {
                        out.write(piece, 0, holding ? 0 : Math.min(count, HALF_BYTES));
                        holding = true;
                    }
                    default -> {
                        // The proxy holds the bytes back.
                    }
                }
            }
        } catch (IOException | InterruptedException gone) {
            // Either side ended it.
        }
    }

    private static void stutter(OutputStream out, byte[] piece, int count)
            throws IOException, InterruptedException {
        for (int n = 0; n < count; n++) {
            out.write(piece, n, 1);
            Waits.pause("the pace of a stutter", STUTTER);
        }
    }
}
