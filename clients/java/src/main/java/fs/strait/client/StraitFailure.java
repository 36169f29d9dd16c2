package fs.strait.client;

/**
 * What every exception of this client tells beside what its class does. All of them are
 * {@link java.io.IOException}s.
 *
 * <p>Kinds for which {@link java.nio.file} has an exception are thrown as that one (so
 * {@code catch (NoSuchFileException e)} works as with local files), the others as
 * {@link StraitException}.
 */
public interface StraitFailure {
    /**
     * What went wrong.
     *
     * @return never null
     */
    ErrorKind kind();

    /**
     * Whether repeating the same call can help and can't do harm.
     *
     * @return true if so
     */
    boolean retrySafe();

    /**
     * The path that was to be used.
     *
     * @return null where the failure isn't one of a path
     */
    String path();
}
