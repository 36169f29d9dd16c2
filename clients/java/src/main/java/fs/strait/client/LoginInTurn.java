package fs.strait.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** One login at a time, whose outcome serves all threads that wait for it. */
final class LoginInTurn {
    /** The login, which one thread runs. */
    interface Login {
        void run() throws IOException;
    }

    private static final class Attempt {
        final CountDownLatch over = new CountDownLatch(1);
        volatile IOException failure;
    }

    private final AtomicReference<Attempt> current = new AtomicReference<>();

    /**
     * Logs in, or waits for the thread that does so already.
     *
     * @throws IOException also the error of that thread's attempt
     */
    void run(Deadline deadline, Login login) throws IOException {
        Attempt ours = new Attempt();
        Attempt theirs = current.compareAndExchange(null, ours);
        if (theirs != null) {
            follow(theirs, deadline);
            return;
        }
        try {
            login.run();
        } catch (InterruptedIOException interrupt) {
            throw interrupt; // which is this thread's alone
        } catch (IOException error) {
            ours.failure = error;
            throw error;
        } finally {
            current.set(null);
            ours.over.countDown();
        }
    }

    private static void follow(Attempt attempt, Deadline deadline) throws IOException {
        try {
            if (!attempt.over.await(deadline.leftMs(), TimeUnit.MILLISECONDS)) {
                throw new SocketTimeoutException("no login in time");
            }
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for the gateway");
        }
        IOException failure = attempt.failure;
        if (failure instanceof ConnectionLostException lost) {
            throw new ConnectionLostException(lost, false);
        }
        if (failure instanceof StraitFailure said) {
            // A new object, since its trace would be the other thread's.
            throw Failures.about(said.path(), said.kind(), said.retrySafe(), failure);
        }
        if (failure != null) {
            throw new IOException(failure.getMessage(), failure);
        }
    }
}
