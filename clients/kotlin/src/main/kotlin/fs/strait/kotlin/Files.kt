package fs.strait.kotlin

import fs.strait.client.StraitChannel
import fs.strait.client.StraitOutputStream
import java.io.InterruptedIOException
import java.nio.ByteBuffer
import kotlin.coroutines.coroutineContext
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.runInterruptible
import kotlinx.coroutines.withContext

/** Runs work that waits, on a thread that may; cancelling interrupts it. */
internal suspend fun <T> blocking(dispatcher: CoroutineDispatcher, work: () -> T): T =
    try {
        runInterruptible(dispatcher, work)
    } catch (interrupted: InterruptedIOException) {
        coroutineContext.ensureActive()
        throw interrupted
    }

// No JVM has larger arrays.
private const val MAX_ARRAY_BYTES = Int.MAX_VALUE - 8

// Memory for a read before its bytes arrive; beyond it, as much again as has arrived.
private const val FIRST_BYTES = 1 shl 20

/**
 * An open file to read: onwards by one coroutine at a time, and anywhere by several. All read through one channel, so
 * no read gets the bytes of a file that has replaced this one.
 */
public class StraitReader internal constructor(
    private val channel: StraitChannel,
    private val dispatcher: CoroutineDispatcher,
) {
    /** Reads on, up to [length] bytes; fewer at the end of the file, none behind it. */
    public suspend fun read(length: Int): ByteArray = blocking(dispatcher) { next(length) }

    /** Reads on to the end. */
    public suspend fun readAll(): ByteArray = blocking(dispatcher) { next(MAX_ARRAY_BYTES) }

    private fun next(length: Int): ByteArray {
        var buffer = ByteBuffer.allocate(minOf(length, FIRST_BYTES))
        while (channel.read(buffer) > 0) {
            if (!buffer.hasRemaining() && buffer.capacity() < length) {
                val larger = minOf(length.toLong(), 2L * buffer.capacity())
                buffer = ByteBuffer.allocate(larger.toInt()).put(buffer.flip())
            }
        }
        return if (buffer.hasRemaining()) buffer.array().copyOf(buffer.position()) else buffer.array()
    }

    /** Reads from [offset], up to [length] bytes; the position stays. */
    public suspend fun readAt(offset: Long, length: Int): ByteArray = blocking(dispatcher) {
        val buffer = ByteBuffer.allocate(length)
        while (buffer.hasRemaining() && channel.read(buffer, offset + buffer.position()) > 0) Unit
        buffer.array().copyOf(buffer.position())
    }

    /** The rest of the file in pieces; closes nothing. */
    public fun pieces(size: Int = 1 shl 20): Flow<ByteArray> = flow {
        while (true) {
            val piece = read(size)
            if (piece.isEmpty()) break
            emit(piece)
        }
    }

    /** Closes the file, also in a cancelled coroutine. */
    public suspend fun close(): Unit = withContext(NonCancellable) {
        blocking(dispatcher) { channel.close() }
    }
}

/** Calls [work], and closes the file. */
public suspend inline fun <T> StraitReader.use(work: (StraitReader) -> T): T =
    try {
        work(this)
    } finally {
        close()
    }

/** An open file to write at its end, for one coroutine at a time. */
public class StraitWriter internal constructor(
    private val stream: StraitOutputStream,
    private val dispatcher: CoroutineDispatcher,
) {
    /** The file's length, with all bytes written here. */
    public val position: Long get() = stream.position()

    /** Writes bytes. Several requests are in flight: an error may surface at a later call, at [close] at the latest. */
    public suspend fun write(bytes: ByteArray): Unit = blocking(dispatcher) { stream.write(bytes) }

    /** Writes text in UTF-8. */
    public suspend fun write(text: String): Unit = write(text.encodeToByteArray())

    /** Makes written bytes visible to readers who open the file afterwards. In object stores it promises nothing. */
    public suspend fun flush(): Unit = blocking(dispatcher) { stream.flush() }

    /** Puts the written bytes on stable storage. In object stores it promises nothing. */
    public suspend fun sync(): Unit = blocking(dispatcher) { stream.sync() }

    /**
     * Puts all bytes on stable storage (except in HDFS), and ends the file. After `NO_SPACE` and `UNAVAILABLE` it may be
     * repeated.
     */
    public suspend fun close(): Unit = blocking(dispatcher) { stream.close() }

    /** Ends the file. Flushed bytes stay; other bytes may be lost. Works in a cancelled coroutine, too. */
    public suspend fun abandon(): Unit = withContext(NonCancellable) { blocking(dispatcher) { stream.abandon() } }
}

/** Calls [work], and closes the file; if [work] fails or is cancelled, abandons the file. */
public suspend inline fun <T> StraitWriter.use(work: (StraitWriter) -> T): T {
    val result = try {
        work(this)
    } catch (failure: Throwable) {
        abandon()
        throw failure
    }
    close()
    return result
}
