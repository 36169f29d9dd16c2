package fs.strait.client;

import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.AppendFileRequest;
import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.CreateFileRequest;
import fs.strait.client.internal.FlushFileRequest;
import fs.strait.client.internal.ListDirectoryRequest;
import fs.strait.client.internal.OpenFileRequest;
import fs.strait.client.internal.ReadRangeRequest;
import fs.strait.client.internal.RemovePathRequest;
import fs.strait.client.internal.RenamePathRequest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.thrift.TBase;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.meta_data.FieldMetaData;
import org.apache.thrift.protocol.TType;

/** Requests by the names of idl/dfs.thrift, below the client. */
final class RawRequest {
    // Above any field's id.
    private static final int MAX_FIELD_ID = 32;

    private RawRequest() {}

    /** Sends a request and returns the reply's fields. */
    static Map<String, Object> send(Connection c, String method, Map<String, ?> fields)
            throws IOException {
        return switch (method) {
            case "openFile" -> call(c, Method.OPEN_FILE, new OpenFileRequest(), fields);
            case "readRange" -> call(c, Method.READ_RANGE, new ReadRangeRequest(), fields);
            case "createFile" -> call(c, Method.CREATE_FILE, new CreateFileRequest(), fields);
            case "appendFile" -> call(c, Method.APPEND_FILE, new AppendFileRequest(), fields);
            case "appendData" -> call(c, Method.APPEND_DATA, new AppendDataRequest(), fields);
            case "flushFile" -> call(c, Method.FLUSH_FILE, new FlushFileRequest(), fields);
            case "closeFile" -> call(c, Method.CLOSE_FILE, new CloseFileRequest(), fields);
            case "listDirectory" ->
                    call(c, Method.LIST_DIRECTORY, new ListDirectoryRequest(), fields);
            case "removePath" -> call(c, Method.REMOVE_PATH, new RemovePathRequest(), fields);
            case "renamePath" -> call(c, Method.RENAME_PATH, new RenamePathRequest(), fields);
            default -> throw new AssertionError("unknown method " + method);
        };
    }

    private static <R extends TBase<R, ?>> Map<String, Object> call(
            Connection connection, Method<R> method, TBase<?, ?> request, Map<String, ?> fields)
            throws IOException {
        return fields(connection.call(method, filled(request, fields)));
    }

    private static <T extends TBase<T, F>, F extends TFieldIdEnum> T filled(
            TBase<?, ?> any, Map<String, ?> fields) {
        @SuppressWarnings("unchecked")
        T request = (T) any;
        Map<String, Object> left = new HashMap<>(fields);
        for (int id = 1; id <= MAX_FIELD_ID; id++) {
            F field = request.fieldForId(id);
            Object value = field == null ? null : left.remove(field.getFieldName());
            if (value != null) {
                request.setFieldValue(field, fitting(request, field, value));
            }
        }
        if (!left.isEmpty()) {
            throw new AssertionError("unknown fields " + left.keySet());
        }
        return request;
    }

    private static <T extends TBase<T, F>, F extends TFieldIdEnum> Object fitting(
            T request, F field, Object value) {
        if (!(value instanceof Long number)) {
            return value;
        }
        @SuppressWarnings("unchecked")
        Class<T> type = (Class<T>) request.getClass();
        byte wire = FieldMetaData.getStructMetaDataMap(type).get(field).valueMetaData.type;
        return switch (wire) {
            case TType.I16 -> (Object) number.shortValue();
            case TType.I32 -> number.intValue();
            default -> number;
        };
    }

    private static <T extends TBase<T, F>, F extends TFieldIdEnum> Map<String, Object> fields(
            TBase<?, ?> any) {
        @SuppressWarnings("unchecked")
        T reply = (T) any;
        Map<String, Object> fields = new HashMap<>();
        for (int id = 1; id <= MAX_FIELD_ID; id++) {
            F field = reply.fieldForId(id);
            if (field != null && reply.isSet(field)) {
                Object value = reply.getFieldValue(field);
                boolean binary = value instanceof byte[];
                fields.put(
                        field.getFieldName(),
                        binary ? ByteBuffer.wrap((byte[]) value) : value);
            }
        }
        return fields;
    }
}
