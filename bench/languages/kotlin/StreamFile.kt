// StreamFileKt read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for Kotlin.
import fs.strait.kotlin.Strait
import fs.strait.kotlin.use
import kotlinx.coroutines.runBlocking

private const val PIECE_BYTES = 1 shl 20

fun main(given: Array<String>) = runBlocking {
    val (action, gateway, path) = given
    val mib = given[3].toLong()
    Strait.connect(gateway).use { client ->
        println("ready")
        readln()
        if (action == "read") read(client, path, mib) else write(client, path, mib)
        println("done")
    }
}

private suspend fun read(client: Strait, path: String, mib: Long) {
    var bytes = 0L
    client.open(path).use { file -> file.pieces(PIECE_BYTES).collect { bytes += it.size } }
    check(bytes == mib shl 20) { "another length: $bytes" }
}

private suspend fun write(client: Strait, path: String, mib: Long) {
    val piece = ByteArray(PIECE_BYTES)
    client.create(path).use { file -> for (n in 0 until mib) file.write(piece) }
}
