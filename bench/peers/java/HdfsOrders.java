import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/**
 * {@code HdfsOrders URI [NAME=VALUE…]}: HDFS's own client with these properties, which does what each line of its input asks and
 * answers with a line: the figure of it. After that of files and flushes comes the number done:
 * {@code BENCH_HDFS_LIMIT_S} limits their time. One process for all, since a JVM needs a while to get fast.
 */
final class HdfsOrders {
    private static final int PIECE_BYTES = 1 << 20;
    private static final int PREAD_BYTES = 4096;
    private static final int STREAM_BUFFER_BYTES = 4096;
    private static final int APPEND_BYTES = 100;
    private static final byte[] SMALL = {'1', '2', '3', '4', '5'};

    private static final long LIMIT_NANOS =
            Long.parseLong(System.getenv().getOrDefault("BENCH_HDFS_LIMIT_S", "3600")) * 1_000_000_000L;

    private final FileSystem files;

    private HdfsOrders(FileSystem files) {
        this.files = files;
    }

    public static void main(String[] given) throws Exception {
        Configuration configuration = new Configuration();
        for (String property : Arrays.asList(given).subList(1, given.length)) {
            configuration.set(property.split("=")[0], property.split("=")[1]);
        }
        try (FileSystem files = FileSystem.get(URI.create(given[0]), configuration)) {
            HdfsOrders orders = new HdfsOrders(files);
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                System.out.println(orders.follow(line.split(" ")));
            }
        }
    }

    private Object follow(String[] order) throws Exception {
        String path = order[1];
        switch (order[0]) {
            case "write":
                return write(path, number(order[4]), number(order[2]), (short) number(order[3]), number(order[4]));
            case "write-many":
                return write(path, number(order[2]), number(order[3]), (short) number(order[4]), number(order[5]));
            case "read-at-random":
                return readAtRandom(path, number(order[2]), number(order[3]), number(order[4]));
            case "write-and-tell":
                return writeAndTell(path, number(order[2]), (short) number(order[3]));
            case "read":
                return read(path, number(order[2]));
            case "preads":
                return preads(path, number(order[2]));
            case "small-files":
                return smallFiles(path, number(order[2]));
            case "files":
                return filesOf4Kb(path, number(order[2]), number(order[3]));
            case "flushes":
                return flushes(path, number(order[2]), number(order[3]) == 1);
            default:
                return calls(order[0], path, number(order[2]), number(order[3]));
        }
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    /** MB/s of all threads together, each of which writes the next file as soon as it has closed one. */
    private double write(String path, int count, int mib, short replication, int threads) throws Exception {
        for (int file = 0; file < count; file++) {
            files.delete(new Path(path + "-" + file), false);
        }
        byte[] piece = new byte[PIECE_BYTES];
        for (int at = 0; at < piece.length; at++) {
            piece[at] = (byte) (at * 37 >> 3);
        }
        long begin = System.nanoTime();
        AtomicInteger next = new AtomicInteger();
        long bytes = inThreads(threads, thread -> {
            long sum = 0;
            for (int file = next.getAndIncrement(); file < count; file = next.getAndIncrement()) {
                try (FSDataOutputStream out = create(path + "-" + file, replication)) {
                    for (int pieces = 0; pieces < mib; pieces++) {
                        out.write(piece);
                    }
                }
                sum += (long) mib * PIECE_BYTES;
            }
            return sum;
        });
        return bytes / 1e6 / secondsSince(begin);
    }

    /**
     * Seconds that the longest write took. Half-way a line tells the address of a datanode that
     * the file is being written through: neither the first nor the last.
     */
    private double writeAndTell(String path, int mib, short replication) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        long longest = 0;
        try (FSDataOutputStream out = create(path, replication)) {
            for (int count = 0; count < mib; count++) {
                if (count == mib / 2) {
                    DFSClient client = ((DistributedFileSystem) files).getClient();
                    LocatedBlock open = client.getLocatedBlocks(path, 0).getLastLocatedBlock();
                    System.out.println(open.getLocations()[1].getIpAddr());
                }
                long begin = System.nanoTime();
                out.write(piece);
                longest = Math.max(longest, System.nanoTime() - begin);
            }
        }
        return longest / 1e9;
    }

    private FSDataOutputStream create(String path, short replication) throws IOException {
        return files.create(
                new Path(path), false, STREAM_BUFFER_BYTES, replication, files.getDefaultBlockSize(new Path(path)));
    }

    /** MB/s of all threads together. */
    private double read(String path, int threads) throws Exception {
        long begin = System.nanoTime();
        long bytes = inThreads(threads, thread -> readWhole(path + "-" + thread));
        return bytes / 1e6 / secondsSince(begin);
    }

    /** MB/s of all threads together, each of which reads the next file as soon as it has read one. */
    private double readAtRandom(String path, int count, int reads, int threads) throws Exception {
        long begin = System.nanoTime();
        AtomicInteger next = new AtomicInteger();
        long bytes = inThreads(threads, thread -> {
            long sum = 0;
            for (int read = next.getAndIncrement(); read < reads; read = next.getAndIncrement()) {
                // The same choice as in our own client.
                long random = (read + 1) * 6364136223846793005L >>> 32;
                sum += readWhole(path + "-" + random % count);
            }
            return sum;
        });
        return bytes / 1e6 / secondsSince(begin);
    }

    private long readWhole(String path) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        long sum = 0;
        try (FSDataInputStream in = files.open(new Path(path))) {
            for (int count = in.read(piece); count > 0; count = in.read(piece)) {
                sum += count;
            }
        }
        return sum;
    }

    /** Microseconds that half of them take less than. */
    private double preads(String path, int count) throws IOException {
        Path file = new Path(path + "-0");
        long pages = files.getFileStatus(file).getLen() / PREAD_BYTES;
        SplittableRandom random = new SplittableRandom(1);
        byte[] page = new byte[PREAD_BYTES];
        long[] times = new long[count];
        try (FSDataInputStream in = files.open(file)) {
            for (int at = 0; at < count; at++) {
                long begin = System.nanoTime();
                in.readFully(random.nextLong(pages) * PREAD_BYTES, page);
                times[at] = System.nanoTime() - begin;
            }
        }
        return median(times) / 1e3;
    }

    /** Milliseconds that half of them take less than. */
    private String smallFiles(String directory, int count) throws IOException {
        long[] times = new long[count];
        int done = 0;
        for (long start = System.nanoTime(); done < count && isInTime(start); done++) {
            long begin = System.nanoTime();
            try (FSDataOutputStream out = create(directory + "/" + done, (short) 1)) {
                out.write(SMALL);
            }
            times[done] = System.nanoTime() - begin;
        }
        return median(Arrays.copyOf(times, done)) / 1e6 + " " + done;
    }

    /** Files a second of all threads together. */
    private String filesOf4Kb(String directory, int count, int threads) throws Exception {
        byte[] content = new byte[PREAD_BYTES];
        long begin = System.nanoTime();
        long done = inThreads(threads, thread -> {
            int own = 0;
            for (int at = thread; at < count && isInTime(begin); at += threads) {
                try (FSDataOutputStream out = create(directory + "/" + at, (short) 1)) {
                    out.write(content);
                }
                own++;
            }
            return own;
        });
        return done / secondsSince(begin) + " " + done;
    }

    /** Microseconds that half of the appends, each with hflush or hsync, take less than. */
    private String flushes(String path, int count, boolean sync) throws IOException {
        byte[] piece = new byte[APPEND_BYTES];
        long[] times = new long[count];
        int done = 0;
        try (FSDataOutputStream out = create(path, (short) 3)) {
            for (long start = System.nanoTime(); done < count && isInTime(start); done++) {
                long begin = System.nanoTime();
                out.write(piece);
                if (sync) {
                    out.hsync();
                } else {
                    out.hflush();
                }
                times[done] = System.nanoTime() - begin;
            }
        }
        return median(Arrays.copyOf(times, done)) / 1e3 + " " + done;
    }

    /** Calls a second of all threads together, each in a directory of its own. */
    private double calls(String operation, String directory, int threads, int milliseconds) throws Exception {
        long begin = System.nanoTime();
        long end = begin + milliseconds * 1_000_000L;
        long done = inThreads(threads, thread -> {
            String root = directory + "/" + thread;
            long count = 0;
            while ((count == 0 || System.nanoTime() < end) && call(operation, root, count)) {
                count++;
            }
            return count;
        });
        return done / secondsSince(begin);
    }

    /** False where what was made before is used up. */
    private boolean call(String operation, String root, long at) throws IOException {
        switch (operation) {
            case "mkdirs":
                return files.mkdirs(new Path(root + "/directory-" + at));
            case "stat":
                return files.getFileStatus(new Path(root + "/directory-0")) != null;
            case "create":
                create(root + "/file-" + at, (short) 1).close();
                return true;
            case "rename":
                return files.rename(new Path(root + "/file-" + at), new Path(root + "/moved-" + at));
            case "delete":
                return files.delete(new Path(root + "/moved-" + at), false);
            default:
                throw new IllegalArgumentException(operation);
        }
    }

    private interface Work {
        long run(int thread) throws Exception;
    }

    /** The sum of the threads' results. */
    private static long inThreads(int threads, Work work) throws InterruptedException, ExecutionException {
        List<Callable<Long>> all = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int number = thread;
            all.add(() -> work.run(number));
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            long sum = 0;
            for (Future<Long> part : pool.invokeAll(all)) {
                sum += part.get();
            }
            return sum;
        } finally {
            pool.shutdown();
        }
    }

    private static boolean isInTime(long start) {
        return System.nanoTime() - start < LIMIT_NANOS;
    }

    private static double secondsSince(long begin) {
        return (System.nanoTime() - begin) / 1e9;
    }

    private static double median(long[] times) {
        Arrays.sort(times);
        return times[times.length / 2];
    }
}
