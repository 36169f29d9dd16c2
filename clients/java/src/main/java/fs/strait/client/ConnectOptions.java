package fs.strait.client;

import java.time.Duration;
import java.util.Objects;

/**
 * Login and connection options for a gateway.
 *
 * <pre>{@code ConnectOptions.defaults().store("archive").token(token)}</pre>
 */
public final class ConnectOptions {
    // Time limit for one answer. Longer than the minute or so after which a store drops a machine
    // that has gone away.
    private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(120);

    // Longer than any useful wait, and in nanoseconds it doesn't overflow.
    private static final Duration MAX_TIMEOUT = Duration.ofDays(366);

    private static final ConnectOptions DEFAULTS =
            new ConnectOptions(null, null, null, null, null, Wire.FRAMED_BINARY, DEFAULT_TIMEOUT);

    final String store;
    final String user;
    final String password;
    final String token;
    final Tls tls;
    final Wire wire;
    final Duration timeout;

    private ConnectOptions(
            String store,
            String user,
            String password,
            String token,
            Tls tls,
            Wire wire,
            Duration timeout) {
        this.store = store;
        this.user = user;
        this.password = password;
        this.token = token;
        this.tls = tls;
        this.wire = Objects.requireNonNull(wire, "wire");
        this.timeout = Objects.requireNonNull(timeout, "timeout");
    }

    /**
     * The gateway's default store, without a login.
     *
     * @return options to begin with
     */
    public static ConnectOptions defaults() {
        return DEFAULTS;
    }

    /**
     * Picks one of the gateway's stores.
     *
     * @param name its name or URI
     * @return these options and that
     */
    public ConnectOptions store(String name) {
        return new ConnectOptions(name, user, password, token, tls, wire, timeout);
    }

    /**
     * Logs in with a password; without TLS the client sends it only to this machine.
     *
     * @param name the user's
     * @param secret the password
     * @return these options and that
     */
    public ConnectOptions login(String name, String secret) {
        return new ConnectOptions(store, name, secret, token, tls, wire, timeout);
    }

    /**
     * Continues an earlier session, of any gateway of the deployment; without TLS the client sends
     * the token only to this machine.
     *
     * @param secret its {@link StraitClient#token()}
     * @return these options and that
     */
    public ConnectOptions token(String secret) {
        return new ConnectOptions(store, user, password, secret, tls, wire, timeout);
    }

    /**
     * Uses TLS.
     *
     * @param how trusted authorities, and our own identity
     * @return these options and that
     */
    public ConnectOptions tls(Tls how) {
        return new ConnectOptions(store, user, password, token, how, wire, timeout);
    }

    /**
     * Selects the messages' encoding; the default is fine.
     *
     * @param spelling the wire
     * @return these options and that
     */
    public ConnectOptions wire(Wire spelling) {
        return new ConnectOptions(store, user, password, token, tls, spelling, timeout);
    }

    /**
     * Bounds each request including connecting (ten seconds at most), a new login, retries, and the
     * whole answer.
     *
     * @param patience above zero and a year at most; two minutes by default
     * @return these options and that
     */
    public ConnectOptions timeout(Duration patience) {
        if (patience.isNegative() || patience.isZero() || patience.compareTo(MAX_TIMEOUT) > 0) {
            throw new IllegalArgumentException(
                    "a timeout must be above zero, and a year at most: " + patience);
        }
        return new ConnectOptions(store, user, password, token, tls, wire, patience);
    }
}
