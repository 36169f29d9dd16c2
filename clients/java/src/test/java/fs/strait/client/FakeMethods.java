package fs.strait.client;

import fs.strait.client.internal.AppendDataReply;
import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.CloseFileReply;
import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.CloseSessionReply;
import fs.strait.client.internal.CloseSessionRequest;
import fs.strait.client.internal.CreateFileRequest;
import fs.strait.client.internal.DfsError;
import fs.strait.client.internal.FileInfo;
import fs.strait.client.internal.FileType;
import fs.strait.client.internal.FlushFileReply;
import fs.strait.client.internal.FlushFileRequest;
import fs.strait.client.internal.GetFileInfoReply;
import fs.strait.client.internal.GetFileInfoRequest;
import fs.strait.client.internal.GetStoreStatusReply;
import fs.strait.client.internal.GetStoreStatusRequest;
import fs.strait.client.internal.Limits;
import fs.strait.client.internal.ListDirectoryReply;
import fs.strait.client.internal.ListDirectoryRequest;
import fs.strait.client.internal.MutationReply;
import fs.strait.client.internal.OpenFileReply;
import fs.strait.client.internal.OpenFileRequest;
import fs.strait.client.internal.OpenSessionReply;
import fs.strait.client.internal.OpenSessionRequest;
import fs.strait.client.internal.OpenWriterReply;
import fs.strait.client.internal.ProtocolVersion;
import fs.strait.client.internal.ReadRangeReply;
import fs.strait.client.internal.ReadRangeRequest;
import fs.strait.client.internal.RemovePathRequest;
import fs.strait.client.internal.RenamePathRequest;
import fs.strait.client.internal.StoreInfo;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.thrift.TBase;
import org.apache.thrift.TFieldIdEnum;

/** The methods of {@link FakeGateway}. */
final class FakeMethods {
    private static final int MAX_CHUNK_BYTES = 4 << 20;
    private static final int MAX_FIELD_ID = 32;

    private final FakeGateway gateway;
    private final Set<String> tokens = new HashSet<>();
    private final Map<Long, String> handles = new HashMap<>();
    private long incarnation = 1;
    private long lastHandle = 1000;
    private int lastToken;
    private int listed;

    FakeMethods(FakeGateway gateway) {
        this.gateway = gateway;
    }

    TBase<?, ?> newRequest(String method) {
        return switch (method) {
            case "openSession" -> new OpenSessionRequest();
            case "closeSession" -> new CloseSessionRequest();
            case "getFileInfo" -> new GetFileInfoRequest();
            case "getStoreStatus" -> new GetStoreStatusRequest();
            case "listDirectory" -> new ListDirectoryRequest();
            case "openFile" -> new OpenFileRequest();
            case "readRange" -> new ReadRangeRequest();
            case "createFile" -> new CreateFileRequest();
            case "appendData" -> new AppendDataRequest();
            case "flushFile" -> new FlushFileRequest();
            case "closeFile" -> new CloseFileRequest();
            case "renamePath" -> new RenamePathRequest();
            case "removePath" -> new RemovePathRequest();
            default -> null;
        };
    }

    TBase<?, ?> call(String method, TBase<?, ?> request) throws DfsError {
        return switch (method) {
            case "openSession" -> openSession((OpenSessionRequest) request);
            case "closeSession" -> new CloseSessionReply();
            case "getFileInfo" -> getFileInfo((GetFileInfoRequest) request);
            // As from a gateway that has just started.
            case "getStoreStatus" -> new GetStoreStatusReply().setUsed(1).setSettling(true);
            case "listDirectory" -> listDirectory((ListDirectoryRequest) request);
            case "openFile" -> openFile((OpenFileRequest) request);
            case "readRange" -> readRange((ReadRangeRequest) request);
            case "createFile" -> createFile((CreateFileRequest) request);
            case "appendData" -> appendData((AppendDataRequest) request);
            case "flushFile" -> flushFile((FlushFileRequest) request);
            case "closeFile" -> closeFile((CloseFileRequest) request);
            case "renamePath" -> renamePath((RenamePathRequest) request);
            case "removePath" -> removePath((RemovePathRequest) request);
            default -> throw new AssertionError(method);
        };
    }

    /** Acts as a restarted gateway. */
    void forgetSessions() {
        tokens.clear();
        handles.clear();
        incarnation++;
    }

    /** A request's field by name; null where it has none, or it isn't set. */
    static <T extends TBase<T, F>, F extends TFieldIdEnum> Object get(
            TBase<?, ?> any, String name) {
        @SuppressWarnings("unchecked")
        T request = (T) any;
        for (int id = 1; id <= MAX_FIELD_ID; id++) {
            F field = request.fieldForId(id);
            if (field != null && field.getFieldName().equals(name) && request.isSet(field)) {
                Object value = request.getFieldValue(field);
                return value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : value;
            }
        }
        return null;
    }

