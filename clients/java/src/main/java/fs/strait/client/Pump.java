package fs.strait.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/** Copies by buffers of a pool, reading in a thread of its own while this one writes. */
final class Pump {
    // Buffers filled and not yet written. Two would suffice for sides of steady speed.
    private static final int QUEUED = 4;

    /** Fills a buffer as far as the source has bytes; an empty buffer means its end. */
    interface Source {
        void fill(ByteBuffer buffer) throws IOException;
    }

    /** Takes the remaining bytes of a buffer, and the buffer, which it returns to the pool. */
    interface Sink {
        void take(ByteBuffer buffer) throws IOException;
    }

    /** An item of the queue: a full buffer, or the failure in place of one. */
    private record Filled(ByteBuffer buffer, Throwable failure) {}

    private final BufferPool pool;
    private final BlockingQueue<Filled> queue = new ArrayBlockingQueue<>(QUEUED);

    Pump(BufferPool pool) {
        this.pool = pool;
    }

    /** Returns the bytes copied. */
    long run(Source source, Sink sink, int pieceBytes, long total, Progress progress)
            throws IOException {
        Thread reader = new Thread(() -> readAll(source, pieceBytes), "strait-copy");
        reader.setDaemon(true);
        reader.start();
        try {
            long copied = 0;
            for (; ; ) {
                ByteBuffer buffer = next();
                int count = buffer.remaining();
                if (count == 0) {
                    pool.giveBack(buffer);
                    return copied;
                }
                sink.take(buffer);
                copied += count;
                progress.report(copied, Math.max(total, copied));
            }
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while copying");
        } finally {
            stop(reader);
        }
    }

    private void readAll(Source source, int pieceBytes) {
        try {
            int count;
            do {
                ByteBuffer buffer = pool.take();
                buffer.limit(pieceBytes);
                source.fill(buffer);
                buffer.flip();
                count = buffer.remaining();
                queue.put(new Filled(buffer, null));
            } while (count > 0);
        } catch (InterruptedException stopped) {
            // The writing side wants no more.
        } catch (Throwable failure) {
            tell(failure);
        }
    }

    private void tell(Throwable failure) {
        try {
            queue.put(new Filled(null, failure));
        } catch (InterruptedException stopped) {
            // The writing side doesn't wait for it.
        }
    }

    private ByteBuffer next() throws IOException, InterruptedException {
        Filled filled = queue.take();
        if (filled.failure instanceof IOException failure) {
            throw failure;
        }
        if (filled.failure != null) {
            throw new IOException("reading failed", filled.failure);
        }
        return filled.buffer;
    }

    private static void stop(Thread reader) {
        // Wakes it from its queue and from its waits for the gateway. Its source is closed only
        // after its end.
        reader.interrupt();
        boolean interrupted = false;
        while (reader.isAlive()) {
            try {
                reader.join();
            } catch (InterruptedException interrupt) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
