package fs.strait.hadoop;

import fs.strait.client.ConnectOptions;
import fs.strait.client.StraitClient;
import fs.strait.client.Tls;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The clients of one gateway, one for each of its stores that is used. */
final class Stores implements AutoCloseable {
    private static final int DEFAULT_PORT = 9090;
    // As the client's own.
    private static final long DEFAULT_TIMEOUT_MS = 120_000;

    private final String gateway;
    private final ConnectOptions options;
    private final Map<String, StraitClient> clients = new HashMap<>();
    private boolean closed;

    Stores(URI uri, Configuration configuration) throws IOException {
        if (uri.getRawAuthority() != null && uri.getRawAuthority().contains("@")) {
            // The message doesn't repeat it: it may hold a password.
            throw new IOException(
                    "a gateway's address names no user; set fs.strait.user and fs.strait.password");
        }
        if (uri.getHost() == null) {
            throw new IOException("not a gateway's address, strait://host:port/: " + uri);
        }
        this.gateway = "strait://" + uri.getHost() + ":" + port(uri) + "/";
        ConnectOptions plain = options(configuration);
        this.options = mayLogIn(uri, configuration) ? loggedIn(plain, configuration) : plain;
    }

    static int port(URI uri) {
        return uri.getPort() < 0 ? DEFAULT_PORT : uri.getPort();
    }

    /** Whether the gateway may have the login: a URI that others chose can name any gateway. */
    private static boolean mayLogIn(URI uri, Configuration configuration) {
        if (configuration.get("fs.strait.gateways") == null) {
            return true;
        }
        String address = uri.getHost() + ":" + port(uri);
        return configuration.getTrimmedStringCollection("fs.strait.gateways").stream()
                .anyMatch(address::equalsIgnoreCase);
    }

    private static ConnectOptions options(Configuration configuration) throws IOException {
        long timeout =
                configuration.getTimeDuration(
                        "fs.strait.timeout", DEFAULT_TIMEOUT_MS, TimeUnit.MILLISECONDS);
        ConnectOptions options = ConnectOptions.defaults().timeout(Duration.ofMillis(timeout));
        String tls = configuration.getTrimmed("fs.strait.tls", "false");
        return switch (tls) {
            case "false" -> options;
            case "true" -> options.tls(Tls.defaults());
            default -> options.tls(Tls.trusting(java.nio.file.Path.of(tls)));
        };
    }

    private static ConnectOptions loggedIn(ConnectOptions options, Configuration configuration)
            throws IOException {
        String user = configuration.getTrimmed("fs.strait.user");
        if (user != null) {
            options = options.login(user, secret(configuration, "fs.strait.password"));
        }
        String token = secret(configuration, "fs.strait.token");
        return token == null ? options : options.token(token);
    }

    /** From a credential provider, or the configuration. */
    private static String secret(Configuration configuration, String name) throws IOException {
        char[] secret = configuration.getPassword(name);
        return secret == null ? null : new String(secret);
    }

    /** A file or directory in one of the stores; `prefix` leads from the gateway to the store. */
    record Place(StraitClient client, String prefix, String path) {
        boolean isRoot() {
            return path.equals("/");
        }

        /** The path of Hadoop's interface for one in the store. */
        String outward(String inStore) {
            boolean escaped = prefix.isEmpty() && inStore.startsWith("/@");
            return prefix + (escaped ? "/@" + inStore.substring(1) : inStore);
        }
    }

    /** Takes {@code /@NAME} off a path, as {@code StraitUri} does. */
    Place place(Path absolute) throws IOException {
        String path = absolute.toUri().getPath();
        if (path.startsWith("/@@")) {
            return new Place(client(""), "", "/" + path.substring(2));
        }
        if (!path.startsWith("/@")) {
            return new Place(client(""), "", path.isEmpty() ? "/" : path);
        }
        int end = path.indexOf('/', 1);
        String prefix = end < 0 ? path : path.substring(0, end);
        return new Place(client(prefix.substring(1)), prefix, end < 0 ? "/" : path.substring(end));
    }

    private synchronized StraitClient client(String store) throws IOException {
        if (closed) {
            throw new IOException("Filesystem closed"); // Hadoop's words
        }
        StraitClient client = clients.get(store);
        if (client == null) {
            client = StraitClient.connect(gateway + store, options);
            clients.put(store, client);
        }
        return client;
    }

    @Override
    public synchronized void close() {
        closed = true;
        clients.values().forEach(StraitClient::close);
        clients.clear();
    }
}
