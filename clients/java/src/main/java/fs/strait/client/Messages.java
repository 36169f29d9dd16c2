package fs.strait.client;

import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.DfsError;
import fs.strait.client.internal.ReadRangeReply;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TBase;
import org.apache.thrift.TException;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TProtocolUtil;
import org.apache.thrift.protocol.TStruct;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TTransportException;

/**
 * Encodes requests and decodes replies by Thrift's protocols.
 *
 * <p>It encodes the messages with payload, readRange and appendData, field by field. The generated
 * code would copy the payload twice; here it moves directly between the socket and its buffer.
 */
final class Messages {
    // The struct that Thrift makes of a method's arguments, and of its results.
    private static final TStruct STRUCT = new TStruct("");
    private static final TField REQUEST = new TField("request", TType.STRUCT, (short) 1);
    private static final short SUCCESS_ID = 0;
    private static final short ERROR_ID = 1;
    // Most elements of a list from the gateway: above any page it sends, and affordable memory if a
    // broken peer claims that many.
    private static final int MAX_LIST_ENTRIES = 1 << 20;

    private final SocketTransport transport;
    private final TProtocol protocol;
    private final boolean compact;
    private int requests;
    private int replies;

    // Of the readRange reply being received.
    private int payloadLeft;
    private boolean inPayload;

    Messages(SocketTransport transport, boolean compact) {
        this.transport = transport;
        this.compact = compact;
        long limit = SocketTransport.MAX_MESSAGE_BYTES;
        protocol =
                compact
                        ? new TCompactProtocol(transport, limit, MAX_LIST_ENTRIES)
                        : new TBinaryProtocol(transport, limit, MAX_LIST_ENTRIES);
    }

    // -- Requests

    void send(String method, TBase<?, ?> request) throws IOException, TException {
        beginRequest(method);
        request.write(protocol);
        endRequest();
        transport.send();
    }

    /** Sends appendData with the remaining bytes of `data`, which don't change. */
    void sendAppend(AppendDataRequest request, ByteBuffer data) throws IOException, TException {
        beginRequest(Method.APPEND_DATA.name());
        protocol.writeStructBegin(STRUCT);
        field(AppendDataRequest._Fields.REQUEST_ID, TType.STRING);
        protocol.writeBinary(request.request_id);
        field(AppendDataRequest._Fields.IS_RETRY, TType.BOOL);
        protocol.writeBool(request.is_retry);
        field(AppendDataRequest._Fields.HANDLE, TType.I64);
        protocol.writeI64(request.handle);
        field(AppendDataRequest._Fields.EXPECTED_OFFSET, TType.I64);
        protocol.writeI64(request.expected_offset);
        field(AppendDataRequest._Fields.DATA, TType.STRING);
        writeLength(data.remaining());
        int at = transport.written();
        protocol.writeFieldStop();
        protocol.writeStructEnd();
        endRequest();
        transport.send(data, at);
    }

    private void field(TFieldIdEnum field, byte type) throws TException {
        protocol.writeFieldBegin(new TField("", type, field.getThriftFieldId()));
    }

    private void beginRequest(String method) throws TException {
        transport.beginRequest();
        protocol.writeMessageBegin(new TMessage(method, TMessageType.CALL, ++requests));
        protocol.writeStructBegin(STRUCT);
        protocol.writeFieldBegin(REQUEST);
    }

    private void endRequest() throws TException {
        protocol.writeFieldEnd();
        protocol.writeFieldStop();
        protocol.writeStructEnd();
        protocol.writeMessageEnd();
    }

    // -- Replies

    <R extends TBase<R, ?>> R receive(Method<R> method) throws IOException, TException {
        beginReply(method.name());
        R reply = null;
        IOException error = null;
        for (TField field = nextField(); field != null; field = nextField()) {
            if (field.id == SUCCESS_ID && field.type == TType.STRUCT) {
                reply = method.newReply().get();
                reply.read(protocol);
            } else {
                error = readError(field, error);
            }
            protocol.readFieldEnd();
        }
        endReply();
        return answer(method, reply, error);
    }

