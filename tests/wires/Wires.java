import com.opendatagroup.dfsservice.*;
import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TJSONProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.THttpClient;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;

/** Calls a gateway on every wire of Apache Thrift's Java library: Wires HOST PORT CA_FILE. */
class Wires {
    static final String TEXT = "a line, \"quoted\" \\ and \u00e4\n";

    static String host;
    static int port;
    static SSLContext tls;

    public static void main(String[] args) throws Exception {
        host = args[0];
        port = Integer.parseInt(args[1]);
        tls = trusting(args[2]);
        HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
        for (String protocol : new String[] {"binary", "compact", "json"}) {
            for (String transport : new String[] {"unframed", "framed", "http"}) {
                for (boolean encrypted : new boolean[] {false, true}) {
                    for (boolean v2 : new boolean[] {false, true}) {
                        cell(protocol, transport, encrypted, v2);
                    }
                }
            }
        }
    }

    static SSLContext trusting(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (FileInputStream pem = new FileInputStream(file)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    static void cell(String protocol, String name, boolean encrypted, boolean v2) {
        String cell = "java " + protocol + " " + name + (encrypted ? " tls" : " plain") + (v2 ? " v2" : " 2009");
        try (TTransport transport = transport(name, encrypted)) {
            DfsV2.Client client = new DfsV2.Client(protocol(protocol, transport));
            String directory = "/" + cell.replace(' ', '-');
            if (v2) {
                v2(client, directory);
            } else {
                of2009(client, directory);
            }
            System.out.println(cell + " ok");
        } catch (Exception | AssertionError error) {
            System.out.println(cell + " WRONG " + error);
        }
    }

    static TTransport transport(String name, boolean encrypted) throws Exception {
        if (name.equals("http")) {
            return new THttpClient((encrypted ? "https://" : "http://") + host + ":" + port + "/thrift");
        }
        TSocket socket;
        if (encrypted) {
            socket = new TSocket(tls.getSocketFactory().createSocket(host, port));
        } else {
            socket = new TSocket(host, port);
            socket.open();
        }
        return name.equals("framed") ? new TFramedTransport(socket) : socket;
    }

    static TProtocol protocol(String name, TTransport transport) {
        switch (name) {
            case "binary":
                return new TBinaryProtocol(transport);
            case "compact":
                return new TCompactProtocol(transport);
            default:
                return new TJSONProtocol(transport);
        }
    }

    static void holds(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void of2009(DfsV2.Client client, String directory) throws Exception {
        ClientHandle ch = client.init("");
        holds(ch.getId() > 0, "init");
        holds(client.mkdir(ch, directory), "mkdir");
        byte[] data = TEXT.getBytes(StandardCharsets.UTF_8);
        DfsHandle dh = client.open(ch, directory + "/f", (short) 2);
        holds(client.write(ch, dh, ByteBuffer.wrap(data), -1, data.length), "write");
        holds(client.close(ch, dh), "close");
        dh = client.open(ch, directory + "/f", (short) 1);
        holds(client.read(ch, dh, 0, 4096).equals(TEXT), "read");
        holds(client.close(ch, dh), "close");
        try {
            client.stat(ch, directory + "/missing");
            holds(false, "a missing file was found");
        } catch (DfsServiceIOException expected) {
            holds(expected.getMessage() != null, "the exception has no message");
        }
        holds(client.closeClient(ch), "closeClient");
    }

    static void v2(DfsV2.Client client, String directory) throws Exception {
        String session = client.openSession(new OpenSessionRequest()).getToken();
        byte[] bytes = new byte[1280];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) i;
        }
        String path = directory + "/g";
        client.makeDirectories(new MakeDirectoriesRequest().setSession(session).setPath(directory));
        long handle = client.createFile(new CreateFileRequest().setSession(session).setPath(path)).getHandle();
        client.appendData(
                new AppendDataRequest()
                        .setSession(session)
                        .setHandle(handle)
                        .setExpected_offset(0)
                        .setData(ByteBuffer.wrap(bytes)));
        client.closeFile(new CloseFileRequest().setSession(session).setHandle(handle));
        handle = client.openFile(new OpenFileRequest().setSession(session).setPath(path)).getHandle();
        ReadRangeRequest read =
                new ReadRangeRequest().setSession(session).setHandle(handle).setOffset(0).setLength(4096);
        holds(client.readRange(read).data.equals(ByteBuffer.wrap(bytes)), "readRange");
        try {
            client.getFileInfo(new GetFileInfoRequest().setSession(session).setPath(directory + "/missing"));
            holds(false, "a missing file was found");
        } catch (DfsError expected) {
            holds("NotFound".equals(expected.getKind()), "the error's kind");
        }
    }
}
