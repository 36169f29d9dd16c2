package fs.strait.client;

import fs.strait.client.internal.AppendDataReply;
import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.CloseFileReply;
import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.FlushFileReply;
import fs.strait.client.internal.FlushFileRequest;
import fs.strait.client.internal.FlushMode;
import fs.strait.client.internal.OpenWriterReply;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.OptionalInt;

/**
 * A remote file, open for writing at its end; callers' streams and channels use it.
 *
 * <p>A write returns when its bytes are on their way. A later write reports an error, or flush or
 * close at the latest. After {@link ErrorKind#NO_SPACE} and {@link ErrorKind#UNAVAILABLE} the file
 * stays open: the writer keeps the bytes that the gateway hasn't taken, and sends them again with
 * the next write, flush, sync or close. For one thread at a time.
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
    // Appends without a reply, in order. The first `awaited` of them are on their way on the
    // connection; the others have to be sent (again).
    private final Deque<Append> kept = new ArrayDeque<>();
    private int awaited;
    private ByteBuffer chunk; // being filled; null while there is nothing in it
    private long sent; // the file's length with all appends
    private Connection connection; // while appends are on their way
    private OptionalInt replicas = OptionalInt.empty();
    private IOException failure;
    private IOException refusal; // the latest error, if the file goes on after it
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

    /** Replicas that held the bytes, at least, at the last flush, sync or close. */
    OptionalInt replicas() {
        return replicas;
    }

    // -- Writing

    /**
     * Takes all remaining bytes. If that fails, it has taken those before the buffer's position,
     * and none of a buffer with one chunk at most.
     */
    void write(ByteBuffer source) throws IOException {
        checkUsable();
        int room = chunk == null ? 0 : chunkBytes - chunk.position();
        // Room for two chunks: one is full now, another begins.
        boolean isReserved = source.remaining() > room;
        if (isReserved) {
            settle(WINDOW - 2);
        }
        while (source.hasRemaining()) {
            if (chunk == null) {
                if (!isReserved) {
                    settle(WINDOW - 2);
                }
                isReserved = false;
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
            append(full);
        }
    }

    /**
     * Sends the remaining bytes of a buffer of the session's pool, and returns the buffer there.
     */
    void send(ByteBuffer data) throws IOException {
        checkUsable();
        settle(WINDOW - 1);
        append(data);
    }

    /** Sends it if all before it are on their way; otherwise the next step does. */
    private void append(ByteBuffer data) throws IOException {
        AppendDataRequest request = new AppendDataRequest();
        request.setRequest_id(Mutation.newRequestId());
        request.setIs_retry(false).setHandle(handle).setExpected_offset(sent);
        kept.addLast(new Append(request, data));
        sent += data.remaining();
        if (awaited < kept.size() - 1) {
            return;
        }
        Deadline deadline = session.deadline();
        try {
            if (connection == null) {
                connection = session.borrow(deadline);
            }
            connection.waitUntil(deadline);
            connection.sendAppend(request, data);
            awaited++;
        } catch (ConnectionLostException lost) {
            giveBack();
        } catch (IOException error) {
            IOException failed = failed(error);
            if (failure != null) {
                throw failed;
            }
        }
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
        settle(0);
        try {
            FlushFileReply reply =
                    session.call(
                            Method.FLUSH_FILE,
                            new FlushFileRequest().setHandle(handle).setMode(mode));
            replicas = replicasOf(reply.isSetReplicas(), reply.getReplicas());
            refusal = null;
        } catch (IOException error) {
            throw explained(error);
        }
    }

    /**
     * Waits for the appends on their way. Then all written bytes are on stable storage. After
     * NO_SPACE and UNAVAILABLE it may be closed again; it ends with its client at the latest.
     */
    void close() throws IOException {
        boolean endedWithClient = session.isClosed() && chunk == null && kept.isEmpty();
        if (closed || endedWithClient) {
            closed = true;
            return;
        }
        boolean staysOpen = false;
        try {
            checkUsable();
            sendChunk();
            settle(0);
            CloseFileReply reply = closeHandle();
            replicas = replicasOf(reply.isSetReplicas(), reply.getReplicas());
            closed = true;
            session.forgetUnclosed(handle);
            checkLength(reply);
        } catch (IOException error) {
            staysOpen = failure == null && error == refusal;
            if (staysOpen) {
                session.noteUnclosed(handle);
            }
            throw error;
        } finally {
            if (!staysOpen) {
                abandon();
            }
        }
    }

    private void checkLength(CloseFileReply reply) throws IOException {
        if (reply.isSetLength() && reply.getLength() != sent) {
            String message = "close: the file has %d bytes instead of %d";
            throw Failures.of(
                    ErrorKind.INTERNAL, message.formatted(reply.getLength(), sent), path);
        }
    }

    private static OptionalInt replicasOf(boolean isSet, int count) {
        return isSet ? OptionalInt.of(count) : OptionalInt.empty();
    }

    private CloseFileReply closeHandle() throws IOException {
        try {
            return session.mutate(Method.CLOSE_FILE, new CloseFileRequest().setHandle(handle));
        } catch (IOException error) {
            throw explained(error);
        }
    }

    /** Unless it is closed, gives it up: bytes flushed before stay, others may. */
    void abandon() {
        giveBack();
        if (closed) {
            return;
        }
        closed = true;
        kept.clear();
        session.forgetUnclosed(handle);
        session.abandon(handle);
    }

    private void checkUsable() throws IOException {
        if (closed) {
            throw new IOException("the file is closed");
        }
        if (failure != null) {
            throw Failures.again(failure);
        }
    }

    // -- Appends on their way

    /** Takes replies until at most `leave` appends are on their way, and none is to be sent. */
    private void settle(int leave) throws IOException {
        Deadline deadline = session.deadline();
        try {
            try {
                if (kept.size() > awaited) {
                    repeatAll(deadline);
                }
                while (awaited > leave) {
                    deadline = session.deadline();
                    connection.waitUntil(deadline);
                    takeReply();
                }
            } catch (ConnectionLostException lost) {
                repeatAll(deadline);
            }
        } catch (IOException error) {
            throw failed(error);
        }
        if (kept.isEmpty()) {
            giveBack();
        }
    }

    /** Of the first append. */
    private void takeReply() throws IOException {
        try {
            done(connection.receive(Method.APPEND_DATA));
        } catch (StraitException error) {
            if (mayGoOn(error)) {
                drain();
                renew();
            }
            throw error;
        }
    }

    /**
     * Takes the replies behind a refused append's: the gateway has refused those appends too.
     * Unless the store took the first one all the same; the next reply then says so.
     */
    private void drain() {
        int taken = 0;
        Iterator<Append> each = kept.iterator();
        each.next();
        for (int number = 2; number <= awaited; number++) {
            Append append = each.next();
            try {
                if (isOf(append, connection.receive(Method.APPEND_DATA))) {
                    taken = number;
                }
            } catch (IOException error) {
                if (connection.isBroken()) {
                    break;
                }
            }
        }
        for (int number = 0; number < taken; number++) {
            session.buffers().giveBack(kept.removeFirst().data);
        }
    }

    /** Makes new requests of all appends: the gateway remembers that it refused the old ones. */
    private void renew() {
        for (Append append : kept) {
            append.request.setRequest_id(Mutation.newRequestId());
            append.request.setIs_retry(true); // the store may have taken it all the same
        }
        giveBack();
    }

    /**
     * Repeats requests without a reply; the gateway recognises those it has executed.
     *
     * @param first deadline of the first request, which may have waited already
     */
    private void repeatAll(Deadline first) throws IOException {
        giveBack();
        Deadline deadline = first;
        while (!kept.isEmpty()) {
            Append append = kept.peekFirst();
            Mutation repeated = Mutation.again(append.request);
            done(
                    session.attempt(
                            Method.APPEND_DATA,
                            repeated,
                            deadline,
                            again -> repeat(again, append)));
            deadline = session.deadline();
        }
        refusal = null;
    }

    private AppendDataReply repeat(Connection connection, Append append) throws IOException {
        connection.sendAppend(append.request, append.data);
        try {
            return connection.receive(Method.APPEND_DATA);
        } catch (StraitException error) {
            if (mayGoOn(error)) {
                renew();
            }
            throw error;
        }
    }

    private void done(AppendDataReply reply) throws IOException {
        Append append = kept.removeFirst();
        awaited = Math.max(0, awaited - 1);
        if (!isOf(append, reply)) {
            throw Failures.of(
                    ErrorKind.INTERNAL, "the gateway counts other bytes than were sent", path);
        }
        refusal = null;
        session.buffers().giveBack(append.data);
    }

    private static boolean isOf(Append append, AppendDataReply reply) {
        return reply.getPosition()
                == append.request.getExpected_offset() + append.data.remaining();
    }

    private static boolean mayGoOn(IOException error) {
        return Failures.isOf(error, ErrorKind.NO_SPACE)
                || Failures.isOf(error, ErrorKind.UNAVAILABLE);
    }

    /** The error of an append: the last one of the file, unless that goes on. */
    private IOException failed(IOException error) {
        IOException explained = explained(error);
        if (Failures.isOf(explained, ErrorKind.TIMED_OUT)) {
            // The append may have arrived; another one would double its bytes.
            explained = Failures.about(path, ErrorKind.TIMED_OUT, false, explained);
        }
        if (explained != refusal) {
            failure = explained;
            kept.clear();
        }
        giveBack();
        return explained;
    }

    /**
     * The error in terms of the caller, which doesn't know of handles. Remembers it if the file
     * goes on.
     */
    private IOException explained(IOException error) {
        boolean unknownHandle = Failures.isOf(error, ErrorKind.INVALID_ARGUMENT);
        boolean gone =
                Failures.isOf(error, ErrorKind.UNAUTHENTICATED)
                        || (unknownHandle && session.incarnation() != incarnation);
        if (gone) {
            String message =
                    "the session that had the file open has ended; flushed bytes are in the file,"
                            + " later ones may be";
            IOException unknown = Failures.of(ErrorKind.OUTCOME_UNKNOWN, message, path);
            unknown.initCause(error);
            return unknown;
        }
        if (unknownHandle && refusal instanceof StraitFailure first) {
            // The store couldn't go on, and the gateway has closed the file.
            String message = "the file ended with an earlier error: " + refusal.getMessage();
            failure = Failures.of(first.kind(), message, path, false);
            failure.initCause(error);
            return failure;
        }
        IOException named = Failures.at(path, error);
        if (mayGoOn(named)) {
            refusal = named;
        }
        return named;
    }

    private void giveBack() {
        awaited = 0;
        if (connection != null) {
            session.giveBack(connection);
            connection = null;
        }
    }
}
