package fs.strait.client;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Buffers outside the heap, each for one request's payload, kept for reuse: to make one costs as
 * much as to fill it.
 */
final class BufferPool {
    /**
     * Bytes of a request in a row of them. On loopback, 0.25 MiB cost three times the CPU, and 2 or
     * 4 MiB gained nothing that could be told from noise.
     */
    static final int CHUNK_BYTES = 1 << 20;

    // What a file being put has in use; more are left to the garbage collector.
    private static final int MAX_KEPT = 24;

    private final Deque<ByteBuffer> kept = new ArrayDeque<>();

    /** An empty buffer of {@link #CHUNK_BYTES}. */
    synchronized ByteBuffer take() {
        ByteBuffer buffer = kept.pollLast();
        return buffer == null ? ByteBuffer.allocateDirect(CHUNK_BYTES) : buffer.clear();
    }

    synchronized void giveBack(ByteBuffer buffer) {
        if (kept.size() < MAX_KEPT) {
            kept.addLast(buffer);
        }
    }
}
