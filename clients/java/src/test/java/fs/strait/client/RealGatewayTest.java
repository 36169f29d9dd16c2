package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Against a real gateway, with connections cut at any byte. */
class RealGatewayTest {
    private static final byte[] DATA = Bytes.pattern(2, 0, (10 << 20) + 1);

    private static Gateways.Gateway gateway;

    @BeforeAll
    static void start() throws IOException, InterruptedException {
        gateway = Gateways.start("file");
        try (StraitClient client = StraitClient.connect(gateway.address());
                StraitOutputStream file = client.newOutputStream(gateway.root() + "/f")) {
            file.write(DATA);
        }
    }

    @AfterAll
    static void stop() throws IOException {
        gateway.close();
    }

    @ParameterizedTest
    @EnumSource(Wire.class)
    void aReadGoesOnAfterEachCut(Wire wire) throws IOException {
        ConnectOptions options = ConnectOptions.defaults().wire(wire);
        try (CuttingProxy proxy = new CuttingProxy(gateway.port());
                StraitClient client = StraitClient.connect(proxy.address(), options);
                InputStream file = client.newInputStream(gateway.root() + "/f")) {
            byte[] got = new byte[DATA.length];
            int pieces = 5;
            for (int n = 0; n < pieces; n++) {
                proxy.cutRepliesAfter.set(700_000 * n + 13);
                int from = got.length / pieces * n;
                int to = n == pieces - 1 ? got.length : got.length / pieces * (n + 1);
                assertEquals(to - from, file.readNBytes(got, from, to - from));
            }
            assertEquals(-1, file.read());
            assertArrayEquals(DATA, got);
            assertTrue(proxy.connections.get() > 1);
        }
    }

    @ParameterizedTest
    @EnumSource(Wire.class)
    void appendsAreMadeOnceWhicheverWayIsCut(Wire wire) throws IOException {
        ConnectOptions options = ConnectOptions.defaults().wire(wire);
        String path = gateway.root() + "/w-" + wire;
        try (CuttingProxy proxy = new CuttingProxy(gateway.port());
                StraitClient client = StraitClient.connect(proxy.address(), options)) {
            try (StraitOutputStream file =
                    client.newOutputStream(path, StandardOpenOption.CREATE_NEW)) {
                proxy.cutRequestsAfter.set(2_500_000);
                file.write(DATA, 0, 5 << 20);
                file.flush();
                proxy.cutRepliesAfter.set(70); // between the replies to two appends
                file.write(DATA, 5 << 20, DATA.length - (5 << 20));
            }
            assertTrue(proxy.connections.get() > 2);
            try (InputStream file = client.newInputStream(path)) {
                assertArrayEquals(DATA, file.readAllBytes());
            }
        }
    }

    @Test
    void twoThreadsReadAndWriteOverOneClient() throws IOException {
        try (StraitClient client = StraitClient.connect(gateway.address())) {
            List<CompletableFuture<Void>> threads = new ArrayList<>();
            for (int n = 0; n < 2; n++) {
                String path = gateway.root() + "/thread-" + n;
                byte[] data = Bytes.pattern(n, 0, 3_000_000 + n);
                threads.add(CompletableFuture.runAsync(() -> writeAndReadBack(client, path, data)));
            }
            threads.forEach(CompletableFuture::join);
        }
    }

    private static void writeAndReadBack(StraitClient client, String path, byte[] data) {
        try {
            for (int round = 0; round < 3; round++) {
                try (StraitOutputStream file = client.newOutputStream(path)) {
                    file.write(data);
                }
                try (InputStream file = client.newInputStream(path)) {
                    assertArrayEquals(data, file.readAllBytes());
                }
            }
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    @Test
    void oneChannelIsReadByTwoThreadsAtTheirOwnPlaces() throws IOException {
        try (StraitClient client = StraitClient.connect(gateway.address());
                StraitChannel file = client.newByteChannel(gateway.root() + "/f")) {
            List<CompletableFuture<Void>> threads = new ArrayList<>();
            for (int n = 0; n < 2; n++) {
                int start = 1_000_003 * n;
                threads.add(CompletableFuture.runAsync(() -> readPlaces(file, start)));
            }
            threads.forEach(CompletableFuture::join);
        }
    }

    private static void readPlaces(StraitChannel file, int start) {
        try {
            for (int offset = start; offset < DATA.length - 100_000; offset += 2_345_678) {
                ByteBuffer target = ByteBuffer.allocate(100_000);
                assertEquals(100_000, file.read(target, offset));
                assertEquals(ByteBuffer.wrap(DATA, offset, 100_000), target.flip());
            }
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }
}
