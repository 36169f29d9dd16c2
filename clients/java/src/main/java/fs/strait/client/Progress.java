package fs.strait.client;

/** Told how far a copy is. */
@FunctionalInterface
public interface Progress {
    /** Tells nobody. */
    Progress NONE = (done, total) -> {};

    /**
     * Called in the copying thread after each piece.
     *
     * @param done bytes copied so far
     * @param total bytes in all
     */
    void report(long done, long total);
}
