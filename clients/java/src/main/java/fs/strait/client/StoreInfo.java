package fs.strait.client;

import java.time.Duration;
import java.util.Set;

/**
 * A store that the gateway's operator configured.
 *
 * @param name short name
 * @param uri as the operator gave it
 * @param capabilities names of the store's abilities, for example "append"
 * @param recovery an abandoned file is writable again after this time at the latest
 */
public record StoreInfo(String name, String uri, Set<String> capabilities, Duration recovery) {}
