package fs.strait.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/**
 * TLS options. Files are PEM, and are read by {@link StraitClient#connect}.
 *
 * <pre>{@code ConnectOptions.defaults().tls(Tls.trusting(Path.of("ca.pem")))}</pre>
 */
public final class Tls {
    private static final Pattern PKCS8 =
            Pattern.compile("-----BEGIN PRIVATE KEY-----(.+?)-----END", Pattern.DOTALL);
    // For a key store that never leaves this process.
    private static final char[] NO_PASSWORD = {};

    private final Path authorities;
    private final Path certificate;
    private final Path key;

    private Tls(Path authorities, Path certificate, Path key) {
        this.authorities = authorities;
        this.certificate = certificate;
        this.key = key;
    }

    /**
     * Trusts the authorities that this Java installation trusts.
     *
     * @return the options
     */
    public static Tls defaults() {
        return new Tls(null, null, null);
    }

    /**
     * Trusts only these authorities.
     *
     * @param authorities their certificates
     * @return the options
     */
    public static Tls trusting(Path authorities) {
        return new Tls(authorities, null, null);
    }

    /**
     * Adds our own certificate, for gateways that require one.
     *
     * @param certificate ours, followed by its chain
     * @param key its private key, in PKCS #8 and not encrypted
     * @return these options and that
     */
    public Tls identity(Path certificate, Path key) {
        return new Tls(authorities, certificate, key);
    }

    SSLContext context() throws IOException {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keyManagers(), trustManagers(), null);
            return context;
        } catch (GeneralSecurityException error) {
            throw unusable(null, error.getMessage());
        }
    }

    private TrustManager[] trustManagers() throws IOException, GeneralSecurityException {
        if (authorities == null) {
            return null; // the installation's
        }
        KeyStore trusted = emptyStore();
        for (Certificate each : certificates(authorities)) {
            trusted.setCertificateEntry("authority-" + trusted.size(), each);
        }
        TrustManagerFactory factory =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        return factory.getTrustManagers();
    }

    private KeyManager[] keyManagers() throws IOException, GeneralSecurityException {
        if (certificate == null) {
            return null;
        }
        Certificate[] chain = certificates(certificate).toArray(new Certificate[0]);
        KeyStore own = emptyStore();
        PrivateKey secret = privateKey(chain[0].getPublicKey().getAlgorithm());
        own.setKeyEntry("identity", secret, NO_PASSWORD, chain);
        KeyManagerFactory factory =
                KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(own, NO_PASSWORD);
        return factory.getKeyManagers();
    }

    private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static Collection<? extends Certificate> certificates(Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            Collection<? extends Certificate> read =
                    CertificateFactory.getInstance("X.509").generateCertificates(in);
            if (read.isEmpty()) {
                throw unusable(file, "no certificate in PEM");
            }
            return read;
        } catch (NoSuchFileException error) {
            throw unusable(file, "no such file");
        } catch (GeneralSecurityException error) {
            throw unusable(file, error.getMessage());
        }
    }

    private PrivateKey privateKey(String algorithm) throws IOException {
        try {
            Matcher pem = PKCS8.matcher(Files.readString(key));
            if (!pem.find()) {
                throw unusable(key, "no BEGIN PRIVATE KEY; openssl pkcs8 -topk8 -nodes makes one");
            }
            byte[] encoded = Base64.getMimeDecoder().decode(pem.group(1));
            return KeyFactory.getInstance(algorithm)
                    .generatePrivate(new PKCS8EncodedKeySpec(encoded));
        } catch (NoSuchFileException error) {
            throw unusable(key, "no such file");
        } catch (GeneralSecurityException | IllegalArgumentException error) {
            throw unusable(key, error.getMessage());
        }
    }

    private static IOException unusable(Path file, String why) {
        String path = file == null ? null : file.toString();
        return Failures.of(ErrorKind.INVALID_ARGUMENT, "TLS can't use the file: " + why, path);
    }
}
