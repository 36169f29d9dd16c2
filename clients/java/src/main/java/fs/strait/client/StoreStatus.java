package fs.strait.client;

/**
 * Capacity of a whole store.
 *
 * @param capacity bytes
 * @param used bytes
 * @param remaining bytes
 * @param settling the store has just started, and doesn't know the location of all bytes yet:
 *     blocks without hosts may still exist
 */
public record StoreStatus(long capacity, long used, long remaining, boolean settling) {}
