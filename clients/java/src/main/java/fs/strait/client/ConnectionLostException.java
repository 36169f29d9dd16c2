package fs.strait.client;

import java.io.IOException;

/** The connection broke; the session tries again, so that callers never see it. */
final class ConnectionLostException extends IOException {
    private static final long serialVersionUID = 1;

    /** Whether a request may have arrived. */
    final boolean sent;

    ConnectionLostException(Throwable cause, boolean sent) {
        super(cause.getMessage() == null ? cause.toString() : cause.getMessage(), cause);
        this.sent = sent;
    }
}
