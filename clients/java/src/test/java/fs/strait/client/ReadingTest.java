package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.internal.DfsError;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Streams and channels to read. */
class ReadingTest {
    // Some chunks, and an odd end.
    private static final byte[] DATA = Bytes.pattern(3, 0, (5 << 20) + 4_321);

    private FakeGateway gateway;
    private StraitClient client;

    @BeforeEach
    void connect() throws IOException {
        gateway = new FakeGateway();
        gateway.files.put("/f", DATA);
        client = StraitClient.connect(gateway.address());
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        gateway.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {1_000, 4_096, 65_537, 1 << 20, 3_000_001, 10_000_000})
    void aStreamGivesTheFileInPiecesOfAnySize(int size) throws IOException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        byte[] piece = new byte[size + 7];
        try (InputStream file = client.newInputStream("/f")) {
            for (int count = file.read(piece, 3, size); count >= 0; ) {
                whole.write(piece, 3, count);
                count = file.read(piece, 3, size);
            }
            assertEquals(-1, file.read());
        }
        assertArrayEquals(DATA, whole.toByteArray());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 1_000, 50_000, (1 << 20) - 1})
    void shortRepliesAreNoEnd(int most) throws IOException {
        int bytes = most == 1 ? 1_000 : DATA.length;
        gateway.files.put("/f", Arrays.copyOf(DATA, bytes));
        gateway.shorten = length -> Math.min(length, most);
        try (InputStream file = client.newInputStream("/f")) {
            assertArrayEquals(Arrays.copyOf(DATA, bytes), file.readAllBytes());
        }
        try (StraitChannel file = client.newByteChannel("/f")) {
            ByteBuffer target = ByteBuffer.allocateDirect(bytes);
            assertEquals(bytes, file.read(target, 0));
            assertEquals(ByteBuffer.wrap(DATA, 0, bytes), target.flip());
        }
    }

    @Test
    void oneShortReplyAmongWholeOnesKeepsTheOrder() throws IOException {
        int[] calls = {0};
        gateway.shorten = length -> ++calls[0] == 4 ? length / 3 : length;
        try (InputStream file = client.newInputStream("/f")) {
            assertArrayEquals(DATA, file.readAllBytes());
        }
    }

    @Test
    void severalRequestsAreInFlight() throws IOException, InterruptedException {
        try (InputStream file = client.newInputStream("/f")) {
            file.readNBytes(2 << 20);
            gateway.awaitCalls("readRange", 5); // of 1 MiB each
        }
    }

    @Test
    void whoReadsLittleAsksForLittle() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            assertEquals(DATA[0], (byte) file.read());
            assertEquals(1, gateway.calls("readRange"));
        }
    }

    @Test
    void skippingStaysOnTheConnectionWhereItCan() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            file.readNBytes(3 << 20);
            int opened = gateway.calls("openSession");
            assertEquals(10_000, file.skip(10_000));
            assertEquals(DATA[(3 << 20) + 10_000], (byte) file.read());
            assertEquals(opened, gateway.calls("openSession"));
            assertEquals(DATA.length - (3 << 20) - 10_001, file.skip(Long.MAX_VALUE));
            assertEquals(-1, file.read());
            assertEquals(0, file.skip(-1));
        }
    }

    @Test
    void aFileThatGrewIsReadToItsNewEnd() throws IOException {
        byte[] start = Arrays.copyOf(DATA, 1_000_000);
        gateway.files.put("/f", start);
        try (InputStream file = client.newInputStream("/f")) {
            file.read();
            synchronized (gateway) {
                gateway.files.put("/f", DATA);
            }
            assertArrayEquals(Arrays.copyOfRange(DATA, 1, DATA.length), file.readAllBytes());
        }
    }

    @Test
    void aFileThatWasCutEndsEarly() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            file.read();
            synchronized (gateway) {
                gateway.files.put("/f", Arrays.copyOf(DATA, 2_000_000));
            }
            assertEquals(1_999_999, file.readAllBytes().length);
        }
    }

    @Test
    void aChannelReadsHereAndThereIntoAnyBuffer() throws IOException {
        try (StraitChannel file = client.newByteChannel("/f")) {
            assertEquals(DATA.length, file.size());
            for (boolean direct : new boolean[] {false, true}) {
                ByteBuffer target =
                        direct ? ByteBuffer.allocateDirect(70_000) : ByteBuffer.allocate(70_000);
                file.position(1_234_567);
                while (target.hasRemaining()) {
                    file.read(target);
                }
                assertEquals(ByteBuffer.wrap(DATA, 1_234_567, 70_000), target.flip());
                assertEquals(1_304_567, file.position());
            }
            ByteBuffer end = ByteBuffer.allocate(100);
            assertEquals(21, file.read(end, DATA.length - 21));
            assertEquals(-1, file.read(end, DATA.length));
            assertEquals(-1, file.position(DATA.length + 5).read(end));
            assertEquals(0, file.read(ByteBuffer.allocate(0)));
            assertThrows(NonWritableChannelException.class, () -> file.write(end));
            file.close();
            assertThrows(ClosedChannelException.class, () -> file.read(end));
        }
    }

    @Test
    void readingGoesOnAfterABrokenConnection() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            byte[] start = file.readNBytes(1_500_000);
            gateway.breakConnections();
            byte[] rest = file.readAllBytes();
            assertArrayEquals(DATA, concat(start, rest));
        }
    }

    @Test
    void readingGoesOnInANewSession() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            byte[] start = file.readNBytes(1_500_000);
            gateway.forgetSessions("readRange");
            gateway.breakConnections();
            assertArrayEquals(DATA, concat(start, file.readAllBytes()));
        }
    }

    @Test
    void aHandleThatEndsAgainAndAgainIsOpenedEachTime() throws IOException {
        try (StraitChannel channel = client.newByteChannel("/f")) {
            ByteBuffer buffer = ByteBuffer.allocate(100_000);
            endHandles(3);
            assertEquals(100_000, channel.read(buffer, 200_000));
            assertArrayEquals(Arrays.copyOfRange(DATA, 200_000, 300_000), buffer.array());
        }
    }

    @Test
    void aHandleThatNeverLastsIsReported() throws IOException {
        try (StraitChannel channel = client.newByteChannel("/f")) {
            endHandles(1_000);
            StraitException error =
                    assertThrows(
                            StraitException.class,
                            () -> channel.read(ByteBuffer.allocate(100_000), 200_000));
            assertEquals(ErrorKind.UNAVAILABLE, error.kind());
            assertEquals("/f", error.path());
            assertTrue(error.getMessage().contains("again and again"), error.getMessage());
        }
    }

    /** As of a gateway that restarts now, and after each of the next openings but the last. */
    private void endHandles(int times) {
        DfsError gone = FakeGateway.failure(ErrorKind.INVALID_ARGUMENT, null);
        AtomicInteger left = new AtomicInteger(times);
        synchronized (gateway) {
            gateway.raises.put("readRange", gone);
            gateway.claim =
                    length -> {
                        if (left.decrementAndGet() > 0) {
                            gateway.raises.put("readRange", gone);
                        }
                        return length;
                    };
        }
    }

    @Test
    void aFileReplacedByOneAsLongIsAnErrorAndNotAMixture() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            file.readNBytes(1_500_000);
            gateway.identity = new byte[] {2};
            gateway.forgetSessions("readRange");
            gateway.breakConnections();
            IOException error = assertThrows(IOException.class, file::readAllBytes);
            assertTrue(error.getMessage().contains("replaced by another"), error.getMessage());
        }
    }

    @Test
    void aMissingFileIsNone() {
        NoSuchFileException error =
                assertThrows(
                        NoSuchFileException.class, () -> client.newInputStream("/missing"));
        assertEquals("/missing", error.getFile());
        assertEquals(ErrorKind.NOT_FOUND, ((StraitFailure) error).kind());
    }

    @Test
    void aFailureAtReadingIsTheCallers() throws IOException {
        try (InputStream file = client.newInputStream("/f")) {
            file.read();
            synchronized (gateway) {
                gateway.files.remove("/f");
            }
            assertThrows(NoSuchFileException.class, file::readAllBytes);
        }
    }

    private static byte[] concat(byte[] one, byte[] other) {
        byte[] both = Arrays.copyOf(one, one.length + other.length);
        System.arraycopy(other, 0, both, one.length, other.length);
        return both;
    }
}
