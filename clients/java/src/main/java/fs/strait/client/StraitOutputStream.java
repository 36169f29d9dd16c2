package fs.strait.client;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.OptionalInt;

/**
 * A remote file, open for writing at its end.
 *
 * <p>A write returns when its bytes are on their way, so there is no need for a {@link
 * java.io.BufferedOutputStream}. A later write reports an error, or {@link #flush}, {@link #sync}
 * or {@link #close} at the latest. For one thread at a time.
 *
 * <p>After {@link ErrorKind#NO_SPACE} and {@link ErrorKind#UNAVAILABLE} the file stays open: it
 * keeps the bytes that the gateway hasn't taken, and sends them again with the next write, flush,
 * sync or close. Flush, sync and close may be repeated. A write of up to 1 MiB that fails has
 * taken nothing, and {@link #position} tells how much a longer one has taken.
 */
public final class StraitOutputStream extends OutputStream {
    private final RemoteWriter writer;
    private final byte[] one = new byte[1];

    StraitOutputStream(RemoteWriter writer) {
        this.writer = writer;
    }

    @Override
    public void write(int value) throws IOException {
        one[0] = (byte) value;
        write(one, 0, 1);
    }

    @Override
    public void write(byte[] source, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, source.length);
        writer.write(ByteBuffer.wrap(source, offset, length));
    }

    /**
     * The position of the next byte.
     *
     * @return the file's length including all written bytes
     */
    public long position() {
        return writer.position();
    }

    /**
     * Puts all written bytes in the memory of each replica, visible to readers that open the file
     * from now on. In object stores it promises nothing.
     */
    @Override
    public void flush() throws IOException {
        writer.flush();
    }

    /**
     * Puts all written bytes on stable storage. In object stores it promises nothing.
     *
     * @throws IOException if that fails
     */
    public void sync() throws IOException {
        writer.sync();
    }

    /**
     * The number of replicas that held all written bytes, at least, at the last successful {@link
     * #flush}, {@link #sync} or {@link #close}.
     *
     * @return empty if the store gives no number, or if nothing was written
     */
    public OptionalInt replicas() {
        return writer.replicas();
    }

    /**
     * Puts all written bytes on stable storage (except in HDFS), and closes the file.
     *
     * @throws IOException if that fails. After {@link ErrorKind#NO_SPACE} and {@link
     *     ErrorKind#UNAVAILABLE} it may be closed again, or given up by {@link #abandon}; otherwise
     *     the gateway closes it with the client, without the bytes that it hasn't taken. After
     *     other errors it is closed.
     */
    @Override
    public void close() throws IOException {
        writer.close();
    }

    /**
     * Ends the file, and doesn't wait for its store. Flushed bytes stay; other bytes may be lost.
     * Does nothing after a close, unless that left the file open.
     */
    public void abandon() {
        writer.abandon();
    }
}
