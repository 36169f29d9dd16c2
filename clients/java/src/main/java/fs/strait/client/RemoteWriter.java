package fs.strait.client;

import fs.strait.client.internal.AppendDataReply;
import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.FlushFileRequest;
import fs.strait.client.internal.FlushMode;
import fs.strait.client.internal.OpenWriterReply;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * A remote file, open for writing at its end; callers' streams and channels use it.
 *
 * <p>A write returns when its bytes are on their way. A later write reports an error, or flush or
 * close at the latest. For one thread at a time.
 */
final class RemoteWriter {
    // Appends in flight at once; see ReadAhead.WINDOW.
    private static final int WINDOW = 16;

    /** An append without a reply yet; its data is kept for a repetition. */
    private record Append(AppendDataRequest request, ByteBuffer data) {}

    private final Session session;
    private final String path;
    private final long handle;
    private final long incarnation;
    private final int chunkBytes;
    private final Deque<Append> inFlight = new ArrayDeque<>();
    private ByteBuffer chunk; // being filled; null while there is nothing in it
    private long sent; // the file's length with all that was sent
    private Connection connection; // while appends are in flight
    private IOException failure;
    private volatile boolean closed;

    RemoteWriter(Session session, String path, OpenWriterReply opened) {
        this.session = session;
        this.path = path;
        this.handle = opened.getHandle();
        this.incarnation = session.incarnation();
        this.sent = opened.getPosition();
        this.chunkBytes = Math.min(BufferPool.CHUNK_BYTES, session.maxChunkBytes());
    }

    /** The file's length including all written bytes. */
    long position() {
        return sent + (chunk == null ? 0 : chunk.position());
    }

    boolean isClosed() {
        return closed;
    }

    /** Most bytes of a buffer for {@link #send}. */
    int chunkBytes() {
        return chunkBytes;
    }

    // -- Writing

    /** Takes all remaining bytes. */
    void write(ByteBuffer source) throws IOException {
        checkUsable();
        while (source.hasRemaining()) {
            if (chunk == null) {
                chunk = session.buffers().take();
            }
            int count = Math.min(source.remaining(), chunkBytes - chunk.position());
            chunk.put(chunk.position(), source, source.position(), count);
            chunk.position(chunk.position() + count);
            source.position(source.position() + count);
            if (chunk.position() == chunkBytes) {
                sendChunk();
            }
        }
    }

    private void sendChunk() throws IOException {
        if (chunk != null) {
            ByteBuffer full = chunk.flip();
            chunk = null;
            send(full);
        }
    }

    /**
     * Sends the remaining bytes of a buffer of the session's pool, and returns the buffer there.
     */
    void send(ByteBuffer data) throws IOException {
        checkUsable();
        AppendDataRequest request = new AppendDataRequest();
        request.setRequest_id(Mutation.newRequestId());
        request.setIs_retry(false).setHandle(handle).setExpected_offset(sent);
        inFlight.addLast(new Append(request, data));
        sent += data.remaining();
        Deadline deadline = session.deadline();
        try {
            if (connection == null) {
                connection = session.borrow(deadline);
            }
            connection.waitUntil(deadline);
            connection.sendAppend(request, data);
        } catch (ConnectionLostException lost) {
            repeatAll(deadline);
        } catch (IOException error) {
            throw failed(error);
        }
        collect(WINDOW - 1);
    }

    void flush() throws IOException {
        flush(FlushMode.FLUSH);
    }

    void sync() throws IOException {
        flush(FlushMode.SYNC);
    }

    private void flush(FlushMode mode) throws IOException {
        checkUsable();
        sendChunk();
        collect(0);
        try {
            session.call(
                    Method.FLUSH_FILE, new FlushFileRequest().setHandle(handle).setMode(mode));
        } catch (IOException error) {
            throw explained(error);
        }
    }

