package fs.strait.client;

import fs.strait.client.internal.AppendDataRequest;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.apache.thrift.TBase;
import org.apache.thrift.TException;

/**
 * One socket, used by one caller at a time; replies come in the order of requests.
 *
 * <p>Failures of the gateway leave it usable, those of the network don't.
 */
final class Connection {
    private final ConnectOptions options;
    private final AtomicInteger silences;
    private final SocketTransport transport;
    private final Messages messages;
    private int inFlight;
    private boolean broken;

    /** Which of its session's logins it is attached by. */
    int login;

    /**
     * In the clear where there is no `tls`.
     *
     * @param silences requests in a row, on any connection of the session, without an answer
     */
    Connection(
            String host,
            int port,
            ConnectOptions options,
            SSLContext tls,
            Deadline connectBy,
            AtomicInteger silences)
            throws IOException {
        this.options = options;
        this.silences = silences;
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

    /** Whatever is sent and received from now on is over by then, or fails as TIMED_OUT. */
    void waitUntil(Deadline deadline) {
        transport.waitUntil(deadline);
    }

    <R extends TBase<R, ?>> R call(Method<R> method, TBase<?, ?> request) throws IOException {
        send(method, request);
        return receive(method);
    }

    /** Sends a request; each needs its receive, in the same order. */
    void send(Method<?> method, TBase<?, ?> request) throws IOException {
        exchange(
                () -> {
                    messages.send(method.name(), request);
                    return null;
                });
        inFlight++;
    }

    /** Sends an appendData request with the remaining bytes of `data`. */
    void sendAppend(AppendDataRequest request, ByteBuffer data) throws IOException {
        exchange(
                () -> {
                    messages.sendAppend(request, data);
                    return null;
                });
        inFlight++;
    }

    <R extends TBase<R, ?>> R receive(Method<R> method) throws IOException {
        return exchange(
                () -> {
                    inFlight--;
                    R reply = messages.receive(method);
                    silences.set(0);
                    return reply;
                });
    }

    /** See {@link Messages#beginRange}. */
    int beginRange() throws IOException {
        return exchange(
                () -> {
                    inFlight--;
                    int length = messages.beginRange();
                    silences.set(0);
                    return length;
                });
    }

    /** See {@link Messages#readPayload}. */
    int readPayload(ByteBuffer target) throws IOException {
        return exchange(() -> messages.readPayload(target));
    }

    /** Bytes of the readRange reply being received that are still to be read. */
    int payloadLeft() {
        return messages.payloadLeft();
    }

    /** How much of that can be had without waiting. */
    int readable() {
        return Math.min(messages.payloadLeft(), transport.readable());
    }

    private interface Exchange<T> {
        T run() throws IOException, TException;
    }

    private <T> T exchange(Exchange<T> exchange) throws IOException {
        boolean whole = false;
        try {
            T result = exchange.run();
            whole = true;
            return result;
        } catch (IOException error) {
            // The gateway's own answer is whole and well-formed too.
            whole = error instanceof StraitFailure;
            throw whole ? error : broken(error);
        } catch (TException error) {
            throw broken(error.getCause() instanceof IOException cause ? cause : error);
        } finally {
            if (!whole) {
                close();
            }
        }
    }

    private IOException broken(Exception error) {
        if (error instanceof SocketTimeoutException) {
            silences.incrementAndGet();
            return Failures.noAnswer(options.timeout);
        }
        if (error instanceof SSLException said && CertificateAdvice.onRefusal(said) != null) {
            // To try again would change nothing.
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

    boolean isBroken() {
        return broken;
    }

    /** Whether it can serve another caller. */
    boolean isIdle() {
        return !broken && inFlight == 0 && messages.payloadLeft() == 0;
    }

    /**
     * Whether the gateway closed it since the last reply, as it does at a restart. Noticed before a
     * request is sent, it can't have been executed.
     */
    boolean endedWhileIdle() {
        return transport.stirredWhileIdle();
    }

    void close() {
        broken = true;
        transport.close();
    }
}
