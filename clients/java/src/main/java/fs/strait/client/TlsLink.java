package fs.strait.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLEngineResult.Status;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;

/** TLS over a socket, to a gateway that proved its host name. */
final class TlsLink implements Link {
    private static final String[] PROTOCOLS = {"TLSv1.3", "TLSv1.2"};
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);
    // Records received, and sent, by one system call.
    private static final int RECORDS_AT_ONCE = 8;

    private final SocketLink socket;
    private final SSLEngine engine;
    private final int openedBytes; // room that any record fits in, once opened
    private final ByteBuffer sealed; // received; in the state for reading
    private final ByteBuffer opened; // of a record that its reader had no room for
    private final ByteBuffer outgoing;

    /** Returns when the gateway has proven its name; otherwise closes the socket. */
    TlsLink(SocketLink socket, SSLContext context, String host, int port) throws IOException {
        this.socket = socket;
        engine = context.createSSLEngine(host, port);
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setProtocols(PROTOCOLS);
        parameters.setEndpointIdentificationAlgorithm("HTTPS"); // checks the host's name
        engine.setSSLParameters(parameters);
        int sealedBytes = engine.getSession().getPacketBufferSize();
        openedBytes = engine.getSession().getApplicationBufferSize();
        sealed = ByteBuffer.allocate(RECORDS_AT_ONCE * sealedBytes).flip();
        opened = ByteBuffer.allocate(openedBytes).flip();
        outgoing = ByteBuffer.allocate(RECORDS_AT_ONCE * sealedBytes);
        try {
            engine.beginHandshake();
            shakeHands();
            checkValidity();
        } catch (IOException error) {
            socket.close();
            throw explained(error, "TLS with " + host + ":" + port + ": ");
        }
    }

    /** Java skips this check if the certificate itself is a trusted one. */
    private void checkValidity() throws IOException {
        if (engine.getSession().getPeerCertificates()[0] instanceof X509Certificate gateways) {
            try {
                gateways.checkValidity();
            } catch (CertificateException error) {
                throw new SSLException(error.getMessage(), error);
            }
        }
    }

    private static IOException explained(IOException error, String where) {
        if (error instanceof SocketTimeoutException) {
            String message = where + "no answer; does it speak TLS on this port?";
            return Failures.caused(ErrorKind.TIMED_OUT, message, error);
        }
        if (error.getCause() instanceof CertificateException untrusted) {
            // A retry would change nothing.
            String message = where + CertificateAdvice.onGateways(untrusted);
            return Failures.caused(ErrorKind.UNAUTHENTICATED, message, error);
        }
        String refusal = CertificateAdvice.onRefusal(error);
        if (refusal != null) {
            return Failures.caused(ErrorKind.UNAUTHENTICATED, where + refusal, error);
        }
        String asking = error.getMessage() + "; does it speak TLS on this port?";
        return isPlain(error) ? error : new SSLException(asking, error);
    }

    /** Whether we were interrupted, or the gateway sent a TLS alert. */
    private static boolean isPlain(IOException error) {
        String message = String.valueOf(error.getMessage());
        // A gateway without TLS recognises a TLS client by its first bytes, and answers so.
        boolean mayBeWithoutTls = message.contains("handshake_failure");
        return error instanceof InterruptedIOException
                || error instanceof ClosedByInterruptException
                || message.contains("fatal alert") && !mayBeWithoutTls;
    }

    private void shakeHands() throws IOException {
        for (; ; ) {
            switch (engine.getHandshakeStatus()) {
                case NEED_TASK -> engine.getDelegatedTask().run();
                case NEED_WRAP -> sendSealed(NOTHING);
                case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
                    if (open(opened.clear()).getStatus() == Status.BUFFER_UNDERFLOW) {
                        fill();
                    }
                    opened.flip();
                    if (opened.hasRemaining()) {
                        return; // the gateway's first bytes came with the handshake's last
                    }
                }
                case FINISHED, NOT_HANDSHAKING -> {
                    return;
                }
            }
        }
    }

    // -- Receiving

    @Override
    public int receive(ByteBuffer target) throws IOException {
        int start = target.position();
        for (; ; ) {
            int count = takeOpened(target);
            if (count > 0) {
                return count;
            }
            openAll(target);
            if (target.position() > start) {
                return target.position() - start;
            }
            if (!opened.hasRemaining()) {
                fill();
            }
        }
    }

    private int takeOpened(ByteBuffer target) {
        int count = Math.min(opened.remaining(), target.remaining());
        target.put(target.position(), opened, opened.position(), count);
        target.position(target.position() + count);
        opened.position(opened.position() + count);
        return count;
    }

    /** Decrypts the whole records received, directly into `target` if each has room. */
    private void openAll(ByteBuffer target) throws IOException {
        SSLEngineResult result;
        do {
            boolean fits = target.remaining() >= openedBytes;
            if (!fits && opened.hasRemaining()) {
                return;
            }
            result = open(fits ? target : opened.clear());
            if (!fits) {
                opened.flip();
            }
            // Afterwards, since a record may require an answer, as an update of keys does.
            shakeHandsAgain();
        } while (result.getStatus() == Status.OK && result.bytesConsumed() > 0);
    }

    private SSLEngineResult open(ByteBuffer into) throws IOException {
        SSLEngineResult result = engine.unwrap(sealed, into);
        if (result.getStatus() == Status.CLOSED) {
            throw new IOException("the gateway closed the connection");
        }
        return result;
    }

    private void shakeHandsAgain() throws IOException {
        for (; ; ) {
            HandshakeStatus status = engine.getHandshakeStatus();
            if (status == HandshakeStatus.NEED_TASK) {
                engine.getDelegatedTask().run();
            } else if (status == HandshakeStatus.NEED_WRAP) {
                sendSealed(NOTHING);
            } else {
                return;
            }
        }
    }

    private void fill() throws IOException {
        sealed.compact();
        try {
            socket.receive(sealed);
        } finally {
            sealed.flip();
        }
    }

    @Override
    public boolean hasStirred() throws IOException {
        while (!opened.hasRemaining() && socket.hasStirred()) {
            // These may be TLS-only records, such as tickets and updates of keys.
            fill();
            openAll(NOTHING);
        }
        return opened.hasRemaining();
    }

    // -- Sending

    @Override
    public void send(ByteBuffer... parts) throws IOException {
        try {
            sendSealed(parts);
        } catch (IOException error) {
            throw socket.isOpen() ? lastWord(error) : error;
        }
    }

    /** The TLS alert that the gateway sent before it closed, or else `error`. */
    private IOException lastWord(IOException error) {
        try {
            hasStirred();
        } catch (SSLException said) {
            said.addSuppressed(error);
            return said;
        } catch (IOException hungUp) {
            // It sent no alert.
        }
        return error;
    }

    private void sendSealed(ByteBuffer... parts) throws IOException {
        boolean whole;
        do {
            whole = seal(parts);
            outgoing.flip();
            socket.send(outgoing);
            outgoing.clear();
        } while (!whole);
    }

    /** Encrypts into `outgoing`, and returns whether all bytes fit. */
    private boolean seal(ByteBuffer[] parts) throws IOException {
        for (; ; ) {
            SSLEngineResult result = engine.wrap(parts, outgoing);
            switch (result.getStatus()) {
                case CLOSED -> throw new IOException("the connection is closed");
                case BUFFER_OVERFLOW -> {
                    return false;
                }
                default -> {
                    if (remaining(parts) == 0) {
                        return true;
                    }
                }
            }
        }
    }

    private static long remaining(ByteBuffer[] parts) {
        long remaining = 0;
        for (ByteBuffer part : parts) {
            remaining += part.remaining();
        }
        return remaining;
    }

    // -- The rest

    @Override
    public void waitUntil(Deadline deadline) {
        socket.waitUntil(deadline);
    }

    @Override
    public InetAddress peer() throws IOException {
        return socket.peer();
    }

    @Override
    public boolean isOpen() {
        return socket.isOpen();
    }

    /** Sends a TLS close to the gateway if that needs no waiting. */
    @Override
    public void close() {
        try {
            if (socket.isOpen()) {
                engine.closeOutbound();
                engine.wrap(NOTHING, outgoing.clear());
                socket.sendNow(outgoing.flip());
            }
        } catch (IOException ignored) {
            // The gateway has closed already.
        }
        socket.close();
    }
}
