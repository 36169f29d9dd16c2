package fs.strait.client;

import java.io.IOException;
import javax.net.ssl.SSLException;

/** The connection broke; the session retries, so callers never see it. */
final class ConnectionLostException extends IOException {
    private static final long serialVersionUID = 1;

    /** Whether a request may have arrived. */
    final boolean sent;

    /** Whether TLS is the cause, such as a certificate that the gateway rejects. */
    final boolean tls;

    /** Whether the connection had never brought an answer. */
    final boolean unanswered;

    ConnectionLostException(Throwable cause, boolean sent) {
        this(cause, sent, false);
    }

    ConnectionLostException(Throwable cause, boolean sent, boolean unanswered) {
        super(cause.getMessage() == null ? cause.toString() : cause.getMessage(), cause);
        this.sent = sent;
        this.unanswered = unanswered;
        this.tls =
                cause instanceof SSLException
                        || cause instanceof ConnectionLostException lost && lost.tls;
    }
}
