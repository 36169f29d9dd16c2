package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.internal.DfsError;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.NonReadableChannelException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Streams and channels to write. */
class WritingTest {
    private static final byte[] DATA = Bytes.pattern(5, 0, (3 << 20) + 1_234);

    private FakeGateway gateway;
    private StraitClient client;

    @BeforeEach
    void connect() throws IOException {
        gateway = new FakeGateway();
        client = StraitClient.connect(gateway.address());
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        gateway.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {999, 65_536, 1 << 20, 2_000_003, 10_000_000})
    void aStreamTakesPiecesOfAnySize(int size) throws IOException {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            for (int done = 0; done < DATA.length; done += size) {
                file.write(DATA, done, Math.min(size, DATA.length - done));
            }
            assertEquals(DATA.length, file.position());
        }
        assertArrayEquals(DATA, gateway.files.get("/f"));
        assertEquals(4, gateway.calls("appendData"), "of at most 1 MiB each");
    }

    @Test
    void aChannelTakesAnyBuffer() throws IOException {
        try (StraitChannel file = client.newByteChannel("/f", StandardOpenOption.CREATE_NEW)) {
            ByteBuffer direct = ByteBuffer.allocateDirect(DATA.length).put(DATA).flip();
            assertEquals(DATA.length, file.write(direct));
            assertEquals(DATA.length, file.write(ByteBuffer.wrap(DATA)));
            assertEquals(2 * DATA.length, file.size());
            assertThrows(NonReadableChannelException.class, () -> file.read(direct));
            assertThrows(UnsupportedOperationException.class, () -> file.position(0));
            assertThrows(UnsupportedOperationException.class, () -> file.truncate(0));
        }
        assertEquals(2 * DATA.length, gateway.files.get("/f").length);
    }

    @Test
    void flushSendsWhatThereIs() throws IOException {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            file.write(7);
            assertEquals(0, gateway.calls("appendData"));
            file.flush();
            assertEquals(1, gateway.calls("appendData"));
            assertEquals(1, gateway.calls("flushFile"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"before", "after"})
    void appendsCutOffAreDoneOnceAndMarkedAsRetries(String cut) throws IOException {
        try (StraitOutputStream file = client.newOutputStream("/f")) {
            file.write(DATA, 0, 1 << 20);
            synchronized (gateway) {
                (cut.equals("before") ? gateway.cutBefore : gateway.cutAfter).add("appendData");
            }
            file.write(DATA, 1 << 20, DATA.length - (1 << 20));
        }
        assertArrayEquals(DATA, gateway.files.get("/f"));
        assertTrue(gateway.retries("appendData") > 0);
    }

    @Test
    void aFailureSurfacesAtCloseAtTheLatest() throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        gateway.raises.put("appendData", FakeGateway.failure(ErrorKind.CORRUPT, null));
        file.write(DATA, 0, 10);
        StraitException error = assertThrows(StraitException.class, file::close);
        assertEquals(ErrorKind.CORRUPT, error.kind());
        assertEquals("/f", error.path());
        file.close();
    }

    @Test
    void aFailureToldOnceIsToldAgainByEachLaterCallAndNoneHidesAnother() {
        DfsError corrupt = FakeGateway.failure(ErrorKind.CORRUPT, null);
        StraitException error =
                assertThrows(
                        StraitException.class,
                        () -> {
                            try (StraitOutputStream file = client.newOutputStream("/f")) {
                                gateway.raises.put("appendData", corrupt);
                                file.write(1);
                                file.flush();
                            }
                        });
        assertEquals(ErrorKind.CORRUPT, error.kind());
        StraitFailure again = (StraitFailure) error.getSuppressed()[0];
        assertEquals(ErrorKind.CORRUPT, again.kind());
    }

    @ParameterizedTest
    @ValueSource(strings = {"appendData", "flushFile", "closeFile"})
    void afterItsSessionHasEndedTheOutcomeIsUnknown(String next) throws IOException {
        StraitOutputStream file = client.newOutputStream("/f");
        file.write(DATA, 0, 10);
        file.flush();
        gateway.forgetSessions(next);
        StraitException error =
                assertThrows(
                        StraitException.class,
                        () -> {
                            if (next.equals("appendData")) {
                                file.write(DATA, 0, 10);
                            }
                            if (!next.equals("closeFile")) {
                                file.flush();
                            }
                            file.close();
                        });
        assertEquals(ErrorKind.OUTCOME_UNKNOWN, error.kind());
        assertEquals("/f", error.path());
        client.newOutputStream("/g").close();
    }

    @Test
    void optionsSayWhatToDoWithWhatIsThere() throws IOException {
        client.newOutputStream("/f", CreateOption.permission(0640)).close();
        assertThrows(
                FileAlreadyExistsException.class,
                () -> client.newOutputStream("/f", StandardOpenOption.CREATE_NEW));
        assertThrows(
                UnsupportedOperationException.class,
                () -> client.newOutputStream("/f", StandardOpenOption.WRITE));
        assertThrows(
                UnsupportedOperationException.class,
                () -> client.newByteChannel(
                                "/f", StandardOpenOption.READ, StandardOpenOption.APPEND));
        assertFalse(gateway.files.isEmpty());
    }
}
