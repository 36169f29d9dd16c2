package fs.strait.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.util.OptionalInt;

/**
 * A remote file, open either for reading or for writing at its end; stores support nothing else.
 *
 * <p>Threads may share one: operations follow each other, and {@link #read(ByteBuffer, long)} also
 * runs beside them. Direct buffers of 16 KiB and more are read and written without another copy.
 *
 * <p>After {@link ErrorKind#NO_SPACE} and {@link ErrorKind#UNAVAILABLE} a file that is written
 * stays open: see {@link StraitOutputStream}. The source's position tells how much a failed write
 * has taken.
 */
public final class StraitChannel implements SeekableByteChannel {
    // One of them is null.
    private final RemoteReader reader;
    private final RemoteWriter writer;

    StraitChannel(RemoteReader reader) {
        this.reader = reader;
        this.writer = null;
    }

    StraitChannel(RemoteWriter writer) {
        this.reader = null;
        this.writer = writer;
    }

    @Override
    public synchronized int read(ByteBuffer target) throws IOException {
        checkReadable();
        checkRoom(target);
        return reader.read(target);
    }

    /**
     * Reads from a given offset; the channel's position doesn't matter and doesn't change.
     *
     * @param target filled as far as the file extends
     * @param offset of the first byte
     * @return bytes read; -1 if the file ends there, or before
     * @throws IOException if the gateway can't read there
     */
    public int read(ByteBuffer target, long offset) throws IOException {
        checkReadable();
        checkRoom(target);
        if (offset < 0) {
            throw new IllegalArgumentException("a negative offset: " + offset);
        }
        return target.hasRemaining() ? reader.readAt(offset, target) : 0;
    }

    @Override
    public synchronized int write(ByteBuffer source) throws IOException {
        checkWritable();
        int count = source.remaining();
        writer.write(source);
        return count;
    }

    /**
     * Puts all written bytes in the memory of each replica, visible to readers that open the file
     * from now on. In object stores it promises nothing.
     *
     * @throws IOException if that fails
     */
    public synchronized void flush() throws IOException {
        checkWritable();
        writer.flush();
    }

    /**
     * Puts all written bytes on stable storage. In object stores it promises nothing.
     *
     * @throws IOException if that fails
     */
    public synchronized void sync() throws IOException {
        checkWritable();
        writer.sync();
    }

    @Override
    public synchronized long position() throws IOException {
        checkOpen();
        return reader != null ? reader.position() : writer.position();
    }

    /**
     * Moves the position for the next read.
     *
     * @throws UnsupportedOperationException of a channel open for writing, other than for its end
     */
    @Override
    public synchronized StraitChannel position(long newPosition) throws IOException {
        checkOpen();
        if (newPosition < 0) {
            throw new IllegalArgumentException("a negative position: " + newPosition);
        }
        if (reader != null) {
            reader.seek(newPosition);
        } else if (newPosition != writer.position()) {
            throw new UnsupportedOperationException("stores only append");
        }
        return this;
    }

    /** The file's length: when it was opened to read, or with everything written. */
    @Override
    public synchronized long size() throws IOException {
        checkOpen();
        return reader != null ? reader.length() : writer.position();
    }

    /**
     * Does nothing if the file isn't longer.
     *
     * @throws UnsupportedOperationException if it is longer: {@link StraitClient#truncate} cuts a
     *     closed file
     */
    @Override
    public synchronized StraitChannel truncate(long size) throws IOException {
        checkWritable();
        if (size < 0) {
            throw new IllegalArgumentException("a negative size: " + size);
        }
        if (size < writer.position()) {
            throw new UnsupportedOperationException("stores only append");
        }
        return this;
    }

    @Override
    public boolean isOpen() {
        return reader != null ? !reader.isClosed() : !writer.isClosed();
    }

    /**
     * The number of replicas that held all written bytes, at least, at the last successful {@link
     * #flush}, {@link #sync} or {@link #close}.
     *
     * @return empty if the store gives no number, nothing was written, or the channel is open for
     *     reading
     */
    public synchronized OptionalInt replicas() {
        return writer == null ? OptionalInt.empty() : writer.replicas();
    }

    /**
     * Closes the channel; then all written bytes are on stable storage (except in HDFS).
     *
     * @throws IOException if that fails. After {@link ErrorKind#NO_SPACE} and {@link
     *     ErrorKind#UNAVAILABLE} the channel is still open, and may be closed again; otherwise the
     *     gateway closes the file with the client, without the bytes that it hasn't taken
     */
    @Override
    public synchronized void close() throws IOException {
        if (reader != null) {
            reader.close();
        } else {
            writer.close();
        }
    }

    private void checkOpen() throws IOException {
        if (!isOpen()) {
            throw new ClosedChannelException();
        }
    }

    private void checkReadable() throws IOException {
        checkOpen();
        if (reader == null) {
            throw new NonReadableChannelException();
        }
    }

    private void checkWritable() throws IOException {
        checkOpen();
        if (writer == null) {
            throw new NonWritableChannelException();
        }
    }

    private static void checkRoom(ByteBuffer target) {
        if (target.isReadOnly()) {
            throw new IllegalArgumentException("a read-only buffer");
        }
    }
}