    private OpenSessionReply openSession(OpenSessionRequest request) throws DfsError {
        String token = request.getToken();
        if (token != null && !tokens.contains(token)) {
            throw FakeGateway.failure(ErrorKind.UNAUTHENTICATED, null);
        }
        if (token == null) {
            token = "token-" + ++lastToken;
            tokens.add(token);
        }
        StoreInfo store = new StoreInfo().setName("fake").setUri("fake:");
        store.setCapabilities(List.of("append", "rename_replace"));
        OpenSessionReply reply = new OpenSessionReply().setToken(token).setStore(store);
        reply.setUser(request.isSetUser() ? request.getUser() : "nobody");
        reply.setVersion(ProtocolVersion.V1).setIncarnation(incarnation);
        return reply.setLimits(new Limits().setMax_chunk_bytes(MAX_CHUNK_BYTES));
    }

    private GetFileInfoReply getFileInfo(GetFileInfoRequest request) throws DfsError {
        FileInfo info = new FileInfo().setPath(request.getPath()).setType(FileType.FILE);
        return new GetFileInfoReply().setInfo(info.setLength(file(request.getPath()).length));
    }

    /** All files are in one directory; each page has one of them, and its cursor advances. */
    private ListDirectoryReply listDirectory(ListDirectoryRequest request) throws DfsError {
        if (request.isSetCursor()) {
            path(request.getCursor());
        }
        List<String> names = gateway.files.keySet().stream().sorted().toList();
        FileInfo info = new FileInfo().setPath(names.get(listed++)).setType(FileType.FILE);
        ListDirectoryReply page = new ListDirectoryReply().setEntries(List.of(info));
        if (listed == names.size()) {
            return page;
        }
        return page.setCursor(request.isSetCursor() ? request.getCursor() : newHandle("/"));
    }

    private OpenFileReply openFile(OpenFileRequest request) throws DfsError {
        int length = file(request.getPath()).length;
        OpenFileReply reply = new OpenFileReply().setHandle(newHandle(request.getPath()));
        reply.setIdentity(gateway.identity);
        return reply.setLength(gateway.claim.applyAsLong(length));
    }

    private ReadRangeReply readRange(ReadRangeRequest request) throws DfsError {
        byte[] data = file(path(request.getHandle()));
        int from = (int) Math.min(data.length, request.getOffset());
        int length = gateway.shorten.applyAsInt(request.getLength());
        int to = Math.min(data.length, from + length);
        return new ReadRangeReply().setData(Arrays.copyOfRange(data, from, to));
    }

    private OpenWriterReply createFile(CreateFileRequest request) throws DfsError {
        if (!request.isOverwrite() && gateway.files.containsKey(request.getPath())) {
            throw FakeGateway.failure(ErrorKind.ALREADY_EXISTS, request.getPath());
        }
        gateway.files.put(request.getPath(), new byte[0]);
        return new OpenWriterReply().setHandle(newHandle(request.getPath())).setPosition(0);
    }

    private AppendDataReply appendData(AppendDataRequest request) throws DfsError {
        String path = path(request.getHandle());
        byte[] before = file(path);
        byte[] added = request.getData();
        if (request.isIs_retry() && request.getExpected_offset() + added.length == before.length) {
            return new AppendDataReply().setPosition(before.length); // its first try is forgotten
        }
        if (request.getExpected_offset() != before.length) {
            throw FakeGateway.failure(ErrorKind.INVALID_ARGUMENT, null);
        }
        checkRoom();
        byte[] after = Arrays.copyOf(before, before.length + added.length);
        System.arraycopy(added, 0, after, before.length, added.length);
        gateway.files.put(path, after);
        return new AppendDataReply().setPosition(after.length);
    }

    private CloseFileReply closeFile(CloseFileRequest request) throws DfsError {
        path(request.getHandle());
        if (request.isAbandon()) {
            gateway.abandoned++;
            handles.remove(request.getHandle());
            return new CloseFileReply().setLength(0);
        }
        if (gateway.goesOn) {
            checkRoom();
        }
        handles.remove(request.getHandle());
        checkRoom();
        return new CloseFileReply().setReplicas(2);
    }

    private FlushFileReply flushFile(FlushFileRequest request) throws DfsError {
        path(request.getHandle());
        checkRoom();
        return new FlushFileReply().setReplicas(3);
    }

    private void checkRoom() throws DfsError {
        if (gateway.full) {
            throw FakeGateway.failure(ErrorKind.NO_SPACE, null);
        }
    }

    private MutationReply renamePath(RenamePathRequest request) throws DfsError {
        file(request.getSource());
        gateway.files.put(request.getTarget(), gateway.files.remove(request.getSource()));
        return new MutationReply();
    }

    private MutationReply removePath(RemovePathRequest request) throws DfsError {
        file(request.getPath());
        gateway.files.remove(request.getPath());
        return new MutationReply();
    }

    private byte[] file(String path) throws DfsError {
        byte[] data = gateway.files.get(path);
        if (data == null) {
            throw FakeGateway.failure(ErrorKind.NOT_FOUND, path);
        }
        return data;
    }

    private String path(long handle) throws DfsError {
        String path = handles.get(handle);
        if (path == null) {
            throw FakeGateway.failure(ErrorKind.INVALID_ARGUMENT, null);
        }
        return path;
    }

    private long newHandle(String path) {
        long handle = ++lastHandle;
        handles.put(handle, path);
        return handle;
    }
}
