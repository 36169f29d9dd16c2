package fs.strait.client;

/** The kind of an error; the same kinds in every client language. */
public enum ErrorKind {
    // In the order of ErrorCode in idl/dfs.thrift, which begins at 1.
    /** No file or directory at the path: {@link java.nio.file.NoSuchFileException}. */
    NOT_FOUND("NotFound", false),
    /** The path is taken: {@link java.nio.file.FileAlreadyExistsException}. */
    ALREADY_EXISTS("AlreadyExists", false),
    /** A directory was needed: {@link java.nio.file.NotDirectoryException}. */
    NOT_A_DIRECTORY("NotADirectory", false),
    /** A file was needed; the path is a directory. */
    IS_A_DIRECTORY("IsADirectory", false),
    /** It still has entries: {@link java.nio.file.DirectoryNotEmptyException}. */
    NOT_EMPTY("NotEmpty", false),
    /** The user may not do this: {@link java.nio.file.AccessDeniedException}. */
    PERMISSION_DENIED("PermissionDenied", false),
    /** The client isn't logged in, or the credentials are wrong. */
    UNAUTHENTICATED("Unauthenticated", false),
    /** The request itself is wrong: path, offset, length, state of a handle. */
    INVALID_ARGUMENT("InvalidArgument", false),
    /** The store has no such operation. */
    UNSUPPORTED("Unsupported", false),
    /** Another client holds a needed resource, or a limit is reached; a later try may succeed. */
    BUSY("Busy", true),
    /** The store, or the user's quota, is full. */
    NO_SPACE("NoSpace", false),
    /** No answer within the time allowed. */
    TIMED_OUT("TimedOut", true),
    /** The gateway or the store can't be reached. */
    UNAVAILABLE("Unavailable", true),
    /** Stored bytes don't match their checksum, on every replica. */
    CORRUPT("Corrupt", false),
    /** The connection broke after a change was sent, which may or may not have been executed. */
    OUTCOME_UNKNOWN("OutcomeUnknown", false),
    /** A defect, or an answer that makes no sense. */
    INTERNAL("Internal", false);

    private static final ErrorKind[] BY_CODE = values();

    private final String text;
    final boolean usuallyRetrySafe;

    ErrorKind(String text, boolean usuallyRetrySafe) {
        this.text = text;
        this.usuallyRetrySafe = usuallyRetrySafe;
    }

    /** The kind of this code on the wire; INTERNAL for a newer gateway's code. */
    static ErrorKind ofCode(int code) {
        return code >= 1 && code <= BY_CODE.length ? BY_CODE[code - 1] : INTERNAL;
    }

    /** The kind's name in messages, the same in every language: {@code "NotFound"}. */
    @Override
    public String toString() {
        return text;
    }
}
