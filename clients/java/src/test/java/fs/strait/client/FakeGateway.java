package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.internal.DfsError;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.IntUnaryOperator;
import java.util.function.LongUnaryOperator;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TBase;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TStruct;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.apache.thrift.transport.TMemoryInputTransport;

/**
 * A gateway over a map, in this process, that fails on demand; of the framed binary wire.
 *
 * <p>It implements just enough of DfsV2 to test the client's own duties (pipelining, short replies,
 * reconnecting, repetitions) without a server. The gateway itself guards the state that tests read
 * or change.
 */
final class FakeGateway implements AutoCloseable {
    final Map<String, byte[]> files = new HashMap<>();
    /** Methods whose next call breaks the connection, before or after its execution. */
    final List<String> cutBefore = new ArrayList<>();

    final List<String> cutAfter = new ArrayList<>();
    /** Errors of the next call of a method. */
    final Map<String, DfsError> raises = new HashMap<>();
    /** Reply to the next call of a method, whatever its request. */
    final Map<String, TBase<?, ?>> answers = new HashMap<>();

    /** Whether the store is full: it refuses to append, flush or close. */
    boolean full;

    /** Whether a file goes on after that; otherwise a failed close ends it. */
    boolean goesOn = true;

    /** Number of files that their clients gave up. */
    int abandoned;

    private final Set<String> silent = new HashSet<>();
    private int round;

    /** Maps a file's length to the one that openFile claims. */
    LongUnaryOperator claim = length -> length;

    /** The identity that openFile gives for every file. */
    byte[] identity = {1};

    /** Maps the bytes that a readRange requests to the bytes of its reply. */
    IntUnaryOperator shorten = length -> length;

    private final Map<String, Integer> calls = new HashMap<>();
    private final Map<String, Integer> retries = new HashMap<>();
    private final Map<ByteBuffer, TBase<?, ?>> repetitions = new HashMap<>();
    private final FakeMethods methods = new FakeMethods(this);
    private final List<Socket> sockets = new ArrayList<>();
    private final ServerSocket listener;

    FakeGateway() throws IOException {
        this(InetAddress.getLoopbackAddress());
    }

    /** Listens on this address of the machine. */
    FakeGateway(InetAddress address) throws IOException {
        listener = new ServerSocket(0, 50, address);
        start(this::accept);
    }

    String address() {
        String host = listener.getInetAddress().getHostAddress();
        return "strait://" + host + ":" + listener.getLocalPort() + "/";
    }

    static DfsError failure(ErrorKind kind, String path) {
        DfsError error = new DfsError().setCode(kind.ordinal() + 1).setKind(kind.toString());
        return error.setMessage("as asked").setPath(path);
    }

    synchronized void breakConnections() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    /** Acts as a restarted gateway: the next request in an old session fails. */
    synchronized void forgetSessions(String nextRequest) {
        methods.forgetSessions();
        raises.put(nextRequest, failure(ErrorKind.UNAUTHENTICATED, null));
    }

    /** Acts as another gateway in its place. */
    synchronized void restart() throws IOException {
        methods.forgetSessions();
        breakConnections();
    }

    synchronized int calls(String method) {
        return calls.getOrDefault(method, 0);
    }

    /** Makes calls of a method wait, until {@link #resume}. */
    synchronized void fallSilent(String method) {
        silent.add(method);
    }

    /** Answers the calls that wait now; later ones wait again. */
    synchronized void resumeOnce() {
        round++;
        notifyAll();
    }

    /** Answers all waiting calls. */
    synchronized void resume() {
        silent.clear();
        notifyAll();
    }

    /** Waits until there were this many calls of a method; fails after some seconds. */
    synchronized void awaitCalls(String method, int count) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (calls(method) < count) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            assertTrue(left > 0, () -> calls(method) + " calls of " + method);
            wait(left);
        }
    }

    synchronized int retries(String method) {
        return retries.getOrDefault(method, 0);
    }

    @Override
    public void close() throws IOException {
        resume();
        listener.close();
        breakConnections();
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "fake-gateway");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            for (; ; ) {
                Socket socket = listener.accept();
                synchronized (this) {
                    sockets.add(socket);
                }
                start(() -> serve(socket));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            DataOutputStream out =
                    new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            socket.setTcpNoDelay(true);
            for (; ; ) {
                byte[] frame = in.readNBytes(in.readInt());
                TMemoryBuffer reply = new TMemoryBuffer(1 << 10);
                answer(
                        new TBinaryProtocol(new TMemoryInputTransport(frame)),
                        new TBinaryProtocol(reply));
                out.writeInt(reply.length());
                out.write(reply.getArray(), 0, reply.length());
                out.flush();
            }
        } catch (IOException | TException cut) {
            // The test cut it, on either side.
        }
    }

    private void answer(TProtocol in, TProtocol out) throws TException {
        TMessage message = in.readMessageBegin();
        in.readStructBegin();
        in.readFieldBegin();
        TBase<?, ?> request = methods.newRequest(message.name);
        TBase<?, ?> reply;
        short field = 0;
        try {
            if (request == null) {
                unknown(message, out);
                return;
            }
            request.read(in);
            reply = once(message.name, request);
        } catch (DfsError error) {
            reply = error;
            field = 1;
        }
        out.writeMessageBegin(new TMessage(message.name, TMessageType.REPLY, message.seqid));
        out.writeStructBegin(new TStruct(""));
        out.writeFieldBegin(new TField("", TType.STRUCT, field));
        reply.write(out);
        // A field that a newer gateway might add.
        out.writeFieldBegin(new TField("", TType.I64, (short) 99));
        out.writeI64(1);
        out.writeFieldStop();
    }

    private synchronized void awaitVoice(String name) throws TException {
        try {
            int before = round;
            while (silent.contains(name) && round == before) {
                wait();
            }
        } catch (InterruptedException interrupt) {
            throw new TException(interrupt);
        }
    }

    private static void unknown(TMessage message, TProtocol out) throws TException {
        out.writeMessageBegin(new TMessage(message.name, TMessageType.EXCEPTION, message.seqid));
        new TApplicationException(TApplicationException.UNKNOWN_METHOD, "unknown").write(out);
    }

    private synchronized TBase<?, ?> once(String name, TBase<?, ?> request) throws TException {
        calls.merge(name, 1, Integer::sum);
        notifyAll();
        awaitVoice(name);
        DfsError raised = raises.remove(name);
        if (raised != null) {
            throw raised;
        }
        if (cutBefore.remove(name)) {
            throw new TException("cut before");
        }
        ByteBuffer id = (ByteBuffer) FakeMethods.get(request, "request_id");
        boolean retry = Boolean.TRUE.equals(FakeMethods.get(request, "is_retry"));
        retries.merge(name, retry ? 1 : 0, Integer::sum);
        TBase<?, ?> reply = id == null ? null : repetitions.get(id);
        if (reply != null && !retry) {
            throw new AssertionError(name + ": the same request twice, not marked so");
        }
        if (reply == null) {
            TBase<?, ?> given = answers.remove(name);
            try {
                reply = given != null ? given : methods.call(name, request);
            } catch (DfsError error) {
                reply = error; // which is remembered, too
            }
        }
        if (id != null) {
            repetitions.put(id, reply);
        }
        if (cutAfter.remove(name)) {
            throw new TException("cut after");
        }
        if (reply instanceof DfsError error) {
            throw error;
        }
        return reply;
    }
}
