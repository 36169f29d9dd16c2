package fs.strait.hadoop;

import fs.strait.client.ErrorKind;
import fs.strait.client.StraitClient;
import fs.strait.client.StraitFailure;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A gateway of our own: {@code STRAIT_BIN}, or the one that was built last. */
final class Gateway implements AutoCloseable {
    private static final Path REPOSITORY = Path.of("../../..").toAbsolutePath().normalize();
    private static final Duration START_DEADLINE = Duration.ofSeconds(60);
    private static final int STOP_DEADLINE_S = 40;
    private static final Gateway SHARED = forThisProcess();

    private final Process process;
    private final Path scratch;
    private final int port;

    private Gateway(Process process, Path scratch, int port) {
        this.process = process;
        this.scratch = scratch;
        this.port = port;
    }

    /** One over two directories that serves until this process ends; lab is the second store. */
    static Gateway shared() {
        return SHARED;
    }

    private static Gateway forThisProcess() {
        try {
            Path scratch = Files.createTempDirectory("strait-hadoop-");
            String first = Files.createDirectory(scratch.resolve("first")).toUri().toString();
            String lab = Files.createDirectory(scratch.resolve("lab")).toUri().toString();
            Gateway gateway = start(scratch, "serve", "--store", first, "--store", "lab=" + lab);
            Runtime.getRuntime().addShutdownHook(new Thread(gateway::close));
            return gateway;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A whole Kadoop with a gateway. */
    static Gateway kadoop() throws IOException {
        Path scratch = Files.createTempDirectory("strait-hadoop-");
        return start(scratch, "up", "--data", scratch.resolve("data").toString());
    }

    /** One with TLS that wants the login of alice; its certificate is `certificate` in `scratch`. */
    static Gateway secured(String password) throws IOException, InterruptedException {
        Path scratch = Files.createTempDirectory("strait-hadoop-");
        String store = Files.createDirectory(scratch.resolve("store")).toUri().toString();
        String certificate = scratch.resolve("certificate").toString();
        String key = scratch.resolve("key").toString();
        run("", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate);
        String passwords = scratch.resolve("passwords").toString();
        run(password + "\n", binary().toString(), "passwd", "--file", passwords, "alice");
        return start(scratch, "serve", "--store", store, "--passwords", passwords, "--tls-cert", certificate,
                "--tls-key", key);
    }

    private static void run(String input, String... command) throws IOException, InterruptedException {
        Process process =
                new ProcessBuilder(command)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .redirectError(ProcessBuilder.Redirect.DISCARD)
                        .start();
        try (var to = process.outputWriter()) {
            to.write(input);
        }
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + " failed");
        }
    }

    /** The file of its certificate. */
    Path certificate() {
        return scratch.resolve("certificate");
    }

    int port() {
        return port;
    }

    private static Gateway start(Path scratch, String... arguments) throws IOException {
        int port = freePort();
        List<String> command = new ArrayList<>(List.of(binary().toString()));
        command.addAll(List.of(arguments));
        command.addAll(List.of("--listen", "127.0.0.1:" + port));
        Process process =
                new ProcessBuilder(command)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .redirectError(scratch.resolve("log").toFile())
                        .start();
        Gateway gateway = new Gateway(process, scratch, port);
        gateway.awaitReady();
        return gateway;
    }

    private void awaitReady() throws IOException {
        long deadline = System.nanoTime() + START_DEADLINE.toNanos();
        while (true) {
            try (StraitClient client = StraitClient.connect(address())) {
                client.exists("/");
                return;
            } catch (IOException error) {
                if (error instanceof StraitFailure told && told.kind() == ErrorKind.UNAUTHENTICATED) {
                    return; // an answer too
                }
                if (!process.isAlive() || System.nanoTime() > deadline) {
                    throw new IOException(Files.readString(scratch.resolve("log")), error);
                }
            }
            try {
                Thread.sleep(20);
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
        }
    }

    private static Path binary() {
        String named = System.getenv("STRAIT_BIN");
        if (named != null) {
            return Path.of(named);
        }
        String target = System.getenv("CARGO_TARGET_DIR");
        Path directory = target == null ? REPOSITORY.resolve("target") : Path.of(target);
        return Stream.of("debug", "release")
                .map(profile -> directory.resolve(profile).resolve("strait"))
                .filter(Files::isExecutable)
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("no gateway: cargo build -p strait"));
    }

    /** Below Linux's range of ephemeral ports, which any outgoing connection may take. */
    private static int freePort() throws IOException {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10_000, 32_768);
            try (ServerSocket free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (BindException taken) {
                continue;
            }
        }
    }

    String address() {
        return "strait://127.0.0.1:" + port;
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit()
                .completeOnTimeout(process, STOP_DEADLINE_S, TimeUnit.SECONDS)
                .join();
        process.destroyForcibly();
        try (Stream<Path> entries = Files.walk(scratch)) {
            for (Path entry : entries.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(entry);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
