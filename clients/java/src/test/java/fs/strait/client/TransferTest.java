package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whole files. */
class TransferTest {
    private static final byte[] DATA = Bytes.pattern(9, 0, (6 << 20) + 77);

    @TempDir Path directory;

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

    private List<Path> local() throws IOException {
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.toList();
        }
    }

    @Test
    void getReplacesALocalFileIfToldToAndTellsHowFarItIs() throws IOException {
        Path target = Files.writeString(directory.resolve("t"), "old");
        assertThrows(FileAlreadyExistsException.class, () -> client.get("/f", target));
        assertEquals("old", Files.readString(target));
        List<Long> told = new ArrayList<>();
        long copied =
                client.get(
                        "/f",
                        target,
                        (done, total) -> {
                            assertEquals(DATA.length, total);
                            told.add(done);
                        },
                        StandardCopyOption.REPLACE_EXISTING);
        assertEquals(DATA.length, copied);
        assertArrayEquals(DATA, Files.readAllBytes(target));
        assertEquals(7, told.size());
        assertEquals(DATA.length, told.get(6));
        assertEquals(List.of(target), local());
    }

    @Test
    void aFailedGetLeavesWhatWasThere() throws IOException {
        Path target = Files.writeString(directory.resolve("t"), "old");
        assertThrows(NoSuchFileException.class, () -> client.get("/missing", directory.resolve("new")));
        Progress failing =
                (done, total) -> {
                    throw new IllegalStateException("enough");
                };
        assertThrows(
                IllegalStateException.class,
                () -> client.get("/f", target, failing, StandardCopyOption.REPLACE_EXISTING));
        assertEquals("old", Files.readString(target));
        assertEquals(List.of(target), local());
    }

    @Test
    void aFailedGetNamesTheFileThatWasWanted() throws IOException {
        Path nowhere = directory.resolve("nodir").resolve("x");
        NoSuchFileException missing =
                assertThrows(NoSuchFileException.class, () -> client.get("/f", nowhere));
        assertEquals(nowhere.toString(), missing.getFile());
        Path under = Files.writeString(directory.resolve("t"), "a file").resolve("x");
        FileSystemException wrong =
                assertThrows(FileSystemException.class, () -> client.get("/f", under));
        assertEquals(under.toString(), wrong.getFile());
    }

    @Test
    void aGetOfFewerBytesThanTheFileHadFailsAndLeavesNothing() throws IOException {
        gateway.claim = length -> length + 1L;
        StraitException error =
                assertThrows(
                        StraitException.class, () -> client.get("/f", directory.resolve("t")));
        assertEquals(ErrorKind.BUSY, error.kind());
        assertEquals("/f", error.path());
        assertEquals(List.of(), local());
    }

    @Test
    void getDoesNotReplaceWhatAppearedMeanwhile() throws IOException {
        Path target = directory.resolve("t");
        Progress appear =
                (done, total) -> {
                    try {
                        Files.writeString(target, "mine");
                    } catch (IOException failure) {
                        throw new UncheckedIOException(failure);
                    }
                };
        assertThrows(FileAlreadyExistsException.class, () -> client.get("/f", target, appear));
        assertEquals("mine", Files.readString(target));
        assertEquals(List.of(target), local());
    }

    @Test
    void getWritesToADeviceWithoutTakingItsPlace() throws IOException {
        Path device = Path.of("/dev/null");
        assertEquals(DATA.length, client.get("/f", device));
        assertTrue(Files.exists(device) && !Files.isRegularFile(device));
    }

    @Test
    void getTakesShortRepliesAndBrokenConnections() throws IOException {
        Path target = directory.resolve("t");
        int[] calls = {0};
        gateway.shorten = length -> ++calls[0] % 3 == 0 ? length / 2 + 1 : length;
        gateway.cutAfter.add("readRange");
        client.get("/f", target);
        assertArrayEquals(DATA, Files.readAllBytes(target));
    }

    @Test
    void putReplacesARemoteFileIfToldTo() throws IOException {
        Path source = Files.write(directory.resolve("s"), Bytes.pattern(1, 0, 3_000_001));
        assertThrows(FileAlreadyExistsException.class, () -> client.put(source, "/f"));
        assertArrayEquals(DATA, gateway.files.get("/f"));
        gateway.cutAfter.add("appendData");
        assertEquals(3_000_001, client.put(source, "/f", StandardCopyOption.REPLACE_EXISTING));
        assertArrayEquals(Files.readAllBytes(source), gateway.files.get("/f"));
        assertEquals(Set.of("/f"), gateway.files.keySet());
    }

    @Test
    void anEmptyFileIsCopiedToo() throws IOException {
        Path source = Files.createFile(directory.resolve("s"));
        assertEquals(0, client.put(source, "/empty"));
        assertEquals(0, client.get("/empty", directory.resolve("t")));
        assertEquals(0, Files.size(directory.resolve("t")));
    }

    @Test
    void aPutThatARestartOfTheGatewayEndsHasPutNothingAndSaysSoOfTheTarget() throws IOException {
        Path source = Files.write(directory.resolve("s"), DATA);
        Progress restarting =
                (done, total) -> {
                    gateway.forgetSessions("appendData");
                };
        StraitException error =
                assertThrows(
                        StraitException.class, () -> client.put(source, "/new", restarting));
        assertEquals(ErrorKind.UNAVAILABLE, error.kind());
        assertEquals("/new", error.path());
        assertTrue(error.retrySafe());
        assertEquals(Set.of("/f"), gateway.files.keySet());
    }

    @Test
    void aFailedPutLeavesWhatWasThere() throws IOException {
        Path source = Files.write(directory.resolve("s"), DATA);
        gateway.files.put("/f", new byte[] {1});
        gateway.raises.put("appendData", FakeGateway.failure(ErrorKind.NO_SPACE, null));
        StraitException error =
                assertThrows(
                        StraitException.class,
                        () -> client.put(source, "/f", StandardCopyOption.REPLACE_EXISTING));
        assertEquals(ErrorKind.NO_SPACE, error.kind());
        assertThrows(
                NoSuchFileException.class, () -> client.put(directory.resolve("none"), "/f"));
        assertEquals(Set.of("/f"), gateway.files.keySet());
        assertEquals(1, gateway.files.get("/f").length);
    }

    @ParameterizedTest
    @ValueSource(ints = {0600, 0666, 0755})
    void aCopyKeepsTheNarrowerOfModeAndUmask(int mode, @TempDir Path scratch)
            throws IOException, InterruptedException {
        int copied = mode & ~umask();
        Path original = Files.writeString(scratch.resolve("original"), "secret");
        Files.setAttribute(original, "unix:mode", 0100000 | mode);
        try (Gateways.Gateway real = Gateways.start("file");
                StraitClient copying = StraitClient.connect(real.address())) {
            copying.put(original, real.root());
            assertEquals(copied, copying.stat(real.root()).permission());
            copying.setAttributes(real.root(), Attributes.none().permission(mode));
            Path back = scratch.resolve("back");
            copying.get(real.root(), back);
            assertEquals(copied, (int) Files.getAttribute(back, "unix:mode") & 07777);
        }
    }

    private static int umask() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("Umask:"))
                .mapToInt(line -> Integer.parseInt(line.substring(6).strip(), 8))
                .findFirst()
                .orElseThrow();
    }
}