    /**
     * Receives a readRange reply up to its payload.
     *
     * @return bytes of payload, for {@link #readPayload}; 0: the reply is complete
     */
    int beginRange() throws IOException, TException {
        beginReply(Method.READ_RANGE.name());
        IOException error = null;
        for (TField field = nextField(); field != null; field = nextField()) {
            if (field.id == SUCCESS_ID && field.type == TType.STRUCT) {
                protocol.readStructBegin();
                inPayload = true;
                payloadLeft = 0;
                skipToPayload();
                if (payloadLeft == 0) {
                    endRange();
                }
                return payloadLeft;
            }
            error = readError(field, error);
            protocol.readFieldEnd();
        }
        endReply();
        throw answer(Method.READ_RANGE, error);
    }

    /** Reads payload bytes into `target`, at least one; the last of them ends the reply. */
    int readPayload(ByteBuffer target) throws IOException, TException {
        int count = transport.readPayload(target, payloadLeft);
        payloadLeft -= count;
        if (payloadLeft == 0) {
            endRange();
        }
        return count;
    }

    int payloadLeft() {
        return payloadLeft;
    }

    private void skipToPayload() throws TException {
        short data = ReadRangeReply._Fields.DATA.getThriftFieldId();
        for (TField field = nextField(); field != null; field = nextField()) {
            if (field.id == data && field.type == TType.STRING) {
                payloadLeft = readLength();
                if (payloadLeft > 0) {
                    return;
                }
            } else {
                TProtocolUtil.skip(protocol, field.type);
            }
            protocol.readFieldEnd();
        }
        inPayload = false;
    }

    private void endRange() throws TException {
        if (inPayload) {
            protocol.readFieldEnd();
            skipRest();
            inPayload = false;
        }
        protocol.readStructEnd();
        protocol.readFieldEnd();
        skipRest();
        endReply();
    }

    private void skipRest() throws TException {
        for (TField field = nextField(); field != null; field = nextField()) {
            TProtocolUtil.skip(protocol, field.type);
            protocol.readFieldEnd();
        }
    }

    private void beginReply(String method) throws IOException, TException {
        transport.beginReply();
        TMessage message = protocol.readMessageBegin();
        boolean isReply =
                message.type == TMessageType.REPLY || message.type == TMessageType.EXCEPTION;
        if (!isReply || message.seqid != ++replies || !message.name.equals(method)) {
            throw new TTransportException("a reply to another request");
        }
        if (message.type == TMessageType.EXCEPTION) {
            TApplicationException error = TApplicationException.readFrom(protocol);
            protocol.readMessageEnd();
            transport.endReply();
            boolean unknown = error.getType() == TApplicationException.UNKNOWN_METHOD;
            ErrorKind kind = unknown ? ErrorKind.UNSUPPORTED : ErrorKind.INTERNAL;
            throw Failures.of(kind, message.name + ": " + error.getMessage(), null);
        }
        protocol.readStructBegin();
    }

    private void endReply() throws TException {
        protocol.readStructEnd();
        protocol.readMessageEnd();
        transport.endReply();
    }

    /** The next field's header; null at the end of the struct. */
    private TField nextField() throws TException {
        TField field = protocol.readFieldBegin();
        return field.type == TType.STOP ? null : field;
    }

    private IOException readError(TField field, IOException before) throws TException {
        if (field.id != ERROR_ID || field.type != TType.STRUCT) {
            TProtocolUtil.skip(protocol, field.type);
            return before;
        }
        DfsError error = new DfsError();
        error.read(protocol);
        return Failures.of(error);
    }

    private static <R> R answer(Method<?> method, R reply, IOException error) throws IOException {
        if (reply == null) {
            throw answer(method, error);
        }
        return reply;
    }

    private static IOException answer(Method<?> method, IOException error) {
        return error != null
                ? error
                : Failures.of(ErrorKind.INTERNAL, method.name() + ": an empty answer", null);
    }

    // -- The length before bytes, as writeBinary and readBinary have it

    private void writeLength(int length) throws TException {
        if (!compact) {
            protocol.writeI32(length);
            return;
        }
        byte[] varint = new byte[5];
        int size = 0;
        for (; length >>> 7 != 0; length >>>= 7) {
            varint[size++] = (byte) (length | 0x80);
        }
        varint[size++] = (byte) length;
        transport.write(varint, 0, size);
    }

    private int readLength() throws TException {
        int length;
        if (compact) {
            byte[] one = new byte[1];
            length = 0;
            int shift = 0;
            do {
                transport.readAll(one, 0, 1);
                length |= (one[0] & 0x7f) << shift;
                shift += 7;
            } while (one[0] < 0 && shift < 35);
        } else {
            length = protocol.readI32();
        }
        transport.checkReadBytesAvailable(length);
        return length;
    }
}
