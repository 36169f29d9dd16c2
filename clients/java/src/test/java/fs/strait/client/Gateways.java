package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * Our own gateways, {@code strait serve}, for tests.
 *
 * <pre>
 * STRAIT_BIN         the command; default target/debug/strait, then release
 * STRAIT_TEST_HDFS   hdfs://host:port, for a gateway over it too
 * </pre>
 */
final class Gateways {
    static final Path REPOSITORY = Path.of("../..").toAbsolutePath().normalize();

    private static final Duration STOP_DEADLINE = Duration.ofSeconds(40);

    private Gateways() {}

    /** A gateway that runs until it is closed, and a directory on its store for tests. */
    record Gateway(
            int port, String root, ConnectOptions options, Process process, Path log, Path scratch)
            implements AutoCloseable {
        String address() {
            return "strait://127.0.0.1:" + port + "/";
        }

        @Override
        public void close() throws IOException {
            try (StraitClient client = StraitClient.connect(address(), options)) {
                if (client.exists(root)) {
                    client.removeAll(root);
                }
            } finally {
                stop(process);
                Files.delete(log);
                if (scratch != null) {
                    removeAll(scratch);
                }
            }
        }
    }

    /** The stores to test: `hdfs` only if there is one. */
    static List<String> stores() {
        return System.getenv("STRAIT_TEST_HDFS") == null
                ? List.of("file", "kadoop")
                : List.of("file", "kadoop", "hdfs");
    }

    /** A gateway over the store of that kind. */
    static Gateway start(String store) throws IOException, InterruptedException {
        if (store.equals("hdfs")) {
            String uri = System.getenv("STRAIT_TEST_HDFS");
            return start(uri, null, ConnectOptions.defaults(), List.of());
        }
        if (store.equals("kadoop")) {
            Path scratch = Files.createTempDirectory("strait-java-");
            String data = scratch.resolve("data").toString();
            List<String> up = List.of(command().toString(), "up", "--data", data);
            return start(new ArrayList<>(up), scratch, ConnectOptions.defaults());
        }
        return start(ConnectOptions.defaults(), List.of());
    }

    /** A gateway over this directory, with more arguments. */
    static Gateway over(Path directory, List<String> arguments)
            throws IOException, InterruptedException {
        return start(directory.toUri().toString(), null, ConnectOptions.defaults(), arguments);
    }

    /** A gateway over a directory, with more arguments; the tests connect with these options. */
    static Gateway start(ConnectOptions options, List<String> arguments)
            throws IOException, InterruptedException {
        Path scratch = Files.createTempDirectory("strait-java-");
        return start(scratch.toUri().toString(), scratch, options, arguments);
    }

    /** The disk of a cluster's datanodes, in memory; it ends with the cluster's process. */
    record SmallDisk(Path ballast) {
        // Beyond what datanodes leave free for others, 64 MiB.
        private static final long SIZE = 128 << 20;

        void fill() throws IOException {
            try (OutputStream file = Files.newOutputStream(ballast)) {
                for (int step : new int[] {1 << 20, 4 << 10}) {
                    writeUntilFull(file, step);
                }
            }
        }

        private static void writeUntilFull(OutputStream file, int step) {
            byte[] zeros = new byte[step];
            try {
                for (long written = 0; written <= SIZE; written += step) {
                    file.write(zeros);
                }
            } catch (IOException full) {
                // As wanted.
            }
        }

        void relieve() throws IOException {
            Files.delete(ballast);
        }
    }

    /** A Kadoop whose datanodes have one small disk. */
    record SmallKadoop(Gateway gateway, SmallDisk disk) implements AutoCloseable {
        @Override
        public void close() throws IOException {
            gateway.close();
        }
    }

    /** Skips a test where the machine lacks something; fails it under {@code CI=true}. */
    static void needs(boolean present, String what) {
        String reason = "the test needs " + what;
        assertTrue(present || !"true".equals(System.getenv("CI")), "CI skips no test: " + reason);
        Assumptions.assumeTrue(present, reason);
    }

