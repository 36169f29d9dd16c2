package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Login, reconnecting, threads. */
class SessionTest {
    private FakeGateway gateway;
    private StraitClient client;

    @BeforeEach
    void connect() throws IOException {
        gateway = new FakeGateway();
        gateway.files.put("/x", new byte[3]);
        client = StraitClient.connect(gateway.address());
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        gateway.close();
    }

    @Test
    void aRequestSurvivesABrokenConnectionInItsSession() throws IOException {
        String token = client.token();
        gateway.breakConnections();
        assertEquals(3, client.stat("/x").length());
        assertEquals(token, client.token());
    }

    @Test
    void aStoreThatHasJustStartedSaysThatItDoesNotKnowAllYet() throws IOException {
        assertEquals(new StoreStatus(0, 1, 0, true), client.status());
    }

    @ParameterizedTest
    @ValueSource(strings = {"before", "after"})
    void aMutationCutOffIsDoneOnce(String cut) throws IOException {
        (cut.equals("before") ? gateway.cutBefore : gateway.cutAfter).add("removePath");
        client.remove("/x"); // a second execution would find nothing
        assertTrue(gateway.files.isEmpty());
    }

    @Test
    void aMutationAfterARestartIsNoRetry() throws IOException {
        gateway.breakConnections();
        assertThrows(
                FileAlreadyExistsException.class,
                () -> client.newOutputStream("/x", StandardOpenOption.CREATE_NEW));
        assertEquals(0, gateway.retries("createFile"));
    }

    @Test
    void aSessionThatEndedIsReplacedWhereTheLoginIsKnown() throws IOException {
        gateway.forgetSessions("getFileInfo");
        assertTrue(client.exists("/x"));
    }

    @Test
    void aTokenThatExpiredIsTheCallersError() {
        ConnectOptions options = ConnectOptions.defaults().token("of last year");
        StraitException error =
                assertThrows(
                        StraitException.class,
                        () -> StraitClient.connect(gateway.address(), options));
        assertEquals(ErrorKind.UNAUTHENTICATED, error.kind());
    }

    @Test
    void aLoginLeavesTheMachineByTlsOnly() throws IOException {
        ConnectOptions password = ConnectOptions.defaults().login("u", "p");
        ConnectOptions token = ConnectOptions.defaults().token("token-1");
        try (FakeGateway abroad = abroad()) {
            for (ConnectOptions login : List.of(password, token)) {
                StraitException error =
                        assertThrows(
                                StraitException.class,
                                () -> StraitClient.connect(abroad.address(), login));
                assertEquals(ErrorKind.UNAUTHENTICATED, error.kind());
                assertTrue(error.getMessage().contains("in the clear; use TLS"), error.toString());
                assertFalse(error.retrySafe());
            }
            assertEquals(0, abroad.calls("openSession"));
        }
    }

    @Test
    void aSessionWithoutALoginNeedsNoTlsAbroad() throws IOException {
        try (FakeGateway abroad = abroad();
                StraitClient open = StraitClient.connect(abroad.address())) {
            // The client resumes by a token that it didn't get in secret.
            abroad.breakConnections();
            assertFalse(open.exists("/x"));
        }
    }

    /** A gateway without TLS on an address other than loopback's. */
    private static FakeGateway abroad() throws IOException {
        try (DatagramSocket probe = new DatagramSocket()) {
            probe.connect(new InetSocketAddress("192.0.2.1", 9)); // sends nothing
            InetAddress own = probe.getLocalAddress();
            Gateways.needs(
                    !own.isAnyLocalAddress() && !own.isLoopbackAddress(),
                    "an address other than loopback's");
            return new FakeGateway(own);
        }
    }

    @Test
    void aMutationWithoutAnAnswerHasAnUnknownOutcome() {
        gateway.cutAfter.add("removePath");
        gateway.cutBefore.addAll(Collections.nCopies(100, "openSession"));
        StraitException error =
                assertThrows(StraitException.class, () -> client.remove("/x"));
        assertEquals(ErrorKind.OUTCOME_UNKNOWN, error.kind());
        assertEquals("/x", error.path());
        assertFalse(error.retrySafe());
    }

