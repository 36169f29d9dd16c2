// BareCallsKt read|write HOST:PORT PATH MIB: as bare_calls.rb, by Thrift's generated code and runtime for Java.
import com.opendatagroup.dfsservice.AppendDataRequest
import com.opendatagroup.dfsservice.CloseFileRequest
import com.opendatagroup.dfsservice.CreateFileRequest
import com.opendatagroup.dfsservice.DfsV2
import com.opendatagroup.dfsservice.OpenFileRequest
import com.opendatagroup.dfsservice.OpenSessionRequest
import com.opendatagroup.dfsservice.ProtocolVersion
import com.opendatagroup.dfsservice.ReadRangeRequest
import java.nio.ByteBuffer
import java.util.UUID
import org.apache.thrift.protocol.TBinaryProtocol
import org.apache.thrift.transport.TSocket
import org.apache.thrift.transport.layered.TFramedTransport

private const val PIECE_BYTES = 1 shl 20

fun main(given: Array<String>) {
    val (host, port) = given[1].split(":")
    TFramedTransport(TSocket(host, port.toInt())).use { transport ->
        transport.open()
        val client = DfsV2.Client(TBinaryProtocol(transport))
        client.openSession(OpenSessionRequest().setVersion(ProtocolVersion.findByValue(1)))
        println("ready")
        readln()
        val work = if (given[0] == "read") ::read else ::write
        work(client, given[2], given[3].toLong())
        println("done")
    }
}

private fun read(client: DfsV2.Client, path: String, mib: Long) {
    val handle = client.openFile(OpenFileRequest().setPath(path)).handle
    for (n in 0 until mib) {
        val range = ReadRangeRequest().setHandle(handle).setOffset(n * PIECE_BYTES).setLength(PIECE_BYTES)
        check(client.readRange(range).getData().size == PIECE_BYTES) { "a short reply" }
    }
    client.closeFile(CloseFileRequest().setHandle(handle))
}

private fun write(client: DfsV2.Client, path: String, mib: Long) {
    val handle = client.createFile(CreateFileRequest().setPath(path).setRequest_id(newId())).handle
    val piece = ByteArray(PIECE_BYTES)
    for (n in 0 until mib) {
        val append = AppendDataRequest().setHandle(handle).setExpected_offset(n * PIECE_BYTES)
        client.appendData(append.setData(piece).setRequest_id(newId()))
    }
    client.closeFile(CloseFileRequest().setHandle(handle).setRequest_id(newId()))
}

private fun newId(): ByteArray {
    val id = UUID.randomUUID()
    return ByteBuffer.allocate(16).putLong(id.mostSignificantBits).putLong(id.leastSignificantBits).array()
}
