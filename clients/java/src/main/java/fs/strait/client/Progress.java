package fs.strait.client;

/** Receives the progress of a copy. */
@FunctionalInterface
public interface Progress {
    /** Ignores the progress. */
    Progress NONE = (done, total) -> {};

    /**
     * Called in the copying thread after each piece.
     *
     * @param done bytes copied so far
     * @param total bytes in all
     */
    void report(long done, long total);
}
