package fs.strait.client;

/**
 * Capacity of a whole store.
 *
 * @param capacity bytes
 * @param used bytes
 * @param remaining bytes
 */
public record StoreStatus(long capacity, long used, long remaining) {}
