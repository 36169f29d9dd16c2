package fs.strait.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;

/** A TCP connection. */
final class SocketLink implements Link {
    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private Deadline deadline;

    SocketLink(String host, int port, Deadline connectBy) throws IOException {
        deadline = connectBy;
        channel = connect(host, port, connectBy);
        try {
            // A request is small and shouldn't wait.
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.configureBlocking(false);
            selector = Selector.open();
            key = channel.register(selector, SelectionKey.OP_READ);
        } catch (IOException error) {
            channel.close();
            throw error;
        }
    }

    private static SocketChannel connect(String host, int port, Deadline connectBy)
            throws IOException {
        InetAddress[] addresses = resolve(host);
        IOException last = new ConnectException("timed out");
        for (int n = 0; n < addresses.length; n++) {
            // Each address gets its share of the time, so that a silent one leaves some for the
            // next.
            long shareMs = connectBy.leftMs() / (addresses.length - n);
            if (shareMs <= 0) {
                break;
            }
            SocketChannel channel = SocketChannel.open();
            try {
                InetSocketAddress address = new InetSocketAddress(addresses[n], port);
                channel.socket().connect(address, (int) shareMs);
                return channel;
            } catch (SocketTimeoutException silence) {
                channel.close();
                last = new ConnectException("timed out");
            } catch (IOException error) {
                channel.close();
                last = error;
            }
        }
        throw last;
    }

    private static InetAddress[] resolve(String host) throws IOException {
        try {
            return InetAddress.getAllByName(host);
        } catch (UnknownHostException error) {
            String message = "the name %s can't be resolved; check its spelling, and DNS";
            IOException explained = new UnknownHostException(message.formatted(host));
            explained.initCause(error);
            throw explained;
        }
    }

    @Override
    public void waitUntil(Deadline newDeadline) {
        deadline = newDeadline;
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

    /** Sends the bytes that can leave without waiting. */
    void sendNow(ByteBuffer part) throws IOException {
        channel.write(part);
    }

    private void await(int operation) throws IOException {
        key.interestOps(operation);
        for (; ; ) {
            long leftMs = deadline.leftMs();
            if (leftMs <= 0) {
                throw new SocketTimeoutException("no complete answer in time");
            }
            int ready = selector.select(leftMs);
            selector.selectedKeys().clear();
            if (ready > 0) {
                return;
            }
            if (Thread.currentThread().isInterrupted()) {
                throw new InterruptedIOException("interrupted while waiting for the gateway");
            }
        }
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
            // An error no longer matters here.
        }
    }
}
