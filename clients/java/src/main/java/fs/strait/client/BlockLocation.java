package fs.strait.client;

import java.util.List;

/**
 * One block of a file and its location.
 *
 * @param offset first byte's offset in the file
 * @param length bytes
 * @param hosts host names, nearest first if the store sorts them
 * @param addresses host:port of the data service on each host; may be empty
 * @param corrupt the store knows no good replica
 */
public record BlockLocation(
        long offset, long length, List<String> hosts, List<String> addresses, boolean corrupt) {}
