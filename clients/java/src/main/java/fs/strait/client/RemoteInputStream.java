package fs.strait.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;

/** See {@link StraitClient#newInputStream}. */
final class RemoteInputStream extends InputStream {
    // For transferTo: few system calls, and still in the processor's cache.
    private static final int TRANSFER_BYTES = 128 << 10;

    // No JVM has larger arrays.
    private static final int MAX_ARRAY_BYTES = Integer.MAX_VALUE - 8;

    // Memory that is allocated by a file's claimed length; beyond it, as much again as was
    // received.
    private static final int BELIEVED_BYTES = 64 << 20;

    private final RemoteReader reader;
    private final byte[] one = new byte[1];

    RemoteInputStream(RemoteReader reader) {
        this.reader = reader;
    }

    @Override
    public int read() throws IOException {
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, target.length);
        checkOpen();
        return reader.read(ByteBuffer.wrap(target, offset, length));
    }

    @Override
    public byte[] readNBytes(int most) throws IOException {
        if (most < 0) {
            throw new IllegalArgumentException("a negative number of bytes");
        }
        checkOpen();
        // The bytes left when the file was opened, as far as that claim is believed.
        long left = Math.max(0, reader.length() - reader.position());
        byte[] data = new byte[(int) Math.min(Math.min(most, left), BELIEVED_BYTES)];
        int filled = readNBytes(data, 0, data.length);
        while (filled == data.length && filled < most) {
            int next = read();
            if (next < 0) {
                return data;
            }
            // The file continues, or has grown since.
            data = Arrays.copyOf(data, (int) Math.min(most, 2L * filled + TRANSFER_BYTES));
            data[filled++] = (byte) next;
            filled += readNBytes(data, filled, data.length - filled);
        }
        return filled == data.length ? data : Arrays.copyOf(data, filled);
    }

    @Override
    public byte[] readAllBytes() throws IOException {
        return readNBytes(MAX_ARRAY_BYTES);
    }

    @Override
    public long transferTo(OutputStream target) throws IOException {
        Objects.requireNonNull(target, "target");
        byte[] piece = new byte[TRANSFER_BYTES];
        long copied = 0;
        for (int count = read(piece); count > 0; count = read(piece)) {
            target.write(piece, 0, count);
            copied += count;
        }
        return copied;
    }

    @Override
    public long skip(long count) throws IOException {
        checkOpen();
        long left = Math.max(0, reader.length() - reader.position());
        long skipped = Math.max(0, Math.min(count, left));
        reader.seek(reader.position() + skipped);
        return skipped;
    }

    @Override
    public int available() throws IOException {
        checkOpen();
        return reader.readable();
    }

    @Override
    public void close() {
        reader.close();
    }

    private void checkOpen() throws IOException {
        if (reader.isClosed()) {
            throw new IOException("the stream is closed");
        }
    }
}
