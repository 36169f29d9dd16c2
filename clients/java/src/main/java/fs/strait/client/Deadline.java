package fs.strait.client;

import java.time.Duration;

/** The time when a request times out, with its connecting, login and retries. */
record Deadline(long nanos) {
    static Deadline after(Duration patience) {
        return new Deadline(System.nanoTime() + patience.toNanos());
    }

    /** The time left, rounded up; 0 or less if it is over. */
    long leftMs() {
        return Math.floorDiv(nanos - System.nanoTime() + 999_999, 1_000_000L);
    }

    boolean isWithin(long ms) {
        return leftMs() <= ms;
    }

    static Deadline earlier(Deadline one, Deadline other) {
        return one.nanos - other.nanos <= 0 ? one : other;
    }
}
