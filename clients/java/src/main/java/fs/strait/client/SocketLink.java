package fs.strait.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;

/** A TCP connection. */
final class SocketLink implements Link {
    // A gateway that is there takes a connection at once; only its answers may take long.
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final long timeoutMs;

    SocketLink(String host, int port, Duration timeout) throws IOException {
        this.timeoutMs = Math.max(1, timeout.toMillis());
        channel = connect(host, port, (int) Math.min(timeoutMs, CONNECT_TIMEOUT.toMillis()));
        try {
            // A request is small and waits for nothing.
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.configureBlocking(false);
            selector = Selector.open();
            key = channel.register(selector, SelectionKey.OP_READ);
        } catch (IOException error) {
            channel.close();
            throw error;
        }
    }

    private static SocketChannel connect(String host, int port, int timeoutMs) throws IOException {
        IOException last = new ConnectException("no address");
        for (InetAddress address : InetAddress.getAllByName(host)) {
            SocketChannel channel = SocketChannel.open();
            try {
                channel.socket().connect(new InetSocketAddress(address, port), timeoutMs);
                return channel;
            } catch (IOException error) {
                channel.close();
                last = error;
            }
        }
        throw last;
    }

    @Override
    public InetAddress peer() throws IOException {
        return ((InetSocketAddress) channel.getRemoteAddress()).getAddress();
    }

    @Override
    public boolean hasStirred() throws IOException {
        key.interestOps(SelectionKey.OP_READ);
        try {
            return selector.selectNow() > 0;
        } finally {
            selector.selectedKeys().clear();
        }
    }

    @Override
    public int receive(ByteBuffer target) throws IOException {
        int count;
        while ((count = channel.read(target)) == 0) {
            await(SelectionKey.OP_READ);
        }
        if (count < 0) {
            throw new IOException("the gateway closed the connection");
        }
        return count;
    }

    @Override
    public void send(ByteBuffer... parts) throws IOException {
        while (anyRemains(parts)) {
            if (channel.write(parts) == 0) {
                await(SelectionKey.OP_WRITE);
            }
        }
    }

    private static boolean anyRemains(ByteBuffer[] parts) {
        for (ByteBuffer part : parts) {
            if (part.hasRemaining()) {
                return true;
            }
        }
        return false;
    }

    /** What can be sent without waiting. */
    void sendNow(ByteBuffer part) throws IOException {
        channel.write(part);
    }

    private void await(int operation) throws IOException {
        key.interestOps(operation);
        int ready = selector.select(timeoutMs);
        selector.selectedKeys().clear();
        if (ready > 0) {
            return;
        }
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedIOException("interrupted while waiting for the gateway");
        }
        throw new SocketTimeoutException("no answer within " + timeoutMs / 1e3 + " s");
    }

    @Override
    public boolean isOpen() {
        return channel.isOpen();
    }

    @Override
    public void close() {
        try {
            channel.close();
            selector.close();
        } catch (IOException ignored) {
            // Nothing is left to lose.
        }
    }
}