    @Test
    void aChangeThatWasSentIsUnknownIfTheNextLoginFails() {
        gateway.cutAfter.add("removePath");
        gateway.raises.put("openSession", FakeGateway.failure(ErrorKind.BUSY, null));
        StraitException error =
                assertThrows(StraitException.class, () -> client.remove("/x"));
        assertEquals(ErrorKind.OUTCOME_UNKNOWN, error.kind());
        assertEquals("/x", error.path());
        assertFalse(error.retrySafe());
    }

    @Test
    void anAppendWithoutAnAnswerIsNoneToRepeat() throws IOException {
        ConnectOptions hasty = ConnectOptions.defaults().timeout(Duration.ofMillis(300));
        try (StraitClient second = StraitClient.connect(gateway.address(), hasty)) {
            StraitOutputStream file = second.newOutputStream("/x");
            gateway.fallSilent("appendData");
            file.write(1);
            StraitException error = assertThrows(StraitException.class, file::flush);
            assertEquals(ErrorKind.TIMED_OUT, error.kind());
            assertEquals("/x", error.path());
            assertFalse(error.retrySafe());
            gateway.resume();
        }
    }

    @Test
    void aGatewayThatWentAwayIsUnavailable() {
        gateway.cutBefore.addAll(Collections.nCopies(100, "getFileInfo"));
        StraitException error = assertThrows(StraitException.class, () -> client.stat("/x"));
        assertEquals(ErrorKind.UNAVAILABLE, error.kind());
        assertTrue(error.retrySafe());
        assertEquals(6, gateway.calls("getFileInfo"), "attempts");
    }

    @Test
    void pausesDoubleAndHalfOfEachIsRandom() {
        assertEquals(0, Session.pauseMsBefore(0));
        for (int attempt = 1; attempt < Session.ATTEMPTS; attempt++) {
            int number = attempt;
            long longest = 100 << (attempt - 1);
            LongSummaryStatistics pauses =
                    LongStream.generate(() -> Session.pauseMsBefore(number))
                            .limit(1_000)
                            .summaryStatistics();
            assertTrue(pauses.getMin() >= longest / 2, pauses::toString);
            assertTrue(pauses.getMax() <= longest, pauses::toString);
            assertTrue(pauses.getMax() - pauses.getMin() > longest / 4, pauses::toString);
        }
    }

    @Test
    void noGatewayIsSaidAtOnceWithItsAddress() throws IOException {
        String address = "127.0.0.1:" + Gateways.freePort();
        StraitException error =
                assertThrows(StraitException.class, () -> StraitClient.connect(address));
        assertEquals(ErrorKind.UNAVAILABLE, error.kind());
        assertTrue(error.getMessage().contains("no gateway at " + address), error.getMessage());
    }

