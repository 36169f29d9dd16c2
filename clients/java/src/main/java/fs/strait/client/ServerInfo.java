package fs.strait.client;

import java.util.List;

/**
 * A gateway's description of itself.
 *
 * @param server the program and its version, for people
 * @param protocolVersion number of the protocol's version
 * @param stores the stores it serves
 */
public record ServerInfo(String server, int protocolVersion, List<StoreInfo> stores) {}
