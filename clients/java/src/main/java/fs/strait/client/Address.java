package fs.strait.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A gateway's address, and paths behind it.
 *
 * @param host name or IP address
 * @param port of TCP
 * @param path in the store; empty where none was given
 */
record Address(String host, int port, String path) {
    private static final String SCHEME = "strait://";
    private static final int DEFAULT_PORT = 9090;
    private static final int MAX_PORT = 65_535;
    private static final Pattern AUTHORITY =
            Pattern.compile(
                    "(\\[(?<v6>[^\\]]+)\\]|(?<host>[^\\s:?#\\[\\]]+))(:(?<port>\\d{1,5}))?");

    /** Of a gateway alone. */
    static Address parse(String text) throws IOException {
        Address address = parseWithPath(text);
        if (!address.path.isEmpty() && !address.path.equals("/")) {
            throw wrong(text);
        }
        return address;
    }

    /** Of a gateway, maybe with a path, which stands there as it is: a percent sign is one. */
    static Address parseWithPath(String text) throws IOException {
        String rest = text.startsWith(SCHEME) ? text.substring(SCHEME.length()) : text;
        int slash = rest.indexOf('/');
        String authority = slash < 0 ? rest : rest.substring(0, slash);
        if (authority.contains("@")) {
            // Not repeated in the message: it may hold a password.
            String message = "an address names no user; log in with ConnectOptions";
            throw Failures.of(ErrorKind.INVALID_ARGUMENT, message, null);
        }
        // Not java.net.URI, for which names with an underscore are none of a host.
        Matcher parts = AUTHORITY.matcher(authority);
        if (!parts.matches()) {
            throw wrong(text);
        }
        String digits = parts.group("port");
        int port = digits == null ? DEFAULT_PORT : Integer.parseInt(digits);
        if (port == 0 || port > MAX_PORT) {
            throw wrong(text);
        }
        String host = parts.group("v6") != null ? parts.group("v6") : parts.group("host");
        return new Address(host, port, slash < 0 ? "" : rest.substring(slash));
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