    @Test
    void silenceIsATimeout() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            ConnectOptions options = ConnectOptions.defaults().timeout(Duration.ofMillis(50));
            String address = "127.0.0.1:" + silent.getLocalPort();
            StraitException error =
                    assertThrows(
                            StraitException.class, () -> StraitClient.connect(address, options));
            assertEquals(ErrorKind.TIMED_OUT, error.kind());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\4\1\2\3\4", "\u007f"})
    void anotherProtocolIsSaidToBeNoGateway(String greeting) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Void> served =
                    CompletableFuture.runAsync(
                            () -> {
                                try (Socket socket = server.accept()) {
                                    socket.getInputStream().read(new byte[1000]);
                                    socket.getOutputStream().write(greeting.getBytes());
                                } catch (IOException error) {
                                    throw new IllegalStateException(error);
                                }
                            });
            StraitException error =
                    assertThrows(
                            StraitException.class,
                            () -> StraitClient.connect("127.0.0.1:" + server.getLocalPort()));
            assertEquals(ErrorKind.UNAVAILABLE, error.kind());
            served.join();
        }
    }

    @Test
    void aMethodThatTheGatewayDoesNotKnowIsUnsupported() {
        StraitException error = assertThrows(StraitException.class, () -> client.serverInfo());
        assertEquals(ErrorKind.UNSUPPORTED, error.kind());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "http://host/",
                "strait://host:1/path",
                "strait:///",
                "a b",
                "host:99999",
                "host:0",
                "[::1",
                "strait://host/?store=x"
            })
    void whatIsNoAddressIsRefused(String address) {
        StraitException error =
                assertThrows(StraitException.class, () -> StraitClient.connect(address));
        assertEquals(ErrorKind.INVALID_ARGUMENT, error.kind());
    }

    @Test
    void anyNameThatAHostCanHaveIsOneHere() throws IOException {
        assertEquals("my_gateway", StraitUri.parseAddress("my_gateway:1234").host());
        assertEquals("::1", StraitUri.parseAddress("strait://[::1]:9090/").host());
    }

    @Test
    void aPathThatTheWireCannotCarryIsRefused() {
        StraitException error =
                assertThrows(StraitException.class, () -> client.stat("/\ud800"));
        assertEquals(ErrorKind.INVALID_ARGUMENT, error.kind());
    }

    @Test
    void anInterruptEndsTheWait() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread.currentThread().interrupt();
            assertThrows(
                    InterruptedIOException.class,
                    () -> StraitClient.connect("127.0.0.1:" + silent.getLocalPort()));
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void threadsShareAClient() throws IOException {
        for (int n = 0; n < 8; n++) {
            gateway.files.put("/" + n, Bytes.pattern(n, 0, 1_500_000 + n));
        }
        List<CompletableFuture<Void>> threads = new ArrayList<>();
        for (int n = 0; n < 8; n++) {
            String path = "/" + n;
            byte[] expected = gateway.files.get(path);
            threads.add(CompletableFuture.runAsync(() -> readFiveTimes(path, expected)));
        }
        threads.forEach(CompletableFuture::join);
    }

    @Test
    void threadsAttachSideBySide() throws IOException, InterruptedException {
        gateway.fallSilent("openSession");
        gateway.breakConnections();
        List<CompletableFuture<Long>> lengths = lengthsToSixThreads();
        gateway.awaitCalls("openSession", 1 + 6);
        gateway.resume();
        lengths.forEach(length -> assertEquals(3, length.join()));
    }

    @Test
    void oneLoginServesAllThreads() throws IOException, InterruptedException {
        gateway.fallSilent("openSession");
        gateway.restart();
        List<CompletableFuture<Long>> lengths = lengthsToSixThreads();
        gateway.awaitCalls("openSession", 1 + 6); // all with a token that isn't good any more
        gateway.resume();
        lengths.forEach(length -> assertEquals(3, length.join()));
        int oneLoginAndFiveByItsToken = 1 + 5;
        assertEquals(1 + 6 + oneLoginAndFiveByItsToken, gateway.calls("openSession"));
    }

    private List<CompletableFuture<Long>> lengthsToSixThreads() {
        List<CompletableFuture<Long>> lengths = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            CompletableFuture<Long> length = new CompletableFuture<>();
            lengths.add(length);
            Thread thread =
                    new Thread(
                            () -> {
                                try {
                                    length.complete(client.stat("/x").length());
                                } catch (IOException | RuntimeException error) {
                                    length.completeExceptionally(error);
                                }
                            });
            thread.setDaemon(true);
            thread.start();
        }
        return lengths;
    }

    private void readFiveTimes(String path, byte[] expected) {
        for (int round = 0; round < 5; round++) {
            try (InputStream file = client.newInputStream(path)) {
                assertEquals(expected.length, client.stat(path).length());
                assertTrue(Arrays.equals(expected, file.readAllBytes()));
            } catch (IOException error) {
                throw new AssertionError(error);
            }
        }
    }

    @Test
    void connectionsAreReused() throws IOException {
        for (int round = 0; round < 20; round++) {
            client.exists("/x");
            client.newInputStream("/x").close();
        }
        assertEquals(1, gateway.calls("openSession"));
    }

    @Test
    void closingEndsTheSessionOnce() {
        client.close();
        client.close();
        assertEquals(1, gateway.calls("closeSession"));
        assertThrows(IOException.class, () -> client.stat("/x"));
    }

    @Test
    void nothingIsThereOrIsIt() throws IOException {
        assertTrue(client.exists("/x"));
        assertFalse(client.exists("/y"));
        assertThrows(NoSuchFileException.class, () -> client.stat("/y"));
    }
}