    /** {@code strait up} on a small disk; needs root. */
    static SmallKadoop kadoopOnASmallDisk() throws IOException, InterruptedException {
        needs(System.getProperty("user.name").equals("root"), "root, who can mount a small disk");
        Path scratch = Files.createTempDirectory("strait-java-");
        Path disk = Files.createDirectory(scratch.resolve("disk"));
        Path data = Files.createDirectory(scratch.resolve("data"));
        for (int number = 1; number <= 3; number++) {
            Path directory = disk.resolve(Integer.toString(number));
            Files.createSymbolicLink(data.resolve("datanode-" + number), directory);
        }
        // In a mount namespace of its own, so that the mount ends with the process.
        String script =
                "mount -t tmpfs -o size=%d strait-test %2$s; mkdir %2$s/1 %2$s/2 %2$s/3; exec \"$@\""
                        .formatted(SmallDisk.SIZE, disk);
        List<String> command =
                new ArrayList<>(List.of("unshare", "--mount", "sh", "-ec", script, "sh"));
        command.addAll(List.of(command().toString(), "up", "--data", data.toString()));
        Gateway gateway = start(command, scratch, ConnectOptions.defaults());
        String root = "/proc/" + gateway.process.pid() + "/root";
        return new SmallKadoop(gateway, new SmallDisk(Path.of(root + disk, "ballast")));
    }

    private static Gateway start(
            String uri, Path scratch, ConnectOptions options, List<String> arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(command().toString(), "serve"));
        command.addAll(List.of("--store", uri));
        command.addAll(arguments);
        return start(command, scratch, options);
    }

    private static Gateway start(List<String> command, Path scratch, ConnectOptions options)
            throws IOException, InterruptedException {
        int port = freePort();
        command.addAll(List.of("--listen", "127.0.0.1:" + port));
        Path log = Files.createTempFile("strait-java-", ".log");
        Process process =
                new ProcessBuilder(command)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .redirectError(log.toFile())
                        .start();
        String root = "/strait-java-" + UUID.randomUUID();
        Gateway gateway = new Gateway(port, root, options, process, log, scratch);
        try {
            awaitReady(gateway);
            return gateway;
        } catch (IOException | InterruptedException | RuntimeException error) {
            stop(process);
            throw error;
        }
    }

    private static void awaitReady(Gateway gateway) throws IOException, InterruptedException {
        Waits.eventually("a gateway at " + gateway.address(), () -> answers(gateway));
    }

    private static boolean answers(Gateway gateway) throws IOException {
        if (!gateway.process.isAlive()) {
            throw new IllegalStateException("no gateway: " + Files.readString(gateway.log));
        }
        try (StraitClient client = StraitClient.connect(gateway.address(), gateway.options)) {
            client.exists("/");
            return true;
        } catch (IOException error) {
            // This is an answer of the running gateway.
            if (Failures.isOf(error, ErrorKind.UNAUTHENTICATED)) {
                throw error;
            }
            return false;
        }
    }

    private static void stop(Process process) {
        process.destroy();
        process.onExit()
                .completeOnTimeout(process, STOP_DEADLINE.toSeconds(), TimeUnit.SECONDS)
                .join();
        if (process.isAlive()) {
            process.destroyForcibly().onExit().join();
        }
    }

    static Path command() {
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
                .orElseThrow(
                        () ->
                                new IllegalStateException(
                                        "no gateway: cargo build -p strait, or set STRAIT_BIN"));
    }

    /**
     * A free port below Linux's range of ephemeral ports. Any outgoing connection may take a port
     * of that range, even the one that checks whether the gateway is ready.
     */
    static int freePort() throws IOException {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10_000, 32_768);
            try (ServerSocket free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (BindException taken) {
                continue;
            }
        }
    }

    static void removeAll(Path directory) throws IOException {
        try (Stream<Path> entries = Files.walk(directory)) {
            for (Path entry : entries.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(entry);
            }
        }
    }
}
