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
 * <p>Made for large payloads: what is small goes through a buffer here, what is large goes straight
 * between the socket and memory of the caller's.
 */
final class SocketTransport extends TTransport {
    /**
     * Most bytes of one message from the gateway: its largest payload is 4 MiB, and a page of a
     * listing stays below that too.
     */
    static final int MAX_MESSAGE_BYTES = 16 << 20;

    // What comes together of small replies, and of a stream that is read by few bytes at a time.
    private static final int IN_BYTES = 64 << 10;
    // Received at once where a large payload may follow: of that, no more is
    // copied out of the buffer than one system call is worth.
    private static final int HEADER_BYTES = 16 << 10;
    // Payload goes straight to the caller's memory from this size on.
    private static final int DIRECT_BYTES = 16 << 10;
    // A read to memory on the heap is copied from a buffer outside it; of this
    // size it stays in the processor's cache.
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

    /** Whether something came, or the connection ended, since the last reply. */
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

    /** Payload bytes into `target`, at least one and at most `most`. */
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

    /** How much of a payload can be had without waiting. */
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

    /** Where in the request the next byte goes; payload can be put there. */
    int written() {
        return out.position();
    }

    /** Sends the request, with `payload` (its remaining bytes) put in at position `at` of it. */
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
