package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.FaultyProxy.Fault;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A client fails within its time limit, in every state in which its gateway falls silent or ends.
 */
// An operation without end fails its test and doesn't stop all others.
@Timeout(value = 2, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
// They mostly wait.
@Execution(ExecutionMode.CONCURRENT)
class FaultsTest {
    private static final Duration TIMEOUT = Duration.ofMillis(500);
    private static final ConnectOptions IMPATIENT = ConnectOptions.defaults().timeout(TIMEOUT);
    // The timeout, three seconds of tries, the cleanup after it, and time for a busy machine. A
    // stutter takes longer: a tenth of a second for each byte.
    private static final Duration LIMIT = Duration.ofSeconds(10);
    private static final int TRIES = 10;

    private static final AtomicInteger counter = new AtomicInteger();

    @TempDir static Path scratch;
    private static Gateways.Gateway gateway;

    @BeforeAll
    static void start() throws IOException, InterruptedException {
        gateway = Gateways.start("file");
    }

    @AfterAll
    static void stop() throws IOException {
        gateway.close();
    }

    /** The operation during which the gateway fails. */
    private enum State {
        ATTACH {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                try (InputStream file = client.newInputStream(root + "/file")) {
                    file.read(); // which keeps the one connection: the next request needs another
                    strike.run();
                    client.stat(root);
                }
            }
        },
        LOOK {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                client.stat(root);
            }
        },
        OPEN_TO_READ {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                client.newInputStream(root + "/file").close();
            }
        },
        CREATE {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                client.newOutputStream(root + "/new").close();
            }
        },
        READ {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                try (InputStream file = client.newInputStream(root + "/file")) {
                    file.read();
                    strike.run();
                    file.readAllBytes();
                }
            }
        },
        READ_SOMEWHERE {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                try (StraitChannel file = client.newByteChannel(root + "/file")) {
                    strike.run();
                    file.read(ByteBuffer.allocate(100), 7);
                }
            }
        },
        APPEND {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                try (OutputStream file = client.newOutputStream(root + "/new")) {
                    strike.run();
                    for (int n = 0; n < 20; n++) { // more than may be in flight
                        file.write(new byte[1 << 20]);
                    }
                }
            }
        },
        FLUSH {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                try (OutputStream file = client.newOutputStream(root + "/new")) {
                    strike.run();
                    file.flush();
                }
            }
        },
        CLOSE {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                OutputStream file = client.newOutputStream(root + "/new");
                strike.run();
                file.close();
            }
        },
        LIST {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                try (Stream<FileInfo> entries = client.list(root)) {
                    Iterator<FileInfo> each = entries.iterator();
                    each.next();
                } catch (UncheckedIOException error) {
                    throw error.getCause();
                }
            }
        },
        CHANGE {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                client.rename(root + "/file", root + "/renamed");
            }
        },
        GET {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                strike.run();
                client.get(root + "/file", Path.of("/dev/null"));
            }
        },
        PUT {
            @Override
            void act(StraitClient client, String root, Runnable strike) throws IOException {
                Path local = Files.createTempFile(scratch, "file", "");
                client.get(root + "/file", local, StandardCopyOption.REPLACE_EXISTING);
                client.put(local, root + "/new", (done, total) -> strike.run());
            }
        };

        abstract void act(StraitClient client, String root, Runnable strike) throws IOException;
    }

    static Stream<Arguments> statesAndFaults() {
        return Stream.of(State.values())
                .flatMap(
                        state ->
                                Stream.of(Fault.SILENT, Fault.HALF, Fault.STUTTER)
                                        .map(fault -> Arguments.of(state, fault)));
    }

    @ParameterizedTest
    @MethodSource("statesAndFaults")
    void aGatewayThatDoesNotAnswerWhollyIsGivenUpInTime(State state, Fault fault)
            throws IOException {
        StraitException error = struck(state, fault);
        assertEquals(ErrorKind.TIMED_OUT, error.kind(), error.toString());
        String wanted = ".+: \\w+: no complete answer from 127\\.0\\.0\\.1:\\d+ within 0\\.5 s;.*";
        assertTrue(error.getMessage().matches(wanted), error.toString());
        assertTrue(error.path() != null, error.toString());
    }

    @ParameterizedTest
    @EnumSource(State.class)
    void aGatewayThatIsGoneIsNoticedInTime(State state) throws IOException {
        ErrorKind kind = struck(state, Fault.GONE).kind();
        assertTrue(Set.of(ErrorKind.UNAVAILABLE, ErrorKind.OUTCOME_UNKNOWN).contains(kind), kind::toString);
    }

    @Test
    void onlyAConnectionThatNeverAnsweredSuggestsTls() throws IOException {
        StraitException amid = struck(State.READ, Fault.GONE);
        assertFalse(amid.getMessage().contains("TLS"), amid.toString());
        try (ServerSocket closing = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread closes =
                    new Thread(
                            () -> {
                                try {
                                    closing.accept().close();
                                } catch (IOException ended) {
                                    // by the test
                                }
                            });
            closes.start();
            String address = "127.0.0.1:" + closing.getLocalPort();
            StraitException atOnce = inTime(() -> StraitClient.connect(address, IMPATIENT));
            assertTrue(atOnce.getMessage().contains("does it serve TLS only"), atOnce.toString());
        }
    }

    /** The error, which must come within the limit. */
    private static StraitException struck(State state, Fault fault) throws IOException {
        for (int tries = 1; ; tries++) {
            AtomicLong struckAt = new AtomicLong();
            StraitException error = struck(state, fault, struckAt);
            if (struckAt.get() != 0) {
                assertInTime(struckAt.get());
                return error;
            }
            // A busy machine exceeded the timeout before the fault.
            if (tries == TRIES) {
                throw error;
            }
        }
    }

    private static StraitException struck(State state, Fault fault, AtomicLong struckAt)
            throws IOException {
        String root = gateway.root() + "/" + counter.incrementAndGet();
        try (StraitClient setup = StraitClient.connect(gateway.address());
                FaultyProxy proxy = new FaultyProxy(gateway.port())) {
            for (String name : List.of("/file", "/other")) {
                try (OutputStream file = setup.newOutputStream(root + name)) {
                    file.write(new byte[4 << 20]);
                }
            }
            // The client detects a closed gateway itself, and mustn't mistake it for a silence.
            Duration timeout = fault == Fault.GONE ? TIMEOUT.multipliedBy(6) : TIMEOUT;
            ConnectOptions options = ConnectOptions.defaults().timeout(timeout);
            Runnable strike =
                    () -> {
                        struckAt.compareAndSet(0, System.nanoTime());
                        proxy.strike(fault);
                    };
            return assertThrows(
                    StraitException.class,
                    () -> {
                        try (StraitClient client =
                                StraitClient.connect(proxy.address(), options)) {
                            state.act(client, root, strike);
                        }
                    });
        }
    }

    /** The error, which must come within the limit. */
    private static StraitException inTime(Executable act) {
        long began = System.nanoTime();
        StraitException error = assertThrows(StraitException.class, act);
        assertInTime(began);
        return error;
    }

    private static void assertInTime(long began) {
        Duration took = Duration.ofNanos(System.nanoTime() - began);
        assertTrue(took.compareTo(LIMIT) < 0, "it took " + took);
    }

    @Test
    void aReplyThatTricklesIsGivenUpInTime() throws IOException {
        String path = gateway.root() + "/trickle";
        // More than sockets hold, so that the strike comes in the middle of a payload.
        byte[] content = new byte[64 << 20];
        try (StraitClient setup = StraitClient.connect(gateway.address());
                OutputStream file = setup.newOutputStream(path)) {
            file.write(content);
        }
        try (FaultyProxy proxy = new FaultyProxy(gateway.port());
                StraitClient client = StraitClient.connect(proxy.address(), IMPATIENT);
                InputStream file = client.newInputStream(path)) {
            file.readNBytes(1 << 20);
            proxy.strike(Fault.STUTTER);
            StraitException error = inTime(file::readAllBytes);
            assertEquals(ErrorKind.TIMED_OUT, error.kind());
        }
    }

    @Test
    void aHandshakeWithoutAnAnswerIsGivenUpInTime() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            String address = "127.0.0.1:" + silent.getLocalPort();
            ConnectOptions encrypted = IMPATIENT.tls(Tls.defaults());
            StraitException error = inTime(() -> StraitClient.connect(address, encrypted));
            assertEquals(ErrorKind.TIMED_OUT, error.kind());
        }
    }

    @Test
    void aGatewayThatTakesNoConnectionIsGivenUpInTime() throws IOException {
        List<Socket> waiting = new ArrayList<>();
        try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            for (boolean taken = true; taken; ) {
                Socket socket = new Socket();
                waiting.add(socket);
                try {
                    socket.connect(
                            new InetSocketAddress(
                                    InetAddress.getLoopbackAddress(), full.getLocalPort()),
                            300);
                } catch (SocketTimeoutException silence) {
                    taken = false; // the system takes no more
                }
            }
            StraitException error =
                    inTime(
                            () ->
                                    StraitClient.connect(
                                            "127.0.0.1:" + full.getLocalPort(), IMPATIENT));
            assertEquals(ErrorKind.UNAVAILABLE, error.kind());
            assertTrue(error.getMessage().contains("timed out"), error.toString());
        } finally {
            for (Socket socket : waiting) {
                socket.close();
            }
        }
    }

    @Test
    void threadsShareTheOutcomeOfALoginWithoutAnAnswer() throws IOException, InterruptedException {
        int threads = 6;
        ConnectOptions options = ConnectOptions.defaults().timeout(Duration.ofSeconds(3));
        try (FakeGateway fake = new FakeGateway();
                StraitClient client = StraitClient.connect(fake.address(), options)) {
            fake.files.put("/x", new byte[3]);
            fake.fallSilent("openSession");
            fake.restart();
            List<CompletableFuture<Void>> running = new ArrayList<>();
            for (int n = 0; n < threads; n++) {
                CompletableFuture<Void> over = new CompletableFuture<>();
                running.add(over);
                new Thread(
                                () -> {
                                    try {
                                        client.stat("/x");
                                        over.complete(null);
                                    } catch (IOException | RuntimeException error) {
                                        over.completeExceptionally(error);
                                    }
                                })
                        .start();
            }
            fake.awaitCalls("openSession", 1 + threads); // with a token that isn't good any more
            long began = System.nanoTime();
            fake.resumeOnce();
            for (CompletableFuture<Void> each : running) {
                CompletionException error = assertThrows(CompletionException.class, each::join);
                assertEquals(ErrorKind.TIMED_OUT, ((StraitFailure) error.getCause()).kind());
            }
            // In sequence they would take 18 seconds.
            assertTrue(System.nanoTime() - began < Duration.ofSeconds(8).toNanos());
            assertEquals(1 + threads + 1, fake.calls("openSession"));
        }
    }
}
