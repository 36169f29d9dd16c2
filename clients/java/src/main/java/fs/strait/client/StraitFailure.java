package fs.strait.client;

/**
 * The properties that all exceptions of this client have. All of them are {@link
 * java.io.IOException}s.
 *
 * <p>A kind with an exception in {@link java.nio.file} is thrown as that one (so {@code catch
 * (NoSuchFileException e)} works as with local files), the others as {@link StraitException}.
 */
public interface StraitFailure {
    /**
     * The kind of the error.
     *
     * @return never null
     */
    ErrorKind kind();

    /**
     * Whether repeating the same call may help and can do no harm.
     *
     * @return true if so
     */
    boolean retrySafe();

    /**
     * The path that the operation named.
     *
     * @return null if the failure has no path
     */
    String path();
}
