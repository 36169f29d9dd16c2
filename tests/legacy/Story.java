import com.opendatagroup.dfsservice.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.Arrays;
import java.util.List;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;

/**
 * A program of 2009: what the report's users did, step by step. It prints a line a step and stops
 * at the first wrong answer.
 *
 * <p>Story HOST PORT USER PASSWORD DIR LOCAL_DIR. DIR is a directory to make in the store; LOCAL_DIR
 * lies on the gateway's host, below the directory that its operator named. What `read` gives is a
 * Java String, so the data is text here.
 */
class Story {
    static final long NEXT = -1; // offset: go on where the last call ended
    static final int BUFFER = 4096; // the report's buffers
    static final int TIMEOUT_MS = 30_000; // a silent server fails the run

    interface Call {
        void run() throws TException;
    }

    static void step(String name, boolean holds) {
        System.out.println((holds ? "ok    " : "WRONG ") + name);
        if (!holds) System.exit(1);
    }

    static boolean refused(Call call) throws TException {
        try {
            call.run();
            return false;
        } catch (DfsServiceIOException error) {
            return !error.message.isEmpty();
        }
    }

    /** Text at no round length, every character a byte of its own. */
    static String text() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; text.length() < 3 * BUFFER + 1234; i++) text.append("record ").append(i).append('\n');
        return text.toString();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static DfsService.Client connect(String[] args) throws TException {
        TSocket socket = new TSocket(args[0], Integer.parseInt(args[1]), TIMEOUT_MS);
        socket.open();
        return new DfsService.Client(new TBinaryProtocol(socket));
    }

    static Api logIn(String[] args) throws TException {
        DfsService.Client client = connect(args);
        ClientHandle session = client.init(null);
        step("init without a URI opens the default store", session.id >= 0);
        step("login with the wrong password is refused", !client.login(session, args[2], args[3] + "x"));
        step("login", client.login(session, args[2], args[3]));
        return new Api(client, session);
    }

    static void writeAndRead(Api dfs, String path) throws TException {
        String data = text();
        DfsHandle out = dfs.open(path, dfsConstants.WRITE);
        step("write at offset -1", dfs.write(out, bytes(data), NEXT, 1000));
        step("write at the running offset", dfs.write(out, bytes(data.substring(1000, 2000)), 1000, 1000));
        step("write elsewhere than at the end is refused",
                refused(() -> dfs.write(out, bytes("x"), 7, 1)));
        step("write of more than the buffer is refused",
                refused(() -> dfs.write(out, bytes("x"), 2000, 2)));
        step("write goes on after a refusal",
                dfs.write(out, bytes(data.substring(2000)), 2000, data.length() - 2000));
        step("close", dfs.close(out));
        step("close of a closed handle is false", !dfs.close(out));
        step("open for WRITE of an existing file is refused",
                refused(() -> dfs.open(path, dfsConstants.WRITE)));

        DfsHandle in = dfs.open(path, dfsConstants.READ);
        StringBuilder read = new StringBuilder();
        for (String part; !(part = dfs.read(in, NEXT, BUFFER)).isEmpty(); ) read.append(part);
        step("read with offset -1 gives every byte", data.contentEquals(read));
        step("read at an offset", dfs.read(in, 4090, 20).equals(data.substring(4090, 4110)));
        step("read past the end is empty", dfs.read(in, data.length() + 5, 100).isEmpty());
        step("a negative length is refused", refused(() -> dfs.read(in, 0, -1)));
        step("write to a handle for reading is false", !dfs.write(in, bytes("x"), NEXT, 1));
        step("close of a reader", dfs.close(in));

        String umlauts = "für später\0ganz";
        DfsHandle small = dfs.open(path + ".small", dfsConstants.WRITE);
        dfs.write(small, bytes(umlauts), NEXT, bytes(umlauts).length);
        dfs.close(small);
        DfsHandle back = dfs.open(path + ".small", dfsConstants.READ);
        step("UTF-8 and a NUL come back", dfs.read(back, NEXT, BUFFER).equals(umlauts));
        dfs.close(back);
        step("remove", dfs.client.remove(dfs.session, path + ".small", false));
    }

    static void names(Api dfs, String dir) throws TException {
        String before = dir + "/before.dat", after = dir + "/after.dat";
        step("move", dfs.client.move(dfs.session, before, after));
        step("stat of the old name is refused", refused(() -> dfs.client.stat(dfs.session, before)));
        FileStatus status = dfs.client.stat(dfs.session, after);
        step("stat", status.path.equals("after.dat") && !status.isdir && status.length == text().length()
                && status.permission.length() == 9 && !status.owner.isEmpty() && status.modification_time > 0);
        List<FileStatus> listing = dfs.client.listFiles(dfs.session, dir);
        step("listFiles", listing.equals(Arrays.asList(status)));
    }

    static void localCopies(Api dfs, String dir, Path local) throws Exception {
        Files.write(local.resolve("in.dat"), bytes(text()));
        step("copyFromLocalFile", dfs.client.copyFromLocalFile(local + "/in.dat", dir + "/copy.dat"));
        step("copyToLocalFile", dfs.client.copyToLocalFile(dir + "/copy.dat", local + "/out.dat"));
        step("both copies have every byte",
                Arrays.equals(Files.readAllBytes(local.resolve("out.dat")), bytes(text())));
        step("a path outside the operator's directory is refused",
                refused(() -> dfs.client.copyFromLocalFile("/etc/passwd", dir + "/secret")));
    }

    public static void main(String[] args) throws Exception {
        String dir = args[4];
        step("init of an unknown store selects the only one",
                connect(args).init("sector://nowhere.invalid:6000").id > 0);
        Api dfs = logIn(args);
        step("mkdir", dfs.client.mkdir(dfs.session, dir));
        FileStatus status = dfs.client.stat(dfs.session, dir);
        step("stat of a directory", status.isdir && dir.endsWith("/" + status.path));
        writeAndRead(dfs, dir + "/before.dat");
        names(dfs, dir);
        localCopies(dfs, dir, Paths.get(args[5]));

        DfsHandle leftOpen = dfs.open(dir + "/left-open", dfsConstants.WRITE);
        dfs.write(leftOpen, bytes("tail"), NEXT, 4);
        step("closeClient", dfs.client.closeClient(dfs.session));
        step("a closed client is refused", refused(() -> dfs.client.stat(dfs.session, dir)));

        Api again = logIn(args);
        step("closeClient closed its files properly",
                again.client.stat(again.session, dir + "/left-open").length == 4);
        step("remove, recursively", again.client.remove(again.session, dir, true));
        step("logout", again.client.logout(again.session));
        step("closeClient again", again.client.closeClient(again.session));
        step("closeDfs after closeClient", again.closeDfs());
        logIn(args);
        step("the server outlives closeDfs", true);
    }
}
