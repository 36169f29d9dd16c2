package fs.strait.client;

import fs.strait.client.internal.DfsError;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.time.Duration;

/** Makes the exception of each kind. */
final class Failures {
    private Failures() {}

    static IOException of(DfsError error) {
        ErrorKind kind = ErrorKind.ofCode(error.getCode());
        String path = error.getPath() == null || error.getPath().isEmpty() ? null : error.getPath();
        String message = error.getMessage() == null ? kind.toString() : error.getMessage();
        boolean said = error.isSetRetry_safe();
        return of(kind, message, path, said ? error.isRetry_safe() : kind.usuallyRetrySafe);
    }

    static IOException of(ErrorKind kind, String message, String path) {
        return of(kind, message, path, kind.usuallyRetrySafe);
    }

    static IOException of(ErrorKind kind, String message, String path, boolean retrySafe) {
        return switch (kind) {
            case NOT_FOUND -> new NotFound(path, message);
            case ALREADY_EXISTS -> new AlreadyExists(path, message);
            case NOT_A_DIRECTORY -> new NotADirectory(path, message);
            case NOT_EMPTY -> new NotEmpty(path, message);
            case PERMISSION_DENIED -> new PermissionDenied(path, message);
            default -> new StraitException(kind, message, path, retrySafe);
        };
    }

    static IOException caused(ErrorKind kind, String message, IOException cause) {
        IOException error = of(kind, message, null);
        error.initCause(cause);
        return error;
    }

    /** The error of a request without a complete answer from this gateway in time. */
    static IOException noAnswer(String method, String gateway, Duration timeout) {
        String message =
                "%s: no complete answer from %s within %s s; the gateway may be overloaded or gone:"
                        + " look at it, or allow a longer timeout";
        String told = message.formatted(method, gateway, timeout.toMillis() / 1e3);
        return of(ErrorKind.TIMED_OUT, told, null);
    }

    /** The same failure, with this path if it has none. */
    static IOException at(String path, IOException error) {
        if (!(error instanceof StraitFailure failure) || failure.path() != null) {
            return error;
        }
        IOException named = of(failure.kind(), error.getMessage(), path, failure.retrySafe());
        named.initCause(error);
        return named;
    }

    /** The same failure, with `path` in place of `temporary`, which the caller doesn't know. */
    static IOException renamed(String temporary, String path, IOException error) {
        boolean isOfIt =
                error instanceof StraitFailure failure && temporary.equals(failure.path());
        if (!isOfIt) {
            return error;
        }
        StraitFailure failure = (StraitFailure) error;
        return about(path, failure.kind(), failure.retrySafe(), error);
    }

    /** The error as a failure of this kind and path. */
    static IOException about(String path, ErrorKind kind, boolean retrySafe, IOException error) {
        String named = error instanceof StraitFailure failure ? failure.path() + ": " : "";
        String message = error.getMessage();
        String why = message.startsWith(named) ? message.substring(named.length()) : message;
        IOException about = of(kind, why, path, retrySafe);
        about.initCause(error);
        return about;
    }

    /** For a caller that got it before: a new object, since an exception can't suppress itself. */
    static IOException again(IOException earlier) {
        String message = "an earlier write failed: " + earlier.getMessage();
        IOException again =
                earlier instanceof StraitFailure failure
                        ? of(failure.kind(), message, failure.path(), failure.retrySafe())
                        : new IOException(message);
        again.initCause(earlier);
        return again;
    }

    static boolean isOf(IOException error, ErrorKind kind) {
        return error instanceof StraitFailure failure && failure.kind() == kind;
    }

    /** The fields that java.nio.file's exceptions lack; none of their kinds is safe to retry. */
    private interface OfAFile extends StraitFailure {
        String getFile();

        @Override
        default String path() {
            return getFile();
        }

        @Override
        default boolean retrySafe() {
            return false;
        }
    }

    private static final class NotFound extends NoSuchFileException implements OfAFile {
        private static final long serialVersionUID = 1;

        NotFound(String path, String reason) {
            super(path, null, reason);
        }

        @Override
        public ErrorKind kind() {
            return ErrorKind.NOT_FOUND;
        }
    }

    private static final class AlreadyExists extends FileAlreadyExistsException implements OfAFile {
        private static final long serialVersionUID = 1;

        AlreadyExists(String path, String reason) {
            super(path, null, reason);
        }

        @Override
        public ErrorKind kind() {
            return ErrorKind.ALREADY_EXISTS;
        }
    }

    private static final class NotADirectory extends NotDirectoryException implements OfAFile {
        private static final long serialVersionUID = 1;

        private final String reason;

        NotADirectory(String path, String reason) {
            super(path);
            this.reason = reason;
        }

        @Override
        public String getReason() {
            return reason;
        }

        @Override
        public ErrorKind kind() {
            return ErrorKind.NOT_A_DIRECTORY;
        }
    }

    private static final class NotEmpty extends DirectoryNotEmptyException implements OfAFile {
        private static final long serialVersionUID = 1;

        private final String reason;

        NotEmpty(String path, String reason) {
            super(path);
            this.reason = reason;
        }

        @Override
        public String getReason() {
            return reason;
        }

        @Override
        public ErrorKind kind() {
            return ErrorKind.NOT_EMPTY;
        }
    }

    private static final class PermissionDenied extends AccessDeniedException implements OfAFile {
        private static final long serialVersionUID = 1;

        PermissionDenied(String path, String reason) {
            super(path, null, reason);
        }

        @Override
        public ErrorKind kind() {
            return ErrorKind.PERMISSION_DENIED;
        }
    }
}
