package fs.strait.client;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Buffers outside the heap, each for one request's payload, kept for reuse: making one costs as
 * much as filling it.
 */
final class BufferPool {
    /**
     * Bytes of each request in a sequence. On loopback, 0.25 MiB cost three times the CPU; 2 or 4
     * MiB gained nothing measurable.
     */
    static final int CHUNK_BYTES = 1 << 20;

    // Buffers that one put uses; the garbage collector takes further ones.
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