    /** Waits for the requests in flight. Then all written bytes are on stable storage. */
    void close() throws IOException {
        boolean endedWithClient = session.isClosed() && chunk == null && inFlight.isEmpty();
        if (closed || endedWithClient) {
            closed = true;
            return;
        }
        try {
            checkUsable();
            sendChunk();
            collect(0);
            session.mutate(Method.CLOSE_FILE, new CloseFileRequest().setHandle(handle));
            closed = true;
        } catch (IOException error) {
            throw explained(error);
        } finally {
            abandon();
        }
    }

    /**
     * Unless it is closed, closes the handle on the gateway, whatever the outcome of the writes.
     */
    void abandon() {
        giveBack();
        if (closed) {
            return;
        }
        closed = true;
        try {
            CloseFileRequest request = new CloseFileRequest().setHandle(handle);
            session.once(
                    session.parting(),
                    connection -> connection.call(Method.CLOSE_FILE, request));
        } catch (IOException ignored) {
            // The gateway drops the handle with the session.
        }
    }

    private void checkUsable() throws IOException {
        if (closed) {
            throw new IOException("the file is closed");
        }
        if (failure != null) {
            throw Failures.again(failure);
        }
    }

    // -- Requests in flight

    /** Takes replies until at most `leave` appends are in flight. */
    private void collect(int leave) throws IOException {
        Deadline deadline = session.deadline();
        try {
            while (inFlight.size() > leave && connection != null) {
                deadline = session.deadline();
                connection.waitUntil(deadline);
                done(connection.receive(Method.APPEND_DATA));
            }
        } catch (ConnectionLostException lost) {
            repeatAll(deadline);
        } catch (IOException error) {
            throw failed(error);
        }
        if (inFlight.isEmpty()) {
            giveBack();
        }
    }

    /**
     * Repeats requests without a reply; the gateway recognises those it has executed.
     *
     * @param first deadline of the first request, which has waited already
     */
    private void repeatAll(Deadline first) throws IOException {
        giveBack();
        Deadline deadline = first;
        try {
            while (!inFlight.isEmpty()) {
                Append append = inFlight.peekFirst();
                Mutation repeated = Mutation.again(append.request);
                done(
                        session.attempt(
                                Method.APPEND_DATA,
                                repeated,
                                deadline,
                                again -> repeat(again, append)));
                deadline = session.deadline();
            }
        } catch (IOException error) {
            throw failed(error);
        }
    }

    private static AppendDataReply repeat(Connection connection, Append append)
            throws IOException {
        connection.sendAppend(append.request, append.data);
        return connection.receive(Method.APPEND_DATA);
    }

    private void done(AppendDataReply reply) throws IOException {
        Append append = inFlight.removeFirst();
        if (reply.getPosition()
                != append.request.getExpected_offset() + append.data.remaining()) {
            throw Failures.of(
                    ErrorKind.INTERNAL, "the gateway counts other bytes than were sent", path);
        }
        session.buffers().giveBack(append.data);
    }

    private IOException failed(IOException error) {
        failure = explained(error);
        inFlight.clear();
        giveBack();
        return failure;
    }

    /** The error in terms of the caller, which doesn't know of handles. */
    private IOException explained(IOException error) {
        boolean unknownHandle = Failures.isOf(error, ErrorKind.INVALID_ARGUMENT);
        boolean gone =
                Failures.isOf(error, ErrorKind.UNAUTHENTICATED)
                        || (unknownHandle && session.incarnation() != incarnation);
        if (!gone) {
            return Failures.at(path, error);
        }
        String message =
                "the session that had the file open has ended; what was flushed is in the file, what"
                        + " was written since may be";
        IOException unknown = Failures.of(ErrorKind.OUTCOME_UNKNOWN, message, path);
        unknown.initCause(error);
        return unknown;
    }

    private void giveBack() {
        if (connection != null) {
            session.giveBack(connection);
            connection = null;
        }
    }
}
