package fs.strait.kotlin

import fs.strait.client.Attributes
import fs.strait.client.ConnectOptions
import fs.strait.client.StraitFailure
import fs.strait.client.StraitUri
import java.io.DataInputStream
import java.io.DataOutputStream
import java.io.EOFException
import java.io.IOException
import java.nio.file.Path
import java.time.Duration
import java.time.Instant
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking

private val clients = mutableMapOf<String, Strait>()
private lateinit var client: Strait
private val readers = mutableMapOf<String, StraitReader>()
private val writers = mutableMapOf<String, StraitWriter>()
private lateinit var waiting: Deferred<*>

/** The requests of tests/languages/driver.py. */
fun main(): Unit = runBlocking {
    val source = DataInputStream(System.`in`.buffered())
    val target = DataOutputStream(System.out.buffered())
    while (true) {
        val parts = try {
            List(source.readInt()) { source.readNBytes(source.readInt()) }
        } catch (end: EOFException) {
            break
        }
        val answer: List<Any> = try {
            listOf("ok") + answer(parts[0].decodeToString(), Arguments(parts.drop(1)))
        } catch (failure: IOException) {
            if (failure !is StraitFailure) throw failure
            listOf("error", failure.kind(), failure.path() ?: "", failure.message ?: "", failure.javaClass.name)
        }
        target.writeInt(answer.size)
        for (part in answer.map { it as? ByteArray ?: it.toString().encodeToByteArray() }) {
            target.writeInt(part.size)
            target.write(part)
        }
        target.flush()
    }
    clients.values.forEach { it.close() }
}

private class Arguments(private val parts: List<ByteArray>) {
    fun bytes(index: Int) = parts[index]
    fun text(index: Int) = parts[index].decodeToString()
    fun textsFrom(index: Int) = parts.drop(index).map { it.decodeToString() }
    fun long(index: Int) = text(index).toLongOrNull()
    fun int(index: Int) = text(index).toIntOrNull()
    fun flag(index: Int) = text(index) == "1"
}

private suspend fun answer(operation: String, given: Arguments): List<Any> {
    when (operation) {
        "connect" -> {
            val patience = ConnectOptions.defaults().timeout(Duration.ofMillis(given.long(2)!!))
            client = Strait.connect(given.text(1), patience)
            clients[given.text(0)] = client
            return listOf(client.store.capabilities.joinToString(","))
        }
        "use" -> client = clients.getValue(given.text(0))
        "disconnect" -> clients.remove(given.text(0))!!.close()
        "open" -> open(given)
        "read" -> {
            val reader = readers.getValue(given.text(0))
            return listOf(given.int(1)!!.let { if (it < 0) reader.readAll() else reader.read(it) })
        }
        "pread" -> return listOf(readers.getValue(given.text(0)).readAt(given.long(1)!!, given.int(2)!!))
        "write" -> writers.getValue(given.text(0)).write(given.bytes(1))
        "position" -> return listOf(writers.getValue(given.text(0)).position)
        "flush" -> writers.getValue(given.text(0)).flush()
        "sync" -> writers.getValue(given.text(0)).sync()
        "close" -> {
            readers.remove(given.text(0))?.close()
            writers.remove(given.text(0))?.close()
        }
        "stat" -> {
            val info = client.stat(given.text(0))
            return listOf(
                if (info.isDirectory) "directory" else "file", info.length, info.permission, info.replication,
                info.modified.toEpochMilli(), info.accessed.toEpochMilli(),
            )
        }
        "begin_stat" -> {
            val (patient, path) = client to given.text(0)
            waiting = CoroutineScope(Dispatchers.Default).async { patient.stat(path) }
        }
        "cancel" -> {
            waiting.cancelAndJoin()
            return listOf(if (waiting.isCancelled) "cancelled" else "completed")
        }
        "exists" -> return listOf(if (client.exists(given.text(0))) 1 else 0)
        "list" -> return client.list(given.text(0), given.int(1) ?: 0).map { it.name() }.toList()
        "mkdirs" -> client.mkdirs(given.text(0), given.int(1))
        "rename" -> client.rename(given.text(0), given.text(1), given.flag(2))
        "remove" -> client.remove(given.text(0), given.flag(1))
        "attributes" -> {
            var set = Attributes.none()
            given.int(1)?.let { set = set.permission(it) }
            given.int(2)?.let { set = set.replication(it) }
            given.long(3)?.let { set = set.modified(Instant.ofEpochMilli(it)) }
            given.long(4)?.let { set = set.accessed(Instant.ofEpochMilli(it)) }
            client.setAttributes(given.text(0), set)
        }
        "truncate" -> client.truncate(given.text(0), given.long(1)!!)
        "concat" -> client.concat(given.text(0), given.textsFrom(1))
        "put" -> client.put(Path.of(given.text(0)), given.text(1), given.flag(2))
        "locate" -> {
            val blocks = client.locate(given.text(0), given.long(1)!!, given.long(2) ?: Long.MAX_VALUE)
            return blocks.flatMap { listOf(it.offset, it.length, it.hosts.size) }
        }
        "checksum" -> return client.checksum(given.text(0)).let { listOf(it.algorithm, it.value) }
        "status" -> return client.status().let { listOf(it.capacity, it.used, it.remaining) }
        "uri" -> return StraitUri.parse(given.text(0)).let { listOf(it.host, it.port, it.store ?: "", it.path) }
        else -> error("no operation $operation")
    }
    return listOf()
}

private suspend fun open(given: Arguments) {
    val (name, path) = listOf(given.text(0), given.text(1))
    when (val mode = given.text(2)) {
        "read" -> readers[name] = client.open(path)
        "append" -> writers[name] = client.append(path)
        else -> writers[name] = client.create(path, mode == "overwrite", given.int(3))
    }
}
