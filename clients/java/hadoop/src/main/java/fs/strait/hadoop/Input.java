package fs.strait.hadoop;

import fs.strait.client.StraitChannel;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.ByteBufferPositionedReadable;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.VectoredReadUtils;

/** A file open to read. */
final class Input extends FSInputStream
        implements ByteBufferReadable, ByteBufferPositionedReadable, StreamCapabilities {
    // Ranges read at once, of all files of this process.
    private static final int PARALLEL_RANGES = 16;
    private static final int IDLE_S = 10;
    private static final Executor RANGES = ranges();

    private final Path path;
    private final StraitChannel file;
    private final FileSystem.Statistics statistics;
    private final byte[] one = new byte[1];

    Input(Path path, StraitChannel file, FileSystem.Statistics statistics) {
        this.path = path;
        this.file = file;
        this.statistics = statistics;
    }

    private static Executor ranges() {
        ThreadPoolExecutor threads =
                new ThreadPoolExecutor(
                        PARALLEL_RANGES,
                        PARALLEL_RANGES,
                        IDLE_S,
                        TimeUnit.SECONDS,
                        new LinkedBlockingQueue<>(),
                        work -> {
                            Thread thread = new Thread(work, "strait-ranges");
                            thread.setDaemon(true);
                            return thread;
                        });
        threads.allowCoreThreadTimeOut(true);
        return threads;
    }

    // -- From the position

    @Override
    public synchronized int read() throws IOException {
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public synchronized int read(byte[] target, int offset, int length) throws IOException {
        return read(ByteBuffer.wrap(target, offset, length));
    }

    @Override
    public synchronized int read(ByteBuffer target) throws IOException {
        checkOpen();
        return counted(Errors.at(path, () -> file.read(target)));
    }

    @Override
    public synchronized void seek(long position) throws IOException {
        checkOpen();
        if (position < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
        }
        if (position > file.size()) {
            throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
        }
        file.position(position);
    }

    @Override
    public synchronized long getPos() throws IOException {
        checkOpen();
        return file.position();
    }

    @Override
    public synchronized long skip(long count) throws IOException {
        long from = getPos();
        long to = Math.min(file.size(), from + Math.max(0, count));
        seek(to);
        return to - from;
    }

    @Override
    public synchronized int available() throws IOException {
        checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, Math.max(0, file.size() - file.position()));
    }

    @Override
    public boolean seekToNewSource(long targetPosition) {
        return false; // the gateway chooses
    }

    // -- Of ranges, by any number of threads

    @Override
    public int read(long position, byte[] target, int offset, int length) throws IOException {
        validatePositionedReadArgs(position, target, offset, length);
        return read(position, ByteBuffer.wrap(target, offset, length));
    }

    @Override
    public int read(long position, ByteBuffer target) throws IOException {
        checkOpen();
        if (position < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
        }
        return counted(Errors.at(path, () -> file.read(target, position)));
    }

    @Override
    public void readFully(long position, ByteBuffer target) throws IOException {
        int wanted = target.remaining();
        if (wanted > 0 && read(position, target) < wanted) {
            throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
        }
    }

    @Override
    public void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate)
            throws IOException {
        checkOpen();
        for (FileRange range :
                VectoredReadUtils.validateAndSortRanges(ranges, Optional.of(file.size()))) {
            CompletableFuture<ByteBuffer> filled = new CompletableFuture<>();
            range.setData(filled);
            RANGES.execute(() -> fill(range, allocate, filled));
        }
    }

    private void fill(
            FileRange range, IntFunction<ByteBuffer> allocate, CompletableFuture<ByteBuffer> filled) {
        try {
            ByteBuffer target = allocate.apply(range.getLength());
            readFully(range.getOffset(), target);
            target.flip();
            filled.complete(target);
        } catch (IOException | RuntimeException | OutOfMemoryError error) {
            filled.completeExceptionally(error);
        }
    }

    // --

    @Override
    public boolean hasCapability(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case StreamCapabilities.READBYTEBUFFER,
                            StreamCapabilities.PREADBYTEBUFFER,
                            StreamCapabilities.VECTOREDIO ->
                    true;
            default -> false;
        };
    }

    @Override
    public synchronized void close() throws IOException {
        file.close();
    }

    private int counted(int bytes) {
        if (bytes > 0 && statistics != null) {
            statistics.incrementBytesRead(bytes);
        }
        return bytes;
    }

    private void checkOpen() throws IOException {
        if (!file.isOpen()) {
            throw new IOException(path + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }
}
