package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** TLS, against a real gateway, with certificates made for the tests. */
class TlsTest {
    private static final byte[] DATA = Bytes.pattern(4, 0, (5 << 20) + 3);
    private static final String FOR_LOOPBACK = "subjectAltName=IP:127.0.0.1";

    @TempDir static Path scratch;
    private static ConnectOptions trusting;
    private static Gateways.Gateway gateway;

    @BeforeAll
    static void start() throws IOException, InterruptedException {
        makeCertificate("gateway", FOR_LOOPBACK);
        makeCertificate("other", FOR_LOOPBACK);
        trusting = trusting("gateway.pem");
        gateway = Gateways.start(trusting, serving());
    }

    @AfterAll
    static void stop() throws IOException {
        if (gateway != null) {
            gateway.close();
        }
    }

    /** Files NAME.pem and NAME.key. */
    private static void makeCertificate(String name, String extension, String... more)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        Collections.addAll(command, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt");
        Collections.addAll(command, "ec_paramgen_curve:P-256", "-nodes", "-days", "2");
        Collections.addAll(command, "-subj", "/CN=" + name, "-addext", extension);
        Collections.addAll(command, "-keyout", scratch.resolve(name + ".key").toString());
        Collections.addAll(command, "-out", scratch.resolve(name + ".pem").toString());
        Collections.addAll(command, more);
        Process made = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(made.getInputStream().readAllBytes());
        assertEquals(0, made.waitFor(), said);
    }

    private static ConnectOptions trusting(String file) {
        return ConnectOptions.defaults().tls(Tls.trusting(scratch.resolve(file)));
    }

    private static List<String> serving(String... more) {
        List<String> arguments = new ArrayList<>();
        Collections.addAll(arguments, "--tls-cert", scratch.resolve("gateway.pem").toString());
        Collections.addAll(arguments, "--tls-key", scratch.resolve("gateway.key").toString());
        Collections.addAll(arguments, more);
        return arguments;
    }

    @ParameterizedTest
    @EnumSource(Wire.class)
    void bytesComeBackInPiecesOfAnySize(Wire wire) throws IOException {
        String path = gateway.root() + "/" + wire;
        try (StraitClient client = StraitClient.connect(gateway.address(), trusting.wire(wire))) {
            try (OutputStream file = client.newOutputStream(path)) {
                file.write(DATA);
            }
            try (InputStream file = client.newInputStream(path)) {
                assertArrayEquals(DATA, file.readAllBytes());
            }
            try (StraitChannel file = client.newByteChannel(path)) {
                for (int length : new int[] {1, 16_383, 16_384, 16_385, 1_000_000}) {
                    ByteBuffer target = ByteBuffer.allocate(length);
                    assertEquals(length, file.read(target, 77));
                    assertEquals(ByteBuffer.wrap(DATA, 77, length), target.flip());
                }
            }
        }
    }

    @Test
    void filesAreCopiedBothWaysThoughTheConnectionIsCut() throws IOException {
        Path local = Files.write(scratch.resolve("local"), DATA);
        Path back = scratch.resolve("back");
        String path = gateway.root() + "/copied";
        try (CuttingProxy proxy = new CuttingProxy(gateway.port());
                StraitClient client = StraitClient.connect(proxy.address(), trusting)) {
            proxy.cutRequestsAfter.set(2_500_000);
            client.put(local, path);
            proxy.cutRepliesAfter.set(1_234_567);
            client.get(path, back);
            assertTrue(proxy.connections.get() > 2);
        }
        assertArrayEquals(DATA, Files.readAllBytes(back));
    }

    @Test
    void anIdleConnectionIsUsedAgain() throws IOException {
        try (CuttingProxy proxy = new CuttingProxy(gateway.port());
                StraitClient client = StraitClient.connect(proxy.address(), trusting)) {
            for (int n = 0; n < 5; n++) {
                assertFalse(client.exists("/none"));
            }
            assertEquals(1, proxy.connections.get());
        }
    }

    @Test
    void aGatewayThatNobodyVouchesForIsRefused() {
        for (ConnectOptions options :
                List.of(trusting("other.pem"), ConnectOptions.defaults().tls(Tls.defaults()))) {
            StraitException refused =
                    assertThrows(
                            StraitException.class,
                            () -> StraitClient.connect(gateway.address(), options));
            assertEquals(ErrorKind.UNAUTHENTICATED, refused.kind());
            assertTrue(refused.getMessage().contains("certification path"), refused.toString());
        }
    }

