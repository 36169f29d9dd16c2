import com.opendatagroup.dfsservice.*;
import java.nio.ByteBuffer;
import org.apache.thrift.TException;

/** File calls as the report's generation made them. */
class Api {
    final DfsService.Client client;
    final ClientHandle session;

    Api(DfsService.Client client, ClientHandle session) {
        this.client = client;
        this.session = session;
    }

    DfsHandle open(String path, short mode) throws TException {
        return client.open(path, mode);
    }

    boolean close(DfsHandle file) throws TException {
        return client.close(file);
    }

    String read(DfsHandle file, long offset, long len) throws TException {
        return client.read(file, offset, len);
    }

    boolean write(DfsHandle file, byte[] data, long offset, long len) throws TException {
        return client.write(file, ByteBuffer.wrap(data), offset, len);
    }

    boolean closeDfs() throws TException {
        return client.closeDfs(session);
    }
}
