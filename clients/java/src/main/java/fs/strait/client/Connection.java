package fs.strait.client;

import fs.strait.client.internal.AppendDataRequest;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.apache.thrift.TBase;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.TException;

/**
 * One socket, used by one caller at a time; replies arrive in the order of requests.
 *
 * <p>It stays usable after the gateway's failures, but not after the network's.
 */
final class Connection {
    /** Number of the field deadline_ms, which each request has. */
    private static final int DEADLINE_FIELD = 15;

    private final String gateway;
    private final ConnectOptions options;
    private final AtomicInteger silences;
    private final SocketTransport transport;
    private final Messages messages;
    private Deadline deadline;
    // Time left to wait for the payload being received. Pauses of the reader don't count.
    private Duration payloadPatience = Duration.ZERO;
    private int inFlight;
    private boolean broken;
    private boolean answered;

    /** Number of the session's login that it is attached by. */
    int login;

    /**
     * Without TLS if `tls` is null.
     *
     * @param silences consecutive requests, on any connection of the session, without an answer
     */
    Connection(
            String host,
            int port,
            ConnectOptions options,
            SSLContext tls,
            Deadline connectBy,
            AtomicInteger silences)
            throws IOException {
        this.gateway = StraitUri.address(host, port);
        this.options = options;
        this.silences = silences;
        this.deadline = connectBy;
        Wire wire = options.wire;
        try {
            SocketLink socket = new SocketLink(host, port, connectBy);
            Link link = tls == null ? socket : new TlsLink(socket, tls, host, port);
            transport = new SocketTransport(link, wire.framed);
        } catch (ClosedByInterruptException interrupt) {
            throw new InterruptedIOException("interrupted while connecting to the gateway");
        } catch (IOException error) {
            boolean explained = error instanceof StraitFailure;
            throw explained ? error : new ConnectionLostException(error, false);
        }
        messages = new Messages(transport, wire.compact);
    }

    /**
     * Sets the deadline for all further sending and receiving, which fail as TIMED_OUT after it.
     */
    void waitUntil(Deadline newDeadline) {
        deadline = newDeadline;
        transport.waitUntil(newDeadline);
    }

    <R extends TBase<R, ?>> R call(Method<R> method, TBase<?, ?> request) throws IOException {
        // Not in those of a stream: the time of each begins with the reply before it.
        if (method != Method.READ_RANGE && method != Method.APPEND_DATA) {
            setDeadline(request);
        }
        send(method, request);
        return receive(method);
    }

    /** Tells the gateway how long this client waits. */
    private <F extends TFieldIdEnum> void setDeadline(TBase<?, F> request) {
        long leftMs = Math.min(Math.max(deadline.leftMs(), 1), Integer.MAX_VALUE);
        request.setFieldValue(request.fieldForId(DEADLINE_FIELD), (int) leftMs);
    }

    /** Sends a request; each needs its receive, in the same order. */
    void send(Method<?> method, TBase<?, ?> request) throws IOException {
        exchange(
                method.name(),
                () -> {
                    messages.send(method.name(), request);
                    return null;
                });
        inFlight++;
    }

    /** Sends an appendData request with the remaining bytes of `data`. */
    void sendAppend(AppendDataRequest request, ByteBuffer data) throws IOException {
        exchange(
                Method.APPEND_DATA.name(),
                () -> {
                    messages.sendAppend(request, data);
                    return null;
                });
        inFlight++;
    }

    <R extends TBase<R, ?>> R receive(Method<R> method) throws IOException {
        return exchange(
                method.name(),
                () -> {
                    inFlight--;
                    R reply = messages.receive(method);
                    answered = true;
                    silences.set(0);
                    return reply;
                });
    }

    /** See {@link Messages#beginRange}. */
    int beginRange() throws IOException {
        return exchange(
                Method.READ_RANGE.name(),
                () -> {
                    inFlight--;
                    int length = messages.beginRange();
                    payloadPatience = options.timeout;
                    silences.set(0);
                    return length;
                });
    }

    /** See {@link Messages#readPayload}. */
    int readPayload(ByteBuffer target) throws IOException {
        if (transport.readable() > 0) {
            return exchange(Method.READ_RANGE.name(), () -> messages.readPayload(target));
        }
        long began = System.nanoTime();
        transport.waitUntil(Deadline.earlier(deadline, Deadline.after(payloadPatience)));
        try {
            return exchange(Method.READ_RANGE.name(), () -> messages.readPayload(target));
        } finally {
            transport.waitUntil(deadline);
            payloadPatience = payloadPatience.minusNanos(System.nanoTime() - began);
        }
    }

    /** Unread bytes of the readRange reply being received. */
    int payloadLeft() {
        return messages.payloadLeft();
    }

    /** The part of them that can be read without waiting. */
    int readable() {
        return Math.min(messages.payloadLeft(), transport.readable());
    }

    private interface Exchange<T> {
        T run() throws IOException, TException;
    }

    private <T> T exchange(String method, Exchange<T> exchange) throws IOException {
        boolean whole = false;
        try {
            T result = exchange.run();
            whole = true;
            return result;
        } catch (IOException error) {
            // The gateway's own error is a whole and well-formed answer, too.
            whole = error instanceof StraitFailure;
            throw whole ? error : broken(method, error);
        } catch (TException error) {
            throw broken(method, error.getCause() instanceof IOException cause ? cause : error);
        } finally {
            if (!whole) {
                close();
            }
        }
    }

    private IOException broken(String method, Exception error) {
        if (error instanceof SocketTimeoutException) {
            silences.incrementAndGet();
            return Failures.noAnswer(method, gateway, options.timeout);
        }
        if (error instanceof SSLException said && CertificateAdvice.onRefusal(said) != null) {
            // A retry would change nothing.
            String message = "TLS with the gateway: " + CertificateAdvice.onRefusal(said);
            return Failures.caused(ErrorKind.UNAUTHENTICATED, message, said);
        }
        if (error instanceof InterruptedIOException interrupted) {
            return interrupted;
        }
        return new ConnectionLostException(error, true);
    }

    InetAddress peer() throws IOException {
        return transport.peer();
    }

    /** Whether a reply has come over it. */
    boolean hasAnswered() {
        return answered;
    }

    boolean isBroken() {
        return broken;
    }

    /** Whether it can serve another caller. */
    boolean isIdle() {
        return !broken && inFlight == 0 && messages.payloadLeft() == 0;
    }

    /**
     * Whether the gateway closed it since the last reply, as it does at a restart. If this is
     * detected before a request is sent, the request can't have been executed.
     */
    boolean endedWhileIdle() {
        return transport.stirredWhileIdle();
    }

    void close() {
        broken = true;
        transport.close();
    }
}