    @Test
    void aGatewayByAnotherNameIsRefused() {
        String byName = "strait://localhost:" + gateway.port() + "/";
        StraitException refused =
                assertThrows(
                        StraitException.class, () -> StraitClient.connect(byName, trusting));
        assertEquals(ErrorKind.UNAUTHENTICATED, refused.kind());
        assertTrue(refused.getMessage().contains("localhost"), refused.toString());
    }

    @Test
    void aFileThatTlsCantUseIsNamed() throws IOException {
        Files.writeString(scratch.resolve("text.pem"), "no certificate");
        for (String file : List.of("none.pem", "text.pem")) {
            StraitException error =
                    assertThrows(
                            StraitException.class,
                            () -> StraitClient.connect(gateway.address(), trusting(file)));
            assertEquals(ErrorKind.INVALID_ARGUMENT, error.kind());
            assertEquals(scratch.resolve(file).toString(), error.path());
        }
    }

    @Test
    void aGatewayThatAsksForACertificateGetsOurs() throws IOException, InterruptedException {
        makeCertificate("authority", FOR_LOOPBACK);
        makeCertificate(
                "client",
                "extendedKeyUsage=clientAuth",
                "-addext",
                "basicConstraints=CA:FALSE",
                "-CA",
                scratch.resolve("authority.pem").toString(),
                "-CAkey",
                scratch.resolve("authority.key").toString());
        Tls withIdentity =
                Tls.trusting(scratch.resolve("gateway.pem"))
                        .identity(scratch.resolve("client.pem"), scratch.resolve("client.key"));
        String authority = scratch.resolve("authority.pem").toString();
        ConnectOptions options = ConnectOptions.defaults().tls(withIdentity);
        try (Gateways.Gateway asking =
                        Gateways.start(options, serving("--tls-client-ca", authority));
                StraitClient client = StraitClient.connect(asking.address(), options)) {
            assertTrue(client.exists("/"));
            assertNotNull(client.token());
            StraitException refused =
                    assertThrows(
                            StraitException.class,
                            () -> StraitClient.connect(asking.address(), trusting));
            assertEquals(ErrorKind.UNAUTHENTICATED, refused.kind());
            assertFalse(refused.retrySafe());
            String said = refused.getMessage();
            assertTrue(said.startsWith("TLS with ") && said.contains("Tls.identity"), said);
        }
    }

    @Test
    void anExpiredCertificateOfTheGatewayIsToldSo() throws IOException, InterruptedException {
        Path expired = scratch.resolve("expired.pem");
        List<String> command = new ArrayList<>(List.of("openssl", "x509", "-days", "-1"));
        command.addAll(List.of("-in", scratch.resolve("gateway.pem").toString(), "-signkey"));
        command.addAll(
                List.of(scratch.resolve("gateway.key").toString(), "-out", expired.toString()));
        assertEquals(0, new ProcessBuilder(command).start().waitFor());
        ConnectOptions options = ConnectOptions.defaults().tls(Tls.trusting(expired));
        List<String> serving = List.of("--tls-cert", expired.toString(), "--tls-key");
        List<String> arguments = new ArrayList<>(serving);
        arguments.add(scratch.resolve("gateway.key").toString());
        // Starting it connects, to check that it is ready.
        StraitException refused =
                assertThrows(StraitException.class, () -> Gateways.start(options, arguments));
        assertEquals(ErrorKind.UNAUTHENTICATED, refused.kind());
        assertTrue(refused.getMessage().contains("has expired; renew it"), refused.toString());
    }

    @Test
    void aNameThatCannotBeResolvedIsToldSo() {
        StraitException error =
                assertThrows(
                        StraitException.class, () -> StraitClient.connect("gateway.invalid"));
        assertEquals(ErrorKind.UNAVAILABLE, error.kind());
        assertTrue(
                error.getMessage().contains("gateway.invalid can't be resolved"), error.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"no TLS", "\25\3\1\0\2\2\50"}) // the second as a gateway without TLS
    void aPortWithoutTlsIsToldSo(String answer) throws IOException {
        try (ServerSocket plain = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Void> served =
                    CompletableFuture.runAsync(
                            () -> {
                                try (Socket socket = plain.accept()) {
                                    socket.getInputStream().read(new byte[1000]);
                                    socket.getOutputStream().write(answer.getBytes());
                                } catch (IOException error) {
                                    throw new IllegalStateException(error);
                                }
                            });
            String address = "127.0.0.1:" + plain.getLocalPort();
            StraitException refused =
                    assertThrows(
                            StraitException.class, () -> StraitClient.connect(address, trusting));
            assertEquals(ErrorKind.UNAVAILABLE, refused.kind());
            String said = refused.getMessage();
            assertTrue(said.startsWith("TLS with ") && said.contains("does it speak TLS"), said);
            served.join();
        }
    }
}
