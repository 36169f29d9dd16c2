package fs.strait.client;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * A remote file, open to write at its end.
 *
 * <p>A write returns when its bytes are on their way, so there is no need for a {@link
 * java.io.BufferedOutputStream}. An error surfaces at a later write, and at {@link #flush}, {@link
 * #sync} or {@link #close} at the latest. For one thread at a time.
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
     * Where the next byte goes.
     *
     * @return the file's length with everything written
     */
    public long position() {
        return writer.position();
    }

    /**
     * Makes what was written visible to whoever opens the file from now on, and puts it in the
     * memory of each replica.
     */
    @Override
    public void flush() throws IOException {
        writer.flush();
    }

    /**
     * Puts what was written on stable storage.
     *
     * @throws IOException if it isn't there
     */
    public void sync() throws IOException {
        writer.sync();
    }

    /** Puts what was written on stable storage and ends the writing. */
    @Override
    public void close() throws IOException {
        writer.close();
    }
}
