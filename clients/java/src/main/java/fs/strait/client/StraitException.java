package fs.strait.client;

import java.io.IOException;

/** A failure of a kind for which {@link java.nio.file} has no exception of its own. */
public class StraitException extends IOException implements StraitFailure {
    private static final long serialVersionUID = 1;

    private final ErrorKind kind;
    private final boolean retrySafe;
    private final String path;

    StraitException(ErrorKind kind, String message, String path, boolean retrySafe) {
        super(path == null ? message : path + ": " + message);
        this.kind = kind;
        this.retrySafe = retrySafe;
        this.path = path;
    }

    @Override
    public final ErrorKind kind() {
        return kind;
    }

    @Override
    public final boolean retrySafe() {
        return retrySafe;
    }

    @Override
    public final String path() {
        return path;
    }
}
