package fs.strait.client;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import org.apache.thrift.TBase;
import org.apache.thrift.TFieldIdEnum;

/**
 * A request that changes something: it carries an id, by which the gateway recognises a repetition
 * and answers it without executing it again.
 */
final class Mutation {
    // Random, so that no two clients share one.
    private static final int REQUEST_ID_BYTES = 16;
    private static final SecureRandom RANDOM = new SecureRandom();

    // Fields of every mutation in idl/dfs.thrift.
    static final String REQUEST_ID = "request_id";
    static final String IS_RETRY = "is_retry";
    private static final int REQUEST_ID_FIELD = 2;
    private static final int IS_RETRY_FIELD = 3;
    // The path's field in mutations about a path.
    private static final int PATH_FIELD = 4;
    // The same in requests that change nothing.
    private static final int READ_PATH_FIELD = 2;

    private final TBase<?, ?> request;
    private final boolean wasSent;

    private Mutation(TBase<?, ?> request, boolean wasSent) {
        this.request = request;
        this.wasSent = wasSent;
    }

    /** Gives the request its id. */
    static Mutation of(TBase<?, ?> request) {
        set(request, REQUEST_ID_FIELD, REQUEST_ID, newRequestId());
        return new Mutation(request, false);
    }

    /** A request that has its id, and was sent before. */
    static Mutation again(TBase<?, ?> request) {
        Mutation mutation = new Mutation(request, true);
        mutation.retry(true);
        return mutation;
    }

    static ByteBuffer newRequestId() {
        byte[] id = new byte[REQUEST_ID_BYTES];
        RANDOM.nextBytes(id);
        return ByteBuffer.wrap(id);
    }

    /** Records whether an earlier attempt may have reached a gateway. */
    void retry(boolean sent) {
        set(request, IS_RETRY_FIELD, IS_RETRY, sent || wasSent);
    }

    /** The path that it changes; null if it names none. */
    String path() {
        return text(request, PATH_FIELD);
    }

    /** The path of a request that changes nothing; null if it names none. */
    static String pathOf(TBase<?, ?> request) {
        return text(request, READ_PATH_FIELD);
    }

    private static <T extends TBase<T, F>, F extends TFieldIdEnum> String text(
            TBase<?, ?> any, int id) {
        @SuppressWarnings("unchecked")
        T request = (T) any;
        F field = request.fieldForId(id);
        Object value = field == null || !request.isSet(field) ? null : request.getFieldValue(field);
        return value instanceof String path ? path : null;
    }

    private static <T extends TBase<T, F>, F extends TFieldIdEnum> void set(
            TBase<?, ?> any, int id, String name, Object value) {
        @SuppressWarnings("unchecked")
        T request = (T) any;
        F field = request.fieldForId(id);
        if (field == null || !field.getFieldName().equals(name)) {
            throw new IllegalArgumentException(any.getClass() + " has no " + name);
        }
        request.setFieldValue(field, value);
    }
}
