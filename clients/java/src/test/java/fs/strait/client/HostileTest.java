package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.internal.CloseFileReply;
import fs.strait.client.internal.GetFileInfoReply;
import fs.strait.client.internal.ListDirectoryReply;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TStruct;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A broken or hostile gateway can make a program raise a failure of a kind, and nothing else. */
class HostileTest {
    private static final ConnectOptions UNFRAMED = ConnectOptions.defaults().wire(Wire.BINARY);

    private FakeGateway gateway;
    private StraitClient client;

    @BeforeEach
    void connect() throws IOException {
        gateway = new FakeGateway();
        for (String name : List.of("/a", "/b", "/c")) {
            gateway.files.put(name, new byte[] {1, 2, 3});
        }
        client = StraitClient.connect(gateway.address());
    }

    @AfterEach
    void close() throws IOException {
        client.close();
        gateway.close();
    }

    @Test
    void requestsSayHowLongTheClientWaits() throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<byte[]> login = CompletableFuture.supplyAsync(() -> frameTo(listener));
            String address = "127.0.0.1:" + listener.getLocalPort();
            ConnectOptions patient = ConnectOptions.defaults().timeout(Duration.ofSeconds(50));
            assertThrows(IOException.class, () -> StraitClient.connect(address, patient));
            ByteBuffer sent = ByteBuffer.wrap(login.join());
            int at = 0;
            while (sent.get(at) != TType.I32 || sent.getShort(at + 1) != 15) {
                at++; // beyond the end if there is no such field
            }
            int ms = sent.getInt(at + 3);
            assertTrue(ms > 40_000 && ms <= 50_000, ms + " ms");
        }
    }

    private static byte[] frameTo(ServerSocket listener) {
        try (Socket peer = listener.accept()) {
            DataInputStream in = new DataInputStream(peer.getInputStream());
            return in.readNBytes(in.readInt());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Test
    void aPageOfAListingWhoseReplyIsLostIsNotSkipped() throws IOException {
        Iterator<FileInfo> entries = client.list("/").iterator();
        assertEquals("/a", entries.next().path());
        gateway.cutAfter.add("listDirectory");
        UncheckedIOException error = assertThrows(UncheckedIOException.class, entries::next);
        assertTrue(Failures.isOf(error.getCause(), ErrorKind.UNAVAILABLE), error.toString());
    }

    @Test
    void aListingClosedEarlyIsClosedAtTheGateway() throws IOException {
        try (Stream<FileInfo> entries = client.list("/")) {
            assertEquals("/a", entries.findFirst().orElseThrow().path());
        }
        assertEquals(1, gateway.calls("closeFile"));
        try (Stream<FileInfo> entries = client.list("/")) {
            assertTrue(entries.count() > 1);
        }
        assertEquals(1, gateway.calls("closeFile"), "not at the end");
    }

    @Test
    void aListingThatOutlivesItsGatewaySaysToListAnew() throws IOException {
        Iterator<FileInfo> entries = client.list("/").iterator();
        entries.next();
        gateway.restart();
        UncheckedIOException error = assertThrows(UncheckedIOException.class, entries::next);
        assertTrue(Failures.isOf(error.getCause(), ErrorKind.UNAVAILABLE), error.toString());
        assertTrue(error.getMessage().contains("list anew"), error.toString());
    }

    @Test
    void aDirectoryOfPagesWithoutEntriesHasAnEnd() throws IOException {
        gateway.answers.put("listDirectory", new ListDirectoryReply().setCursor(1));
        assertInternal(() -> client.list("/"));
    }

    private static ListDirectoryReply page(String... paths) {
        ListDirectoryReply page = new ListDirectoryReply();
        for (String path : paths) {
            page.addToEntries(new fs.strait.client.internal.FileInfo().setPath(path));
        }
        return page;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"", "e", "/e", "/d", "/d/", "/d/.", "/d/..", "/d/../e", "/d/e/f", "/d//e", "/dd/e", "/d/e\0"})
    void anEntryOfAnotherPlaceIsRefused(String evil) {
        gateway.answers.put("listDirectory", page("/d/good", evil));
        assertInternal(() -> client.list("/d"));
    }

    @Test
    void anEntryOfAnotherPlaceIsRefusedOnLaterPagesToo() throws IOException {
        Iterator<FileInfo> entries = client.list("/").iterator();
        assertEquals("/a", entries.next().path());
        gateway.answers.put("listDirectory", page("/"));
        UncheckedIOException error = assertThrows(UncheckedIOException.class, entries::next);
        assertTrue(Failures.isOf(error.getCause(), ErrorKind.INTERNAL), error.toString());
    }

    @Test
    void slashesOfTheListedPathDoNotMatter() throws IOException {
        gateway.answers.put("listDirectory", page("/d/e/f"));
        assertEquals("f", client.list("/d//e/").findFirst().orElseThrow().name());
    }

    @Test
    void aFileThatTheGatewayClosesWithAnotherLengthIsAnError() throws IOException {
        StraitOutputStream file = client.newOutputStream("/new");
        file.write(new byte[3]);
        gateway.answers.put("closeFile", new CloseFileReply().setLength(2));
        assertInternal(file::close);
        assertEquals(0, gateway.abandoned, "it is closed");
    }

    @Test
    void aFilesLengthIsBelievedOnlyAsItsBytesCome() throws IOException {
        gateway.claim = length -> 1L << 62;
        try (InputStream file = client.newInputStream("/a")) {
            assertArrayEquals(new byte[] {1, 2, 3}, file.readAllBytes());
        }
    }

    @Test
    void aReplyWithoutWhatWasAskedForIsNoAnswer() {
        gateway.answers.put("getFileInfo", new GetFileInfoReply());
        assertInternal(() -> client.stat("/a"));
    }

    private static void assertInternal(org.junit.jupiter.api.function.Executable act) {
        StraitException error = assertThrows(StraitException.class, act);
        assertEquals(ErrorKind.INTERNAL, error.kind());
    }

    @ParameterizedTest
    @ValueSource(bytes = {TMessageType.CALL, TMessageType.REPLY})
    void aMessageThatIsNoReplyIsRefused(byte type) throws IOException, TException {
        byte[] greeting = replyTo("openSession", type, 0);
        assertEquals(type == TMessageType.REPLY, isTakenForAGateway(greeting));
    }

    @Test
    void aReplyToAnotherMethodIsRefused() throws IOException, TException {
        assertFalse(isTakenForAGateway(replyTo("closeSession", TMessageType.REPLY, 0)));
    }

    @Test
    void aReplyWithoutAnEndIsGivenUpOnAWireWithoutFramesToo() throws IOException, TException {
        byte[] endless = replyTo("openSession", TMessageType.REPLY, SocketTransport.MAX_MESSAGE_BYTES);
        assertFalse(isTakenForAGateway(endless));
    }

    /** With this many bytes of unknown fields. */
    private static byte[] replyTo(String method, byte type, int unknownBytes) throws TException {
        TMemoryBuffer bytes = new TMemoryBuffer(1 << 10);
        TBinaryProtocol out = new TBinaryProtocol(bytes);
        out.writeMessageBegin(new TMessage(method, type, 1));
        out.writeStructBegin(new TStruct(""));
        for (int left = unknownBytes; left > 0; left -= 1 << 16) {
            out.writeFieldBegin(new TField("", TType.STRING, (short) 99));
            out.writeString("x".repeat(1 << 16));
        }
        out.writeFieldBegin(new TField("", TType.STRUCT, (short) 0));
        out.writeStructBegin(new TStruct(""));
        out.writeFieldStop();
        out.writeFieldStop();
        return bytes.getArray();
    }

    private static boolean isTakenForAGateway(byte[] greeting) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Void> served =
                    CompletableFuture.runAsync(() -> answerOnce(server, greeting));
            String address = "127.0.0.1:" + server.getLocalPort();
            try {
                StraitClient.connect(address, UNFRAMED.token("t")).close();
                return true;
            } catch (StraitException error) {
                assertEquals(ErrorKind.UNAVAILABLE, error.kind());
                return false;
            } finally {
                served.join();
            }
        }
    }

    private static void answerOnce(ServerSocket server, byte[] greeting) {
        try (Socket socket = server.accept()) {
            socket.getInputStream().read(new byte[1000]);
            socket.getOutputStream().write(greeting);
        } catch (IOException hungUp) {
            // Expected, after too many bytes.
        }
    }

    @Test
    void silenceInAHandshakeIsATimeout() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            ConnectOptions options =
                    ConnectOptions.defaults().timeout(Duration.ofMillis(50)).tls(Tls.defaults());
            String address = "127.0.0.1:" + silent.getLocalPort();
            StraitException error =
                    assertThrows(
                            StraitException.class, () -> StraitClient.connect(address, options));
            assertEquals(ErrorKind.TIMED_OUT, error.kind());
        }
    }

    @Test
    void anAddressNamesNoUserAndAPasswordInItIsNotToldOn() {
        String address = gateway.address().replace("://", "://ada:secret@");
        StraitException error =
                assertThrows(StraitException.class, () -> StraitClient.connect(address));
        assertEquals(ErrorKind.INVALID_ARGUMENT, error.kind());
        assertFalse(error.toString().contains("secret"), error.toString());
    }
}
