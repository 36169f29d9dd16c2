package fs.strait.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The parts of {@code strait://host:port/@store/path}. Nothing is decoded: a percent sign is an
 * ordinary character.
 *
 * @param host a name or an IP address, without brackets
 * @param port of TCP; 9090 if the URI names none
 * @param store null for the gateway's default store
 * @param path absolute in the store
 */
public record StraitUri(String host, int port, String store, String path) {
    private static final String SCHEME = "strait://";
    private static final int DEFAULT_PORT = 9090;
    private static final int MAX_PORT = 65_535;
    // The longest name that stores take, as in POSIX (NAME_MAX).
    private static final int MAX_NAME_BYTES = 255;
    // Not java.net.URI, which doesn't accept an underscore in a host's name.
    private static final Pattern AUTHORITY =
            Pattern.compile(
                    "(\\[(?<v6>[^\\]]+)\\]|(?<host>[^\\s:?#\\[\\]]+))(:(?<port>[0-9]{0,5}))?");

    /**
     * Parses a URI. A first component {@code @NAME} names a store. One that begins with {@code
     * @@} names a directory of the default store, whose name has one {@code @} less.
     *
     * @param text the URI
     * @return its parts
     * @throws IOException of {@link ErrorKind#INVALID_ARGUMENT} if the text is no such URI
     */
    public static StraitUri parse(String text) throws IOException {
        if (!text.startsWith(SCHEME)) {
            // With an @, it may hold a password.
            throw wrong((text.contains("@") ? "it" : text) + " doesn't begin with " + SCHEME);
        }
        String rest = text.substring(SCHEME.length());
        int slash = rest.indexOf('/') < 0 ? rest.length() : rest.indexOf('/');
        Matcher authority = authority(rest.substring(0, slash));
        String digits = authority.group("port");
        int port =
                digits == null || digits.isEmpty() ? DEFAULT_PORT : Integer.parseInt(digits);
        if (port == 0 || port > MAX_PORT) {
            throw wrong(rest.substring(0, slash) + " has a port that isn't one of 1 to 65535");
        }
        boolean isV6 = authority.group("v6") != null;
        String host = authority.group(isV6 ? "v6" : "host");
        List<String> names = new ArrayList<>();
        for (String name : rest.substring(slash).split("/")) {
            if (!name.isEmpty()) {
                names.add(name);
            }
        }
        String store = takeStore(names);
        for (String name : names) {
            checkName(name, text);
        }
        if (store != null) {
            if (store.isEmpty()) {
                throw wrong(
                        text
                                + ": a store's name follows the @, as in /@lab; a directory called"
                                + " @ is /@@");
            }
            checkName(store, text);
        }
        return new StraitUri(host, port, store, "/" + String.join("/", names));
    }

    /** Parses a gateway's address, whose scheme may be left out. */
    static StraitUri parseAddress(String address) throws IOException {
        StraitUri uri = parse(address.contains("://") ? address : SCHEME + address);
        if (!uri.path.equals("/")) {
            throw wrong(
                    "an address ends with the gateway or its store, and has no path: " + address);
        }
        return uri;
    }

    /**
     * The address of the gateway and store.
     *
     * @return for {@link StraitClient#connect(String)}
     */
    public String gateway() {
        return SCHEME + address(host, port) + "/" + (store == null ? "" : "@" + store);
    }

    /** Host and port, for messages. */
    static String address(String host, int port) {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    private static Matcher authority(String authority) throws IOException {
        if (authority.contains("@")) {
            // The message doesn't repeat it: it may hold a password.
            String message = "an address names no user; log in with ConnectOptions";
            throw Failures.of(ErrorKind.INVALID_ARGUMENT, message, null);
        }
        Matcher parts = AUTHORITY.matcher(authority);
        if (!parts.matches()) {
            throw wrong("'" + authority + "' is no HOST:PORT");
        }
        return parts;
    }

    /** Removes the store, or the escape of a directory's name. */
    private static String takeStore(List<String> names) {
        if (names.isEmpty() || !names.get(0).startsWith("@")) {
            return null;
        }
        String rest = names.remove(0).substring(1);
        if (rest.startsWith("@")) {
            names.add(0, rest);
            return null;
        }
        return rest;
    }

    private static void checkName(String name, String text) throws IOException {
        boolean isNone = name.equals(".") || name.equals("..");
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (isNone || name.indexOf('\0') >= 0 || bytes > MAX_NAME_BYTES) {
            throw wrong(
                    text
                            + " has a name that is . or .., holds a NUL byte, or is longer"
                            + " than "
                            + MAX_NAME_BYTES
                            + " bytes");
        }
    }

    private static IOException wrong(String why) {
        String message = "not the address of a gateway, strait://host:port/@store: " + why;
        return Failures.of(ErrorKind.INVALID_ARGUMENT, message, null);
    }

    /** The unchanged path, if the wire can carry it: a changed one could name another file. */
    static String checked(String path) throws IOException {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(path)) {
            throw Failures.of(
                    ErrorKind.INVALID_ARGUMENT, "the path contains half a surrogate pair", path);
        }
        return path;
    }
}
