package fs.strait.hadoop;

import fs.strait.client.StraitOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.ClosedChannelException;
import java.util.Locale;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;

/** A file open to write. */
final class Output extends OutputStream implements Syncable, StreamCapabilities {
    private final Path path;
    private final StraitOutputStream file;
    private boolean closed;

    Output(Path path, StraitOutputStream file) {
        this.path = path;
        this.file = file;
    }

    @Override
    public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] source, int offset, int length) throws IOException {
        checkOpen();
        Errors.at(
                path,
                () -> {
                    file.write(source, offset, length);
                    return null;
                });
    }

    /**
     * Does nothing, as with HDFS: data streams flush after each few bytes. {@link #hflush} makes
     * bytes visible.
     */
    @Override
    public synchronized void flush() throws IOException {
        checkOpen();
    }

    @Override
    public synchronized void hflush() throws IOException {
        checkOpen();
        Errors.at(
                path,
                () -> {
                    file.flush();
                    return null;
                });
    }

    @Override
    public synchronized void hsync() throws IOException {
        checkOpen();
        Errors.at(
                path,
                () -> {
                    file.sync();
                    return null;
                });
    }

    @Override
    public boolean hasCapability(String capability) {
        String name = capability.toLowerCase(Locale.ROOT);
        return name.equals(StreamCapabilities.HFLUSH) || name.equals(StreamCapabilities.HSYNC);
    }

    @Override
    public synchronized void close() throws IOException {
        if (closed) {
            return;
        }
        // A second close after an error does nothing: programs close in `finally` once more.
        closed = true;
        try {
            Errors.at(
                    path,
                    () -> {
                        file.close();
                        return null;
                    });
        } finally {
            file.abandon(); // after NO_SPACE and UNAVAILABLE it is still open
        }
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new ClosedChannelException();
        }
    }
}
