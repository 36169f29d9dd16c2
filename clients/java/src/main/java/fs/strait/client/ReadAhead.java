package fs.strait.client;

import fs.strait.client.internal.ReadRangeRequest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Requests in flight for the pieces that follow a position, on one connection.
 *
 * <p>As long as replies are whole, each payload goes directly from the socket to the reader. After
 * a short reply it requests the missing bytes again, and stashes the bytes that arrive before them.
 */
final class ReadAhead {
    /**
     * Requests in flight at once. With their size, they cover a link of 1 Gbit/s and 50 ms more
     * than twice: with eight, a pause of some milliseconds on either side left it idle. The gateway
     * runs eight of one connection at once, and the next has arrived when one is done.
     */
    static final int WINDOW = 16;

    /** A requested piece of the file; `next` is its first byte not yet delivered. */
    private static final class Piece {
        long next;
        final long end;
        ByteBuffer stash; // in the state for writing

        Piece(long next, long end) {
            this.next = next;
            this.end = end;
        }

        boolean isStashed() {
            return stash != null && stash.position() > 0;
        }
    }

    private record Reply(Piece piece, long offset, int asked) {}

    final Connection connection;
    private final long handle;
    private final long until;
    private final int maxPieceBytes;
    private int pieceBytes;
    private int window;
    private long nextRequest;
    private final Deque<Piece> pieces = new ArrayDeque<>(); // by offset
    private final Deque<Reply> replies = new ArrayDeque<>(); // by request
    private Piece receiving; // whose payload is being read
    private boolean ended;

    /**
     * Starts without requests.
     *
     * @param from the first byte wanted
     * @param until the end of the file
     * @param firstBytes of the first request; later ones double it up to a chunk
     * @param firstWindow requests in flight at first: a reader of few bytes shouldn't pay for many
     */
    ReadAhead(
            Connection connection,
            long handle,
            long from,
            long until,
            int firstBytes,
            int firstWindow,
            int maxPieceBytes) {
        this.connection = connection;
        this.handle = handle;
        this.nextRequest = from;
        this.until = until;
        this.maxPieceBytes = maxPieceBytes;
        this.pieceBytes = Math.min(firstBytes, maxPieceBytes);
        this.window = firstWindow;
    }

    /** The end of the requested bytes. */
    long requestedUntil() {
        return nextRequest;
    }

    /** Bytes available without waiting. */
    int readable() {
        Piece first = pieces.peekFirst();
        if (first == null || first.isStashed()) {
            return first == null ? 0 : first.stash.position();
        }
        return receiving == first ? connection.readable() : 0;
    }

    /** Reads at least one byte; 0: no more came, since the file was cut or `until` is reached. */
    int read(ByteBuffer target) throws IOException {
        fillWindow();
        while (!ended && !pieces.isEmpty()) {
            Piece first = pieces.peekFirst();
            if (first.isStashed()) {
                return delivered(first, takeStashed(first, target));
            } else if (connection.payloadLeft() == 0) {
                beginReply();
            } else if (receiving == first) {
                return delivered(first, connection.readPayload(target));
            } else {
                stashPayload();
            }
        }
        return 0;
    }

    private static int takeStashed(Piece piece, ByteBuffer target) {
        ByteBuffer stash = piece.stash.flip();
        int count = Math.min(stash.remaining(), target.remaining());
        target.put(stash.slice(0, count));
        stash.position(count).compact();
        return count;
    }

    private void beginReply() throws IOException {
        Reply reply = replies.removeFirst();
        int length = connection.beginRange();
        if (length > reply.asked) {
            throw Failures.of(
                    ErrorKind.INTERNAL, "the gateway sent more bytes than asked for", null);
        }
        receiving = reply.piece;
        if (length == 0) {
            ended = true; // cut since it was opened
        } else if (length < reply.asked) {
            request(reply.piece, reply.offset + length, reply.asked - length);
        }
    }

    private void stashPayload() throws IOException {
        if (receiving.stash == null) {
            receiving.stash = ByteBuffer.allocate((int) (receiving.end - receiving.next));
        }
        while (connection.payloadLeft() > 0) {
            connection.readPayload(receiving.stash);
        }
    }

    /** After the last byte of a piece, requests more at once, before the caller uses it. */
    private int delivered(Piece piece, int count) throws IOException {
        piece.next += count;
        if (piece.next == piece.end) {
            pieces.removeFirst();
            window = Math.min(window + 1, WINDOW);
            pieceBytes = Math.min(pieceBytes * 2, maxPieceBytes);
            fillWindow();
        }
        return count;
    }

    private void fillWindow() throws IOException {
        while (pieces.size() < window && nextRequest < until) {
            int length = (int) Math.min(pieceBytes, until - nextRequest);
            Piece piece = new Piece(nextRequest, nextRequest + length);
            pieces.addLast(piece);
            request(piece, nextRequest, length);
            nextRequest += length;
        }
    }

    private void request(Piece piece, long offset, int length) throws IOException {
        ReadRangeRequest request = new ReadRangeRequest();
        request.setHandle(handle).setOffset(offset).setLength(length);
        connection.send(Method.READ_RANGE, request);
        replies.addLast(new Reply(piece, offset, length));
    }
}
