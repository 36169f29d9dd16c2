package fs.strait.client;

/**
 * Capacity of a whole store.
 *
 * @param capacity bytes
 * @param used bytes
 * @param remaining bytes
 * @param settling it has just started, and doesn't know yet where all bytes lie: blocks without
 *     hosts may be there all the same
 */
public record StoreStatus(long capacity, long used, long remaining, boolean settling) {}
