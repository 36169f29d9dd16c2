package fs.strait.client;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;

/**
 * A gateway's address, and paths behind it.
 *
 * @param host name or IP address
 * @param port of TCP
 * @param path in the store; empty where none was given
 */
record Address(String host, int port, String path) {
    private static final String SCHEME = "strait";
    private static final int DEFAULT_PORT = 9090;

    /** Of a gateway alone. */
    static Address parse(String text) throws IOException {
        Address address = parseWithPath(text);
        if (!address.path.isEmpty() && !address.path.equals("/")) {
            throw wrong(text);
        }
        return address;
    }

    /** Of a gateway, maybe with a path. */
    static Address parseWithPath(String text) throws IOException {
        try {
            URI uri = new URI(text.contains("://") ? text : SCHEME + "://" + text);
            if (!SCHEME.equals(uri.getScheme()) || uri.getHost() == null) {
                throw wrong(text);
            }
            String host = uri.getHost().replaceAll("[\\[\\]]", ""); // around an IPv6 address
            int port = uri.getPort() < 0 ? DEFAULT_PORT : uri.getPort();
            return new Address(host, port, uri.getPath());
        } catch (URISyntaxException error) {
            throw wrong(text);
        }
    }

    /** As it stands in a URI. */
    String authority() {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    private static IOException wrong(String text) {
        String message = "not the address of a gateway, strait://host:port/: " + text;
        return Failures.of(ErrorKind.INVALID_ARGUMENT, message, null);
    }

    /** The path as it is, if the wire can carry it: another one mustn't be meant. */
    static String checked(String path) throws IOException {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(path)) {
            throw Failures.of(
                    ErrorKind.INVALID_ARGUMENT, "half a surrogate pair is no character", path);
        }
        return path;
    }
}
