package fs.strait.client;

import java.nio.file.OpenOption;

/**
 * Options for new files, beside {@link java.nio.file.StandardOpenOption}; the store decides the
 * rest.
 */
public final class CreateOption implements OpenOption {
    enum Field {
        PERMISSION,
        REPLICATION,
        BLOCK_SIZE
    }

    final Field field;
    final long value;

    private CreateOption(Field field, long value) {
        this.field = field;
        this.value = value;
    }

    /**
     * Permission bits, exactly as the file gets them (no umask).
     *
     * @param bits 07777 at most
     * @return the option
     */
    public static CreateOption permission(int bits) {
        return new CreateOption(Field.PERMISSION, bits);
    }

    /**
     * The number of the file's replicas.
     *
     * @param replicas above 0
     * @return the option
     */
    public static CreateOption replication(int replicas) {
        return new CreateOption(Field.REPLICATION, replicas);
    }

    /**
     * The size of the file's blocks.
     *
     * @param bytes of a block
     * @return the option
     */
    public static CreateOption blockSize(long bytes) {
        return new CreateOption(Field.BLOCK_SIZE, bytes);
    }

    @Override
    public String toString() {
        return field + "=" + value;
    }
}
