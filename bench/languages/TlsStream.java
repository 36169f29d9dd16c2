import java.io.EOFException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/** {@code TlsStream HOST:PORT MIB CA}: as tls_stream.cpp, with an SSLSocket. */
final class TlsStream {
    private TlsStream() {}

    public static void main(String[] given) throws Exception {
        String[] address = given[0].split(":");
        SSLContext context = trusting(Path.of(given[2]));
        try (SSLSocket stream =
                (SSLSocket)
                        context.getSocketFactory()
                                .createSocket(address[0], Integer.parseInt(address[1]))) {
            SSLParameters parameters = stream.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            stream.setSSLParameters(parameters);
            stream.startHandshake();
            System.out.println("ready");
            System.in.read();
            stream.getOutputStream().write('!');
            InputStream in = stream.getInputStream();
            byte[] piece = new byte[1 << 20];
            for (long left = Long.parseLong(given[1]) << 20; left > 0; ) {
                int count = in.read(piece);
                if (count < 0) {
                    throw new EOFException("the stream ended early");
                }
                left -= count;
            }
            System.out.println("done");
        }
    }

    private static SSLContext trusting(Path authority) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream in = Files.newInputStream(authority)) {
            trusted.setCertificateEntry(
                    "authority", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }
}
