package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.OptionalInt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A store without room: open files go on once there is room again. */
class FullStoresTest {
    private static final int MIB = 1 << 20;
    private static final byte[] DATA = Bytes.pattern(5, 0, 20 * MIB + 777);

    private FakeGateway gateway;
    private StraitClient client;

    @BeforeEach
    void open() throws IOException {
        gateway = new FakeGateway();
        client = StraitClient.connect(gateway.address());
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        gateway.close();
    }

    private void setFull(boolean full) {
        synchronized (gateway) {
            gateway.full = full;
        }
    }

    private byte[] stored(String path) {
        synchronized (gateway) {
            return gateway.files.get(path);
        }
    }

    private static void refused(Executable step) {
        StraitException error = assertThrows(StraitException.class, step);
        assertEquals(ErrorKind.NO_SPACE, error.kind());
        assertEquals("/f", error.path());
    }

    private static void act(String step, StraitOutputStream file) throws IOException {
        switch (step) {
            case "flush" -> file.flush();
            case "sync" -> file.sync();
            default -> file.close();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"flush", "sync", "close"})
    void eachStepMayBeRepeatedAndNothingIsLostOrDoubled(String step) throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        file.write(DATA, 0, 1000);
        file.sync();
        setFull(true);
        // The gateway refuses the first append, and with it the others.
        file.write(DATA, 1000, 3 * MIB);
        for (int n = 0; n < 2; n++) {
            refused(() -> act(step, file));
        }
        setFull(false);
        act(step, file);
        file.close();
        file.close();
        assertArrayEquals(Arrays.copyOf(DATA, 1000 + 3 * MIB), stored("/f"));
    }

    @Test
    void aRefusedWriteOfAChunkTookNothing() throws IOException {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            // A BufferedOutputStream writes again all that a failed write was given.
            BufferedOutputStream buffered = new BufferedOutputStream(file, 300_000);
            setFull(true);
            int taken = 0;
            int refusals = 0;
            while (taken < DATA.length) {
                int size = Math.min(100_000, DATA.length - taken);
                try {
                    buffered.write(DATA, taken, size);
                    taken += size;
                } catch (StraitException error) {
                    assertEquals(ErrorKind.NO_SPACE, error.kind());
                    refusals++;
                    setFull(refusals < 4);
                }
            }
            buffered.flush();
            assertEquals(4, refusals);
        }
        assertArrayEquals(DATA, stored("/f"));
    }

    @Test
    void theSourceAndThePositionTellHowMuchALargeWriteTook() throws IOException {
        StraitChannel file = client.newByteChannel("/f", StandardOpenOption.CREATE_NEW);
        setFull(true);
        ByteBuffer source = ByteBuffer.wrap(DATA);
        refused(() -> file.write(source));
        assertTrue(source.hasRemaining());
        assertEquals(source.position(), file.position());
        setFull(false);
        file.write(source);
        setFull(true);
        refused(file::close);
        assertTrue(file.isOpen());
        setFull(false);
        file.close();
        assertFalse(file.isOpen());
        assertEquals(OptionalInt.of(2), file.replicas());
        assertArrayEquals(DATA, stored("/f"));
    }

    @Test
    void flushSyncAndCloseTellTheReplicas() throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        assertEquals(OptionalInt.empty(), file.replicas());
        file.write(1);
        file.sync();
        assertEquals(OptionalInt.of(3), file.replicas());
        file.close();
        assertEquals(OptionalInt.of(2), file.replicas());
    }

    @Test
    void aFileThatIsNotClosedAgainIsReleasedWithAClientOfAToken() throws Exception {
        ConnectOptions byToken = ConnectOptions.defaults().token(client.token());
        try (StraitClient second = StraitClient.connect(gateway.address(), byToken)) {
            setFull(true);
            refused(
                    () -> {
                        try (StraitOutputStream file = second.newOutputStream("/f")) {
                            file.write(1);
                        }
                    });
            assertEquals(0, gateway.calls("closeFile"), "its append was refused before");
            setFull(false);
        }
        gateway.awaitCalls("closeFile", 1);
        synchronized (gateway) {
            assertEquals(1, gateway.abandoned);
        }
        assertEquals(0, gateway.calls("closeSession"));
    }

    @Test
    void aRefusedFileIsGivenUpAtOnceOnRequest() throws Exception {
        StraitOutputStream file = client.newOutputStream("/f");
        setFull(true);
        file.write(1);
        refused(file::close);
        file.abandon();
        gateway.awaitCalls("closeFile", 1);
        synchronized (gateway) {
            assertEquals(1, gateway.abandoned);
        }
        file.close();
    }

    @Test
    void aStoreThatCannotGoOnIsReportedByItsFirstError() throws IOException {
        gateway.goesOn = false;
        StraitOutputStream file = client.newOutputStream("/f");
        setFull(true);
        refused(file::close);
        setFull(false);
        // The gateway doesn't know the handle any more.
        StraitException error = assertThrows(StraitException.class, file::close);
        assertEquals(ErrorKind.NO_SPACE, error.kind());
        assertTrue(error.getMessage().contains("ended with an earlier error"), error.toString());
        file.close();
    }

    @Test
    void otherErrorsAfterARefusalEndTheFile() throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        setFull(true);
        file.write(1);
        refused(file::flush);
        setFull(false);
        gateway.raises.put("appendData", FakeGateway.failure(ErrorKind.CORRUPT, null));
        for (Executable step : new Executable[] {file::flush, file::flush, file::close}) {
            StraitException error = assertThrows(StraitException.class, step);
            assertEquals(ErrorKind.CORRUPT, error.kind());
        }
        file.close();
    }

    @Test
    void aGatewayThatForgotARefusedFileMakesItsOutcomeUnknown() throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        file.write(1);
        setFull(true);
        refused(file::close);
        setFull(false);
        gateway.restart();
        client.status();
        StraitException error = assertThrows(StraitException.class, file::close);
        assertEquals(ErrorKind.OUTCOME_UNKNOWN, error.kind());
    }

    @ParameterizedTest
    @ValueSource(strings = {"before", "after"})
    void aConnectionThatBreaksDuringTheRepetitionChangesNothing(String cut) throws IOException {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            setFull(true);
            file.write(DATA, 0, 3 * MIB);
            refused(file::flush);
            setFull(false);
            synchronized (gateway) {
                (cut.equals("before") ? gateway.cutBefore : gateway.cutAfter).add("appendData");
            }
        }
        assertArrayEquals(Arrays.copyOf(DATA, 3 * MIB), stored("/f"));
    }

    @Test
    void appendsThatWereTakenThoughOneWasRefusedAreNotDoubled() throws Exception {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            gateway.fallSilent("appendData");
            file.write(DATA, 0, 3 * MIB);
            gateway.awaitCalls("appendData", 1);
            synchronized (gateway) {
                gateway.files.put("/f", Arrays.copyOf(DATA, MIB));
                gateway.answers.put(
                        "appendData", FakeGateway.failure(ErrorKind.UNAVAILABLE, null));
                gateway.resume();
            }
            StraitException error = assertThrows(StraitException.class, file::flush);
            assertEquals(ErrorKind.UNAVAILABLE, error.kind());
        }
        assertArrayEquals(Arrays.copyOf(DATA, 3 * MIB), stored("/f"));
        assertEquals(3, gateway.calls("appendData"));
    }

    @Test
    void aPutIntoAFullStoreLeavesNothingAndDoesNotWait(@TempDir Path directory)
            throws IOException {
        Path local = Files.write(directory.resolve("local"), Arrays.copyOf(DATA, 3 * MIB));
        setFull(true);
        refused(() -> client.put(local, "/f"));
        synchronized (gateway) {
            assertTrue(gateway.files.isEmpty(), () -> gateway.files.keySet().toString());
        }
        assertEquals(3, gateway.calls("appendData"), "without a repetition");
    }

    @Test
    void filesOfAKadoopWhoseDisksAreFullGoOnOnceThereIsRoom() throws Exception {
        byte[] data = Arrays.copyOf(DATA, 12 * MIB);
        try (Gateways.SmallKadoop kadoop = Gateways.kadoopOnASmallDisk();
                StraitClient real = StraitClient.connect(kadoop.gateway().address())) {
            StraitOutputStream file = real.newOutputStream("/f");
            file.write("before, ".getBytes(StandardCharsets.UTF_8));
            file.sync();
            assertEquals(OptionalInt.of(1), file.replicas());
            kadoop.disk().fill();
            file.write(data);
            refused(file::close); // after 5 s without progress
            kadoop.disk().relieve();
            file.write(7);
            file.close();
            assertEquals(OptionalInt.of(1), file.replicas());
            try (InputStream read = real.newInputStream("/f")) {
                assertEquals("before, ", new String(read.readNBytes(8), StandardCharsets.UTF_8));
                assertArrayEquals(data, read.readNBytes(data.length));
                assertEquals(7, read.read());
                assertEquals(-1, read.read());
            }
            real.remove("/f");
        }
    }
}
