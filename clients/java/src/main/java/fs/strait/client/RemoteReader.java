package fs.strait.client;

import fs.strait.client.internal.OpenFileReply;
import fs.strait.client.internal.OpenFileRequest;
import fs.strait.client.internal.ReadRangeRequest;
import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * A remote file, open for reading; callers' streams and channels use it.
 *
 * <p>For one thread at a time, {@link #readAt} excepted.
 */
final class RemoteReader {
    // Bytes of the first request of a sequence, and most bytes of one elsewhere: its caller may
    // want only a few bytes, and have a large buffer.
    private static final int FIRST_READ_BYTES = 128 << 10;
    private static final int SKIP_BYTES = 64 << 10;

    /** The expected way of reading, as far as known. */
    enum Pattern {
        /** From begin to end. */
        WHOLE,
        /** From the start on, for an unknown distance. */
        SEQUENTIAL,
        /** At random; a read that follows another one is random, too. */
        RANDOM
    }

    private final Session session;
    private final String path;
    private final Pattern pattern;
    private long position;
    private long sequentialFrom; // a read at this position continues the one before
    private ReadAhead ahead;
    private volatile long handle;
    private volatile long length;
    private ByteBuffer identity; // absent where the store can't tell
    private volatile boolean closed;

    RemoteReader(Session session, String path, Pattern pattern) throws IOException {
        this.session = session;
        this.path = path;
        this.pattern = pattern;
        this.sequentialFrom = pattern == Pattern.RANDOM ? -1 : 0;
        open(session.deadline());
    }

    private synchronized void open(Deadline deadline) throws IOException {
        OpenFileReply reply =
                session.call(Method.OPEN_FILE, new OpenFileRequest().setPath(path), deadline);
        if (reply.getLength() < length) {
            throw Failures.of(
                    ErrorKind.UNAVAILABLE, "the file was replaced by a shorter one", path, false);
        }
        if (identity != null && reply.isSetIdentity() && !identity.equals(reply.bufferForIdentity())) {
            throw Failures.of(
                    ErrorKind.UNAVAILABLE, "the file was replaced by another", path, false);
        }
        handle = reply.getHandle();
        length = reply.getLength();
        if (reply.isSetIdentity()) {
            identity = reply.bufferForIdentity();
        }
    }

    /** Bytes of the file when it was opened. */
    long length() {
        return length;
    }

    long position() {
        return position;
    }

    void seek(long newPosition) {
        position = newPosition;
    }

    boolean isClosed() {
        return closed;
    }

    /** Reads at least one byte, unless `target` has no room; -1: the end of the file. */
    int read(ByteBuffer target) throws IOException {
        if (!target.hasRemaining()) {
            return 0;
        }
        Deadline deadline = session.deadline();
        int count = readAhead(target, deadline);
        if (count == 0) {
            int limit = target.limit();
            target.limit(target.position() + Math.min(target.remaining(), FIRST_READ_BYTES));
            try {
                count = readOnce(position, target, deadline);
            } finally {
                target.limit(limit);
            }
        }
        position += count;
        sequentialFrom = position;
        return count == 0 ? -1 : count;
    }

    /** Fills `target` from `offset` as far as the file extends; -1: it has no bytes there. */
    int readAt(long offset, ByteBuffer target) throws IOException {
        int filled = 0;
        int count = 1;
        while (target.hasRemaining() && count > 0) {
            count = readOnce(offset + filled, target, session.deadline());
            filled += count;
        }
        return filled == 0 && count == 0 ? -1 : filled;
    }

    /** Bytes available without waiting. */
    int readable() {
        return ahead == null || sequentialFrom != position ? 0 : ahead.readable();
    }

    /** Bytes from the requests in flight; 0 if the read isn't sequential, or they ended. */
    private int readAhead(ByteBuffer target, Deadline deadline) throws IOException {
        int start = target.position();
        int count = 0;
        try {
            if (ahead != null) {
                ahead.connection.waitUntil(deadline);
            }
            if (!continues()) {
                stopReadingAhead();
                return 0;
            }
            if (ahead == null && position < length) {
                ahead = newReadAhead(target.remaining(), deadline);
            }
            count = ahead == null ? 0 : ahead.read(target);
        } catch (IOException error) {
            boolean isOver =
                    Failures.isOf(error, ErrorKind.TIMED_OUT)
                            && (ahead == null || ahead.connection.isBroken());
            boolean isTheirs =
                    error instanceof ConnectionLostException || error instanceof StraitFailure;
            if (isOver || !isTheirs) {
                throw Failures.at(path, error);
            }
            // A single request, with its retries, tries again or reports the error.
            target.position(start);
        } finally {
            if (count == 0) {
                stopReadingAhead();
            }
        }
        return count;
    }

    private ReadAhead newReadAhead(int wanted, Deadline deadline) throws IOException {
        int chunk = Math.min(BufferPool.CHUNK_BYTES, session.maxChunkBytes());
        boolean whole = pattern == Pattern.WHOLE;
        int first = whole ? chunk : Math.max(FIRST_READ_BYTES, Math.min(wanted, chunk));
        int window = whole ? ReadAhead.WINDOW : 1;
        Connection connection = session.borrow(deadline);
        return new ReadAhead(connection, handle, position, length, first, window, chunk);
    }

    /** Whether the read continues the one before, perhaps by skipping requested bytes. */
    private boolean continues() throws IOException {
        if (sequentialFrom == position) {
            return true;
        }
        if (ahead == null || position < sequentialFrom || position >= ahead.requestedUntil()) {
            return false;
        }
        ByteBuffer skipped = ByteBuffer.allocate(SKIP_BYTES);
        while (sequentialFrom < position) {
            skipped.clear().limit((int) Math.min(SKIP_BYTES, position - sequentialFrom));
            int count = ahead.read(skipped);
            if (count == 0) {
                return false;
            }
            sequentialFrom += count;
        }
        return true;
    }

    /** Repeats a request on a new handle if the old one is gone, as with a session that ended. */
    private int readOnce(long offset, ByteBuffer target, Deadline deadline) throws IOException {
        IOException gone = null;
        for (int attempt = 0; attempt < Session.ATTEMPTS; attempt++) {
            if (gone != null) {
                Session.pause(Session.pauseMsBefore(attempt - 1));
                open(deadline);
            }
            try {
                return requestRange(offset, target, deadline);
            } catch (IOException error) {
                boolean handleGone =
                        Failures.isOf(error, ErrorKind.INVALID_ARGUMENT)
                                || Failures.isOf(error, ErrorKind.NOT_FOUND)
                                || Failures.isOf(error, ErrorKind.UNAUTHENTICATED);
                if (!handleGone || offset < 0) {
                    throw Failures.at(path, error);
                }
                gone = error;
            }
        }
        IOException error =
                Failures.of(
                        ErrorKind.UNAVAILABLE,
                        "the gateway restarts, or ends the session, again and again; try again later",
                        path);
        error.initCause(gone);
        throw error;
    }

    private int requestRange(long offset, ByteBuffer target, Deadline deadline)
            throws IOException {
        int start = target.position();
        int asked = Math.min(target.remaining(), session.maxChunkBytes());
        ReadRangeRequest request = new ReadRangeRequest();
        request.setHandle(handle).setOffset(offset).setLength(asked);
        return session.attempt(
                Method.READ_RANGE,
                null,
                deadline,
                connection -> {
                    target.position(start);
                    connection.send(Method.READ_RANGE, request);
                    int count = connection.beginRange();
                    if (count > asked) {
                        throw Failures.of(
                                ErrorKind.INTERNAL,
                                "the gateway sent more bytes than asked for",
                                path);
                    }
                    while (connection.payloadLeft() > 0) {
                        connection.readPayload(target);
                    }
                    return count;
                });
    }

    private void stopReadingAhead() {
        if (ahead != null) {
            session.giveBack(ahead.connection);
            ahead = null;
        }
    }

    void close() {
        if (closed) {
            return;
        }
        closed = true;
        stopReadingAhead();
        session.release(handle);
    }
}
