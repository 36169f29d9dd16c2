package fs.strait.client;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import org.apache.thrift.TConfiguration;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

/**
 * Thrift's view of a connected socket, framed or not.
 *
 * <p>Made for large payloads: small data goes through a buffer here, large data directly between
 * the socket and the caller's memory.
 */
final class SocketTransport extends TTransport {
    /**
     * Most bytes of one message from the gateway: its largest payload is 4 MiB, and a page of a
     * listing stays below that too.
     */
    static final int MAX_MESSAGE_BYTES = 16 << 20;

    // Room for small replies that arrive together, and for a stream that is read by few bytes at a
    // time.
    private static final int IN_BYTES = 64 << 10;
    // Bytes received at once if a large payload may follow. The buffer copies at most so much of
    // it, about the price of a system call.
    private static final int HEADER_BYTES = 16 << 10;
    // From this size on, payload goes directly to the caller's memory.
    private static final int DIRECT_BYTES = 16 << 10;
    // A read to memory on the heap goes through a buffer outside it; with this size it stays in the
    // processor's cache.
    private static final int HEAP_PIECE_BYTES = 128 << 10;
    private static final int FRAME_HEADER_BYTES = 4;

    private final Link link;
    private final boolean framed;
    private final ByteBuffer in = ByteBuffer.allocateDirect(IN_BYTES).flip();
    // Grows to the longest request: a path or two.
    private ByteBuffer out = ByteBuffer.allocateDirect(1 << 10);
    private long received; // bytes in all
    private long messageEnd; // in bytes received: of its frame, or where it is too long without

    SocketTransport(Link link, boolean framed) {
        this.link = link;
        this.framed = framed;
    }

    void waitUntil(Deadline deadline) {
        link.waitUntil(deadline);
    }

    InetAddress peer() throws IOException {
        return link.peer();
    }

    /** Whether bytes arrived, or the connection ended, since the last reply. */
    boolean stirredWhileIdle() {
        try {
            return in.hasRemaining() || link.hasStirred();
        } catch (IOException error) {
            return true;
        }
    }

    // -- Receiving

    void beginReply() throws IOException, TTransportException {
        messageEnd = consumed() + MAX_MESSAGE_BYTES;
        if (!framed) {
            return;
        }
        while (in.remaining() < FRAME_HEADER_BYTES) {
            fill(HEADER_BYTES);
        }
        int length = in.getInt();
        if (length < 0 || length > MAX_MESSAGE_BYTES) {
            throw new TTransportException("a frame of " + length + " bytes");
        }
        messageEnd = consumed() + length;
    }

    void endReply() throws TTransportException {
        if (framed && consumed() != messageEnd) {
            throw new TTransportException("a frame and its message differ in length");
        }
    }

    private long consumed() {
        return received - in.remaining();
    }

    @Override
    public int read(byte[] target, int offset, int length) throws TTransportException {
        if (length > messageEnd - consumed()) {
            throw new TTransportException("a message that is longer than it may be");
        }
        try {
            if (!in.hasRemaining()) {
                fill(HEADER_BYTES);
            }
        } catch (IOException error) {
            throw new TTransportException(error);
        }
        int count = Math.min(length, in.remaining());
        in.get(target, offset, count);
        return count;
    }

    /** Reads payload bytes into `target`, at least one and at most `most`. */
    int readPayload(ByteBuffer target, int most) throws IOException {
        int count = Math.min(most, target.remaining());
        if (!in.hasRemaining()) {
            if (count >= DIRECT_BYTES) {
                return readStraight(target, count);
            }
            fill(IN_BYTES);
        }
        count = Math.min(count, in.remaining());
        target.put(target.position(), in, in.position(), count);
        target.position(target.position() + count);
        in.position(in.position() + count);
        return count;
    }

    /** Bytes of a payload available without waiting. */
    int readable() {
        return in.remaining();
    }

    private int readStraight(ByteBuffer target, int count) throws IOException {
        int limit = target.limit();
        int piece = target.isDirect() ? count : Math.min(count, HEAP_PIECE_BYTES);
        target.limit(target.position() + piece);
        try {
            return receive(target);
        } finally {
            target.limit(limit);
        }
    }

    private void fill(int most) throws IOException {
        in.compact();
        in.limit(Math.min(in.capacity(), in.position() + most));
        try {
            receive(in);
        } finally {
            in.flip();
        }
    }

    private int receive(ByteBuffer target) throws IOException {
        int count = link.receive(target);
        received += count;
        return count;
    }

    // -- Sending

    void beginRequest() {
        out.clear();
        if (framed) {
            out.position(FRAME_HEADER_BYTES);
        }
    }

    @Override
    public void write(byte[] source, int offset, int length) {
        if (length > out.remaining()) {
            int capacity = Math.max(2 * out.capacity(), out.position() + length);
            out = ByteBuffer.allocateDirect(capacity).put(out.flip());
        }
        out.put(source, offset, length);
    }

    /** The position of the request's next byte, where payload can be inserted. */
    int written() {
        return out.position();
    }

    /** Sends the request, with `payload` (its remaining bytes) inserted at position `at`. */
    void send(ByteBuffer payload, int at) throws IOException {
        out.flip();
        if (framed) {
            out.putInt(0, out.limit() + payload.remaining() - FRAME_HEADER_BYTES);
        }
        ByteBuffer head = out.slice(0, at);
        ByteBuffer tail = out.slice(at, out.limit() - at);
        link.send(head, payload.duplicate(), tail);
    }

    void send() throws IOException {
        out.flip();
        if (framed) {
            out.putInt(0, out.limit() - FRAME_HEADER_BYTES);
        }
        link.send(out);
    }

    // -- The rest of TTransport

    @Override
    public boolean isOpen() {
        return link.isOpen();
    }

    @Override
    public void open() {}

    @Override
    public void close() {
        link.close();
    }

    @Override
    public TConfiguration getConfiguration() {
        return TConfiguration.DEFAULT;
    }

    @Override
    public void updateKnownMessageSize(long size) {}

    @Override
    public void resetMessageSizeAndConsumedBytes(long size) {}

    @Override
    public void checkReadBytesAvailable(long count) throws TTransportException {
        if (count < 0 || count > MAX_MESSAGE_BYTES) {
            throw new TTransportException("a message that claims " + count + " bytes");
        }
    }
}
