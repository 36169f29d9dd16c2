package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;

/**
 * Waits for events, and pauses that name their reason: the only sleeps of these tests.
 *
 * <p>The counterpart of the test kit's {@code wait.rs}. {@code scripts/sleeps.py} rejects sleeps
 * elsewhere.
 */
final class Waits {
    /** Longest wait for an event. Only failing tests wait so long. */
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    /** Between two looks: short beside a start-up, and long enough to leave the cores free. */
    private static final Duration PAUSE = Duration.ofMillis(20);

    private Waits() {}

    /** A look at something. */
    interface Condition {
        boolean holds() throws IOException;
    }

    /** Waits until the condition holds; after the deadline, fails with its name. */
    static void eventually(String what, Condition condition)
            throws IOException, InterruptedException {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (!condition.holds()) {
            assertTrue(System.nanoTime() < deadline, () -> "not within " + DEADLINE + ": " + what);
            pause("between two looks", PAUSE);
        }
    }

    /** Pauses this thread. The reason is for the reader: an event to wait for would be better. */
    static void pause(String why, Duration duration) throws InterruptedException {
        Thread.sleep(duration.toMillis());
    }
}
