package fs.strait.kotlin

import fs.strait.client.Attributes
import fs.strait.client.BlockLocation
import fs.strait.client.Checksum
import fs.strait.client.ConnectOptions
import fs.strait.client.CreateOption
import fs.strait.client.FileInfo
import fs.strait.client.StoreInfo
import fs.strait.client.StoreStatus
import fs.strait.client.StraitClient
import java.io.UncheckedIOException
import java.nio.file.OpenOption
import java.nio.file.Path
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.nio.file.StandardOpenOption.APPEND
import java.nio.file.StandardOpenOption.CREATE_NEW
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOn

/**
 * The files of one store behind a gateway, for any number of coroutines at once.
 *
 * Paths are absolute within the store. Failures are those of the client for Java: exceptions of
 * `java.nio.file`, each also a [fs.strait.client.StraitFailure] with its kind and path. Cancelling a
 * coroutine ends its wait for the gateway.
 *
 * @property java the client for Java that does the work
 */
public class Strait private constructor(
    public val java: StraitClient,
    private val dispatcher: CoroutineDispatcher,
) : AutoCloseable {
    public companion object {
        /**
         * Opens a session.
         *
         * @param address `strait://host:port/` or `host:port`; `/@NAME` after it names a store
         * @param dispatcher runs the waits for the gateway: one of threads that may block
         */
        public suspend fun connect(
            address: String,
            options: ConnectOptions = ConnectOptions.defaults(),
            dispatcher: CoroutineDispatcher = Dispatchers.IO,
        ): Strait = Strait(blocking(dispatcher) { StraitClient.connect(address, options) }, dispatcher)
    }

    /** The user that the gateway acts for. */
    public val user: String get() = java.user()

    /** The session's store: its names and capabilities. */
    public val store: StoreInfo get() = java.store()

    /** Ends the session; close its files first. Waits for the gateway, 2 s at most. */
    override fun close(): Unit = java.close()

    private suspend fun <T> call(work: () -> T): T = blocking(dispatcher, work)

    // -- Looking

    /** Attributes of a file or directory. */
    public suspend fun stat(path: String): FileInfo = call { java.stat(path) }

    /** Whether there is a file or directory. */
    public suspend fun exists(path: String): Boolean = call { java.exists(path) }

    /** A directory's entries in the store's order, fetched by pages of [pageEntries] (0: the gateway's own). */
    public fun list(path: String, pageEntries: Int = 0): Flow<FileInfo> =
        flow {
            java.list(path, pageEntries).use { for (entry in it) emit(entry) }
        }.flowOn(dispatcher).catch { throw (it as? UncheckedIOException)?.cause ?: it }

    /** The blocks that hold a range of a file; all of them without one. */
    public suspend fun locate(path: String, offset: Long = 0, length: Long = Long.MAX_VALUE): List<BlockLocation> =
        call { java.locate(path, offset, length) }

    /** The store's own checksum of a file. */
    public suspend fun checksum(path: String): Checksum = call { java.checksum(path) }

    /** Capacity and use of the store, in bytes. */
    public suspend fun status(): StoreStatus = call { java.status() }

    // -- Files

    /** Opens a file to read. */
    public suspend fun open(path: String): StraitReader =
        StraitReader(call { java.newByteChannel(path) }, dispatcher)

    /**
     * Makes a file, and its missing parents.
     *
     * @param overwrite replaces a file that exists; without it, one is an error
     * @param permission bits, 07777 at most
     */
    public suspend fun create(
        path: String,
        overwrite: Boolean = false,
        permission: Int? = null,
        replication: Int? = null,
        blockSize: Long? = null,
    ): StraitWriter {
        val options: List<OpenOption> = listOfNotNull(
            if (overwrite) null else CREATE_NEW,
            permission?.let(CreateOption::permission),
            replication?.let(CreateOption::replication),
            blockSize?.let(CreateOption::blockSize),
        )
        return StraitWriter(call { java.newOutputStream(path, *options.toTypedArray()) }, dispatcher)
    }

    /** Opens an existing file to go on at its end. */
    public suspend fun append(path: String): StraitWriter =
        StraitWriter(call { java.newOutputStream(path, APPEND) }, dispatcher)

    /** A whole file. */
    public suspend fun readBytes(path: String): ByteArray = open(path).use { it.readAll() }

    /** A whole file of text in UTF-8. */
    public suspend fun readText(path: String): String = readBytes(path).decodeToString()

    /** Writes a whole file. */
    public suspend fun writeBytes(path: String, bytes: ByteArray, overwrite: Boolean = false): Unit =
        create(path, overwrite).use { it.write(bytes) }

    /** Writes a whole file of text in UTF-8. */
    public suspend fun writeText(path: String, text: String, overwrite: Boolean = false): Unit =
        writeBytes(path, text.encodeToByteArray(), overwrite)

    /** Copies a remote file to a local one, which appears only when it is complete. Returns its bytes. */
    public suspend fun get(source: String, target: Path, overwrite: Boolean = false): Long =
        call { java.get(source, target, *replacing(overwrite)) }

    /** Copies a local file to a remote one, which appears only when it is complete. Returns its bytes. */
    public suspend fun put(source: Path, target: String, overwrite: Boolean = false): Long =
        call { java.put(source, target, *replacing(overwrite)) }

    private fun replacing(overwrite: Boolean) = if (overwrite) arrayOf(REPLACE_EXISTING) else arrayOf()

    // -- Changes

    /** Makes a directory and its missing parents; an existing one is success. */
    public suspend fun mkdirs(path: String, permission: Int? = null): Unit =
        call { if (permission == null) java.mkdirs(path) else java.mkdirs(path, permission) }

    /** Renames a file or directory; with [replace], a file at the target is replaced. */
    public suspend fun rename(source: String, target: String, replace: Boolean = false): Unit =
        call { if (replace) java.replace(source, target) else java.rename(source, target) }

    /** Removes a file or an empty directory; with [recursive], all that is in it too. */
    public suspend fun remove(path: String, recursive: Boolean = false): Unit =
        call { if (recursive) java.removeAll(path) else java.remove(path) }

    /** Sets attributes of a file or directory. */
    public suspend fun setAttributes(path: String, attributes: Attributes): Unit =
        call { java.setAttributes(path, attributes) }

    /** Cuts a closed file to this many bytes. */
    public suspend fun truncate(path: String, length: Long): Unit = call { java.truncate(path, length) }

    /** Moves the sources' bytes, in order, to the end of a closed file, in one step. */
    public suspend fun concat(path: String, sources: List<String>): Unit = call { java.concat(path, sources) }
}
