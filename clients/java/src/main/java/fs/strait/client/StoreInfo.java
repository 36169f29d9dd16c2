package fs.strait.client;

import java.time.Duration;
import java.util.Set;

/**
 * A store that the gateway's operator configured.
 *
 * @param name short name
 * @param uri as the operator gave it
 * @param capabilities names of what the store can do, for example "append"
 * @param recovery an abandoned file is writable again within this time
 */
public record StoreInfo(String name, String uri, Set<String> capabilities, Duration recovery) {}
