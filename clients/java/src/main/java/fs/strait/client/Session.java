package fs.strait.client;

import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.CloseSessionRequest;
import fs.strait.client.internal.OpenSessionReply;
import fs.strait.client.internal.OpenSessionRequest;
import fs.strait.client.internal.ProtocolVersion;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import org.apache.thrift.TBase;

/**
 * A session with a gateway: login, a pool of connections, and retries.
 *
 * <p>For requests of any number of threads; each has a connection to itself while it needs one.
 */
final class Session {
    /**
     * Tries of one request before a broken connection becomes the caller's error. With the pauses
     * below they span 1.6 to 3.1 s: a gateway's restart.
     */
    static final int ATTEMPTS = 6;

    private static final long FIRST_PAUSE_MS = 100;
    // A live gateway accepts a connection at once; only its answers may take long.
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);
    // Time limit for cleanup requests (an open handle, the session, a temporary file) once the
    // gateway has left a request unanswered. After a second one there is no time.
    private static final Duration PARTING = Duration.ofSeconds(2);
    // Idle connections kept: few callers are concurrent, and each connection costs the gateway one.
    private static final int MAX_IDLE_CONNECTIONS = 8;
    // Used if the gateway doesn't report its limit.
    private static final int DEFAULT_CHUNK_BYTES = 4 << 20;

    private final String host;
    private final int port;
    private final ConnectOptions options;
    private final SSLContext tls; // null: in the clear
    private final Deque<Connection> idle = new ArrayDeque<>(); // guards itself and all below
    private final LoginInTurn turn = new LoginInTurn();
    private final AtomicInteger silences = new AtomicInteger();
    private final BufferPool buffers = new BufferPool();
    // Handles of files whose close failed, and may be repeated.
    private final Set<Long> unclosed = ConcurrentHashMap.newKeySet();

    private volatile boolean closed;
    private volatile String token;
    private volatile String user = "";
    private volatile StoreInfo store = Convert.store(null);
    private volatile int maxChunkBytes = DEFAULT_CHUNK_BYTES;
    private volatile long incarnation; // another one than a handle's: the handle is gone
    private volatile int login; // counts logins: connections of an older one aren't pooled

    Session(String host, int port, ConnectOptions options) throws IOException {
        this.host = host;
        this.port = port;
        this.options = options;
        this.tls = options.tls == null ? null : options.tls.context();
        this.token = options.token;
        // At once and without retries: a user who mistypes an address needs to know now.
        try {
            giveBack(connect(deadline(), null));
        } catch (ConnectionLostException lost) {
            throw unavailable(lost);
        }
    }

    String user() {
        return user;
    }

    String token() {
        return token;
    }

    StoreInfo store() {
        return store;
    }

    /** Incarnation of the session on the gateway; 0 if the gateway doesn't tell. */
    long incarnation() {
        return incarnation;
    }

    int maxChunkBytes() {
        return maxChunkBytes;
    }

    BufferPool buffers() {
        return buffers;
    }

    boolean isClosed() {
        return closed;
    }

    // -- Deadlines

    /** The deadline of a request that begins now, including all its steps. */
    Deadline deadline() {
        return Deadline.after(options.timeout);
    }

    /** The deadline of a request that only cleans up: soon, if the gateway is silent. */
    Deadline parting() {
        return switch (silences.get()) {
            case 0 -> deadline();
            case 1 -> Deadline.earlier(deadline(), Deadline.after(PARTING));
            default -> Deadline.after(Duration.ZERO);
        };
    }

    // -- Requests

    /** Closes an open file or listing of the gateway; the outcome doesn't matter. */
    void release(long handle) {
        CloseFileRequest request = new CloseFileRequest().setHandle(handle);
        release(connection -> connection.call(Method.CLOSE_FILE, request));
    }

    /** Has the gateway abandon a file that is being written; doesn't wait for the answer. */
    void abandon(long handle) {
        CloseFileRequest request = new CloseFileRequest().setHandle(handle).setAbandon(true);
        // With an id, it runs even if the connection ends.
        request.setRequest_id(Mutation.newRequestId());
        release(
                connection -> {
                    connection.send(Method.CLOSE_FILE, request);
                    return null;
                });
    }

    private void release(Exchange<?> exchange) {
        if (isClosed()) {
            return;
        }
        try {
            once(parting(), exchange);
        } catch (IOException ignored) {
            // The gateway drops the handle with the session.
        }
    }

    /** Remembers a file that couldn't be closed, to be abandoned with the client. */
    void noteUnclosed(long handle) {
        unclosed.add(handle);
    }

    void forgetUnclosed(long handle) {
        unclosed.remove(handle);
    }

    /** The steps of one request on a connection. */
    interface Exchange<T> {
        T run(Connection connection) throws IOException;
    }

    /** One request and its reply, over a new connection if the old one broke. */
    <R extends TBase<R, ?>> R call(Method<R> method, TBase<?, ?> request) throws IOException {
        return call(method, request, deadline());
    }

    <R extends TBase<R, ?>> R call(Method<R> method, TBase<?, ?> request, Deadline deadline)
            throws IOException {
        try {
            return attempt(method, null, deadline, connection -> connection.call(method, request));
        } catch (StraitException error) {
            throw unansweredAt(Mutation.pathOf(request), error);
        }
    }

    /** The same for a request that changes something. */
    <R extends TBase<R, ?>> R mutate(Method<R> method, TBase<?, ?> request) throws IOException {
        return mutate(method, request, deadline());
    }

    <R extends TBase<R, ?>> R mutate(Method<R> method, TBase<?, ?> request, Deadline deadline)
            throws IOException {
        Mutation mutation = Mutation.of(request);
        return attempt(method, mutation, deadline, connection -> connection.call(method, request));
    }

    /**
     * An exchange, retried while the connection breaks. Every request may be repeated: it either
     * changes nothing, or carries the id by which the gateway recognises the repetition.
     *
     * @param mutation null for a request that changes nothing
     */
    <T> T attempt(Method<?> method, Mutation mutation, Deadline deadline, Exchange<T> exchange)
            throws IOException {
        Deadline connectAtOnce = Deadline.after(CONNECT_TIMEOUT);
        Deadline connectBy = null; // once a connection was lost
        boolean sent = false;
        boolean renewed = false;
        ConnectionLostException last = null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            long pauseMs = pauseMsBefore(attempt);
            if (connectBy != null && connectBy.isWithin(pauseMs)) {
                break;
            }
            pause(pauseMs);
            boolean connecting = true;
            try {
                Connection connection = borrow(deadline, connectBy);
                connecting = false;
                try {
                    return exchange.run(connection);
                } finally {
                    giveBack(connection);
                }
            } catch (ConnectionLostException lost) {
                if (last == null) {
                    // If a gateway doesn't accept connections now, wait for it once.
                    Deadline limit = lost.sent ? Deadline.after(CONNECT_TIMEOUT) : connectAtOnce;
                    connectBy = Deadline.earlier(deadline, limit);
                }
                last = lost;
                sent |= lost.sent;
                dropIdle();
                if (mutation != null) {
                    mutation.retry(sent);
                }
            } catch (StraitException error) {
                // The session idled out, or its gateway was replaced.
                if (error.kind() == ErrorKind.UNAUTHENTICATED && !renewed) {
                    renewed = true;
                    dropIdle();
                    continue;
                }
                if (connecting && sent && mutation != null) {
                    throw unknown(method, mutation, error);
                }
                if (error.kind() == ErrorKind.TIMED_OUT && mutation != null) {
                    throw Failures.of(error.kind(), error.getMessage(), mutation.path(), false);
                }
                throw error;
            }
        }
        silences.incrementAndGet();
        if (mutation == null) {
            throw unavailable(last);
        }
        throw sent
                ? unknown(method, mutation, last)
                : Failures.at(mutation.path(), unavailable(last));
    }

    /** The error of a change that was sent, if no gateway can be asked about it. */
    private static IOException unknown(Method<?> method, Mutation mutation, IOException why) {
        String message =
                "%s: the connection broke, and no gateway tells whether it was done (%s)";
        IOException error =
                Failures.of(
                        ErrorKind.OUTCOME_UNKNOWN,
                        message.formatted(method.name(), why.getMessage()),
                        mutation.path());
        error.initCause(why);
        return error;
    }

    /** A request without retries, for a reply that can be received only once. */
    <R extends TBase<R, ?>> R callOnce(Method<R> method, TBase<?, ?> request) throws IOException {
        try {
            return once(deadline(), connection -> connection.call(method, request));
        } catch (StraitException error) {
            throw unansweredAt(Mutation.pathOf(request), error);
        } catch (ConnectionLostException lost) {
            throw Failures.at(Mutation.pathOf(request), unavailable(lost));
        }
    }

    /** The same failure, with this path if no answer came. */
    private static IOException unansweredAt(String path, StraitException error) {
        return switch (error.kind()) {
            case TIMED_OUT, UNAVAILABLE -> Failures.at(path, error);
            default -> error;
        };
    }

    /** An exchange without retries. */
    <T> T once(Deadline deadline, Exchange<T> exchange) throws IOException {
        Connection connection = borrow(deadline);
        try {
            return exchange.run(connection);
        } finally {
            giveBack(connection);
        }
    }

    static long pauseMsBefore(int attempt) {
        // Half of it is random, so that the clients of one gateway don't return at once.
        double share = ThreadLocalRandom.current().nextDouble(0.5, 1);
        return attempt == 0 ? 0 : (long) ((FIRST_PAUSE_MS << (attempt - 1)) * share);
    }

    static void pause(long ms) throws InterruptedIOException {
        if (ms == 0) {
            return;
        }
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for the gateway");
        }
    }

    // -- Connections

    /** A connection for the caller only, until it returns it, for use until the deadline. */
    Connection borrow(Deadline deadline) throws IOException {
        return borrow(deadline, null);
    }

    private Connection borrow(Deadline deadline, Deadline connectBy) throws IOException {
        for (; ; ) {
            Connection connection;
            synchronized (idle) {
                if (closed) {
                    throw new IOException("the client is closed");
                }
                connection = idle.pollLast();
            }
            if (connection == null) {
                return connect(deadline, connectBy);
            }
            if (!connection.endedWhileIdle()) {
                connection.waitUntil(deadline);
                return connection;
            }
            connection.close();
        }
    }

    void giveBack(Connection connection) {
        synchronized (idle) {
            boolean usable = connection.isIdle() && connection.login == login && !closed;
            if (usable && idle.size() < MAX_IDLE_CONNECTIONS) {
                idle.addLast(connection);
                return;
            }
        }
        connection.close();
    }

    /** Connects by `connectBy` or, if that is null, within the usual time limit. */
    private Connection connect(Deadline deadline, Deadline connectBy) throws IOException {
        Deadline limit = connectBy == null ? Deadline.after(CONNECT_TIMEOUT) : connectBy;
        Connection connection =
                new Connection(
                        host, port, options, tls, Deadline.earlier(deadline, limit), silences);
        connection.waitUntil(deadline);
        try {
            checkSecrecy(connection);
            attach(connection, deadline);
            return connection;
        } catch (ConnectionLostException lost) {
            // The caller's own request wasn't sent yet.
            throw new ConnectionLostException(lost, false, !connection.hasAnswered());
        } catch (IOException error) {
            connection.close();
            throw error;
        }
    }

    /** Refuses to send credentials over links that others could read. */
    private void checkSecrecy(Connection connection) throws IOException {
        boolean isSecret = options.password != null || options.token != null;
        if (isSecret && tls == null && !connection.peer().isLoopbackAddress()) {
            throw Failures.of(
                    ErrorKind.UNAUTHENTICATED,
                    "a password or token isn't sent to another machine in the clear; use TLS"
                            + " (ConnectOptions.tls)",
                    null);
        }
    }

    /**
     * Attaches by the session's token, in parallel with other threads; or by a login that serves
     * all of them.
     */
    private void attach(Connection connection, Deadline deadline) throws IOException {
        int refused = -1; // the login whose token isn't good any more
        for (; ; ) {
            String current;
            int ours;
            synchronized (idle) {
                current = token;
                ours = login;
            }
            if (current != null && ours != refused) {
                if (attachBy(current, connection, ours)) {
                    return;
                }
                refused = ours;
            }
            if (logInInTurn(connection, ours, deadline)) {
                return;
            }
            // Another thread has logged in meanwhile; its token serves this one, too.
        }
    }

    /** Whether this thread's connection is now logged in, rather than another one. */
    private boolean logInInTurn(Connection connection, int ours, Deadline deadline)
            throws IOException {
        boolean[] isOurs = {false};
        try {
            turn.run(
                    deadline,
                    () -> {
                        isOurs[0] = login == ours;
                        if (isOurs[0]) {
                            logIn(connection);
                        }
                    });
        } catch (SocketTimeoutException silence) {
            throw Failures.noAnswer(
                    Method.OPEN_SESSION.name(), StraitUri.address(host, port), options.timeout);
        }
        return isOurs[0];
    }

    /**
     * Whether the token is still valid. If not, and the caller didn't give it, a new login is
     * needed.
     */
    private boolean attachBy(String current, Connection connection, int ours) throws IOException {
        try {
            open(connection, new OpenSessionRequest().setToken(current), ours);
            return true;
        } catch (StraitException error) {
            boolean isCallers = options.token != null;
            if (error.kind() != ErrorKind.UNAUTHENTICATED || isCallers || connection.isBroken()) {
                throw error;
            }
            return false;
        }
    }

    private void logIn(Connection connection) throws IOException {
        OpenSessionRequest request = new OpenSessionRequest();
        request.setStore(options.store).setUser(options.user).setPassword(options.password);
        open(connection, request, login + 1);
    }

    private void open(Connection connection, OpenSessionRequest request, int ours)
            throws IOException {
        request.setVersion(ProtocolVersion.V1);
        OpenSessionReply reply = connection.call(Method.OPEN_SESSION, request);
        connection.login = ours;
        synchronized (idle) {
            if (ours < login) {
                return; // of a session that another login has replaced meanwhile
            }
            login = ours;
            token = reply.getToken();
            incarnation = reply.getIncarnation();
            user = Convert.text(reply.getUser());
            if (reply.isSetStore()) {
                store = Convert.store(reply.getStore());
            }
            if (reply.isSetLimits() && reply.getLimits().getMax_chunk_bytes() > 0) {
                maxChunkBytes = reply.getLimits().getMax_chunk_bytes();
            }
        }
    }

    private void dropIdle() {
        List<Connection> dropped;
        synchronized (idle) {
            dropped = new ArrayList<>(idle);
            idle.clear();
        }
        dropped.forEach(Connection::close);
    }

    private IOException unavailable(ConnectionLostException lost) {
        boolean mayWantTls = lost.unanswered && tls == null;
        String question =
                mayWantTls
                        ? "is it running, is the address right, and does it serve TLS only?"
                        : "is it running, and is the address right?";
        String message = lost.tls ? "TLS with %s: %s" : "no gateway at %s (%s); " + question;
        IOException error =
                Failures.of(
                        ErrorKind.UNAVAILABLE,
                        message.formatted(StraitUri.address(host, port), lost.getMessage()),
                        null);
        error.initCause(lost);
        return error;
    }

    /** Ends the session, unless the caller gave its token. */
    void close() {
        if (closed) {
            return;
        }
        if (options.token != null) {
            // The session goes on, and would keep them open.
            unclosed.forEach(this::abandon);
        } else {
            try {
                CloseSessionRequest request = new CloseSessionRequest();
                once(parting(), connection -> connection.call(Method.CLOSE_SESSION, request));
            } catch (IOException ignored) {
                // It idles out.
            }
        }
        synchronized (idle) {
            closed = true;
        }
        dropIdle();
    }
}
