package fs.strait.client;

import java.time.Instant;

/**
 * A store's record of one path.
 *
 * @param path absolute within the store
 * @param isDirectory a directory; else a file
 * @param length bytes; 0 for a directory
 * @param blockSize bytes a block; 0 for a directory
 * @param replication requested replicas; 0 for a directory
 * @param modified last modification, to the millisecond
 * @param accessed last access, to the millisecond; 1970 if not kept
 * @param permission permission bits, 07777 at most
 * @param owner name of the owner
 * @param group name of the group
 */
public record FileInfo(
        String path,
        boolean isDirectory,
        long length,
        long blockSize,
        int replication,
        Instant modified,
        Instant accessed,
        int permission,
        String owner,
        String group) {

    /**
     * Whether it is a file.
     *
     * @return true for a file, false for a directory
     */
    public boolean isFile() {
        return !isDirectory;
    }

    /**
     * The last component of the path.
     *
     * @return empty for the root
     */
    public String name() {
        return path.substring(path.lastIndexOf('/') + 1);
    }
}
