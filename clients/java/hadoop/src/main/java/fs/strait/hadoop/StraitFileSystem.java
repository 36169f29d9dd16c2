package fs.strait.hadoop;

import fs.strait.client.Attributes;
import fs.strait.client.BlockLocation;
import fs.strait.client.Checksum;
import fs.strait.client.CreateOption;
import fs.strait.client.FileInfo;
import fs.strait.client.StoreStatus;
import fs.strait.client.StraitClient;
import fs.strait.hadoop.Stores.Place;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.apache.hadoop.util.functional.RemoteIterators;

/**
 * The files of a gateway's stores, as {@code strait://host:port/path} in its default store, or
 * {@code strait://host:port/@NAME/path}.
 *
 * <p>It keeps HDFS's rules where programs differ about them: {@code rename} into an existing
 * directory, {@code false} for a missing source, missing parents made.
 */
public final class StraitFileSystem extends FileSystem {
    static final String SCHEME = "strait";

    private static final int PERMISSION_BITS = 07777;
    // Hadoop wants numbers for these; a program that passes them on asks for the store's own.
    private static final short STORES_REPLICATION = 3;
    private static final long STORES_BLOCK_SIZE = 128L << 20;

    private URI uri;
    private Stores stores;
    private Path workingDirectory;
    private boolean tellsChecksums;

    /** Made by Hadoop, which calls {@link #initialize} then. */
    public StraitFileSystem() {}

    @Override
    public void initialize(URI name, Configuration configuration) throws IOException {
        super.initialize(name, configuration);
        setConf(configuration);
        stores = new Stores(name, configuration);
        uri = URI.create(SCHEME + "://" + name.getAuthority());
        workingDirectory = getHomeDirectory();
        tellsChecksums = configuration.getBoolean("fs.strait.checksums", false);
    }

    @Override
    public String getScheme() {
        return SCHEME;
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    protected int getDefaultPort() {
        return Stores.port(URI.create("strait://gateway"));
    }

    @Override
    public String getCanonicalServiceName() {
        return null; // it gives no delegation tokens
    }

    @Override
    public Path getWorkingDirectory() {
        return workingDirectory;
    }

    @Override
    public void setWorkingDirectory(Path directory) {
        workingDirectory = absolute(directory);
    }

    private Path absolute(Path path) {
        Path whole = path.isAbsolute() ? path : new Path(workingDirectory, path);
        checkPath(whole);
        return whole;
    }

    private Place place(Path path) throws IOException {
        Path whole = absolute(path);
        return Errors.at(path, () -> stores.place(whole)); // it may connect
    }

    @Override
    public void close() throws IOException {
        try {
            super.close(); // removes what is to be removed at the end
        } finally {
            stores.close();
        }
    }

    // -- Looking

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        Place place = place(path);
        try {
            return status(place, Errors.at(path, () -> place.client().stat(place.path())));
        } catch (ParentNotDirectoryException error) {
            // Hadoop's `exists` takes only this one for an answer.
            throw (IOException) new FileNotFoundException(error.getMessage()).initCause(error);
        }
    }

    private FileStatus status(Place place, FileInfo info) {
        Path path = new Path(SCHEME, uri.getAuthority(), place.outward(info.path()));
        return new FileStatus(
                info.length(),
                info.isDirectory(),
                info.replication(),
                info.blockSize(),
                info.modified().toEpochMilli(),
                info.accessed().toEpochMilli(),
                new FsPermission((short) (info.permission() & PERMISSION_BITS)),
                info.owner(),
                info.group(),
                path);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        List<FileStatus> entries = new ArrayList<>();
        RemoteIterators.foreach(listStatusIterator(path), entries::add);
        return entries.toArray(FileStatus[]::new);
    }

    /** Fetches page by page. It is {@link Closeable}, for a program that stops before its end. */
    @Override
    public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
        FileStatus itself = getFileStatus(path);
        if (!itself.isDirectory()) {
            return RemoteIterators.remoteIteratorFromSingleton(itself);
        }
        Place place = place(path);
        Stream<FileInfo> entries = Errors.at(path, () -> place.client().list(place.path()));
        return new Listing(path, place, entries);
    }

    private final class Listing implements RemoteIterator<FileStatus>, Closeable {
        private final Path path;
        private final Place place;
        private final Stream<FileInfo> entries;
        private final Iterator<FileInfo> iterator;

        Listing(Path path, Place place, Stream<FileInfo> entries) {
            this.path = path;
            this.place = place;
            this.entries = entries;
            this.iterator = entries.iterator();
        }

        @Override
        public boolean hasNext() throws IOException {
            return Errors.at(path, iterator::hasNext);
        }

        @Override
        public FileStatus next() throws IOException {
            return status(place, Errors.at(path, iterator::next));
        }

        @Override
        public void close() {
            entries.close();
        }
    }

    @Override
    public org.apache.hadoop.fs.BlockLocation[] getFileBlockLocations(
            FileStatus file, long start, long length) throws IOException {
        if (file == null) {
            return null;
        }
        if (start < 0 || length < 0) {
            throw new IllegalArgumentException("a negative start or length");
        }
        if (file.isDirectory() || file.getLen() <= start) {
            return new org.apache.hadoop.fs.BlockLocation[0];
        }
        Place place = place(file.getPath());
        if (!place.client().store().capabilities().contains("block_locations")) {
            return super.getFileBlockLocations(file, start, length);
        }
        return Errors.at(
                file.getPath(),
                () ->
                        place.client().locate(place.path(), start, length).stream()
                                .map(StraitFileSystem::location)
                                .toArray(org.apache.hadoop.fs.BlockLocation[]::new));
    }

    private static org.apache.hadoop.fs.BlockLocation location(BlockLocation block) {
        String[] hosts = block.hosts().toArray(String[]::new);
        String[] addresses = block.addresses().toArray(String[]::new);
        return new org.apache.hadoop.fs.BlockLocation(
                addresses.length == hosts.length ? addresses : hosts,
                hosts,
                block.offset(),
                block.length(),
                block.corrupt());
    }

    /**
     * The store's own, if {@code fs.strait.checksums} is true: distcp takes checksums of two kinds
     * for a difference, so it may get none by default.
     */
    @Override
    public FileChecksum getFileChecksum(Path path, long length) throws IOException {
        Place place = place(path);
        if (!tellsChecksums || !place.client().store().capabilities().contains("checksum")) {
            return null;
        }
        Checksum checksum = Errors.at(path, () -> place.client().checksum(place.path()));
        return new StoreChecksum(checksum.algorithm(), checksum.value());
    }

    @Override
    public FileChecksum getFileChecksum(Path path) throws IOException {
        return getFileChecksum(path, Long.MAX_VALUE);
    }

    @Override
    public FsStatus getStatus(Path path) throws IOException {
        Path where = path == null ? new Path("/") : path;
        StoreStatus status = Errors.at(where, () -> place(where).client().status());
        return new FsStatus(status.capacity(), status.used(), status.remaining());
    }

    @Override
    public short getDefaultReplication(Path path) {
        return STORES_REPLICATION;
    }

    @Override
    public long getDefaultBlockSize(Path path) {
        return STORES_BLOCK_SIZE;
    }

    // -- Files

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        Place place = place(path);
        try {
            return new FSDataInputStream(
                    new Input(
                            path,
                            Errors.at(path, () -> place.client().newByteChannel(place.path())),
                            statistics));
        } catch (FileAlreadyExistsException directory) {
            throw missing(directory);
        } catch (ParentNotDirectoryException under) {
            throw missing(under);
        }
    }

    private static IOException missing(IOException error) {
        return (IOException) new FileNotFoundException(error.getMessage()).initCause(error);
    }

    @Override
    public FSDataOutputStream create(
            Path path,
            FsPermission permission,
            boolean overwrite,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        List<OpenOption> options = new ArrayList<>();
        if (overwrite) {
            options.add(StandardOpenOption.CREATE);
            options.add(StandardOpenOption.TRUNCATE_EXISTING);
        } else {
            options.add(StandardOpenOption.CREATE_NEW);
        }
        options.add(CreateOption.permission(masked(permission).toShort()));
        if (replication != STORES_REPLICATION) {
            options.add(CreateOption.replication(replication));
        }
        if (blockSize != STORES_BLOCK_SIZE) {
            options.add(CreateOption.blockSize(blockSize));
        }
        return output(path, options);
    }

    @Override
    public FSDataOutputStream createNonRecursive(
            Path path,
            FsPermission permission,
            EnumSet<CreateFlag> flags,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        Path parent = absolute(path).getParent();
        if (parent != null && !getFileStatus(parent).isDirectory()) {
            throw new ParentNotDirectoryException(parent + ": not a directory");
        }
        return create(
                path,
                permission,
                flags.contains(CreateFlag.OVERWRITE),
                bufferSize,
                replication,
                blockSize,
                progress);
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress)
            throws IOException {
        return output(path, List.of(StandardOpenOption.APPEND));
    }

    private FSDataOutputStream output(Path path, List<OpenOption> options) throws IOException {
        Place place = place(path);
        OpenOption[] all = options.toArray(OpenOption[]::new);
        return Errors.at(
                path,
                () -> {
                    var file = place.client().newOutputStream(place.path(), all);
                    return new FSDataOutputStream(
                            new Output(path, file), statistics, file.position());
                });
    }

    private FsPermission masked(FsPermission permission) {
        FsPermission asked = permission == null ? FsPermission.getFileDefault() : permission;
        return asked.applyUMask(FsPermission.getUMask(getConf()));
    }

    @Override
    public boolean truncate(Path path, long length) throws IOException {
        Place place = place(path);
        FileStatus now = getFileStatus(path);
        if (now.isDirectory()) {
            throw new FileNotFoundException(path + ": a directory");
        }
        if (length < 0 || length > now.getLen()) {
            throw new IllegalArgumentException(path + ": not a length to truncate to: " + length);
        }
        change(path, client -> client.truncate(place.path(), length));
        return true;
    }

    // -- Changing names

    private interface Change {
        void on(StraitClient client) throws IOException;
    }

    private void change(Path path, Change change) throws IOException {
        StraitClient client = place(path).client();
        Errors.at(
                path,
                () -> {
                    change.on(client);
                    return null;
                });
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Place place = place(path);
        FsPermission asked = permission == null ? FsPermission.getDirDefault() : permission;
        int bits = asked.applyUMask(FsPermission.getUMask(getConf())).toShort();
        change(path, client -> client.mkdirs(place.path(), bits));
        return true;
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        Place from = place(source);
        FileStatus what = statusOrNull(source);
        if (what == null || from.isRoot()) {
            return false;
        }
        FileStatus there = statusOrNull(target);
        Path name = target;
        if (there != null && there.isDirectory() && !isSame(source, target)) {
            name = new Path(target, absolute(source).getName());
            there = statusOrNull(name);
        }
        Place to = place(name);
        if (to.client() != from.client()) {
            throw new IOException(source + ": a rename can't lead to another store: " + target);
        }
        if (to.path().equals(from.path())) {
            return !what.isDirectory();
        }
        Path parent = absolute(name).getParent();
        FileStatus above = parent == null ? null : statusOrNull(parent);
        boolean leadsIntoItself = to.path().startsWith(from.path() + "/");
        if (there != null || leadsIntoItself || above == null || !above.isDirectory()) {
            return false;
        }
        try {
            change(source, client -> client.rename(from.path(), to.path()));
        } catch (FileAlreadyExistsException | FileNotFoundException | ParentNotDirectoryException lost) {
            return false; // another client was faster
        }
        return true;
    }

    private boolean isSame(Path one, Path other) throws IOException {
        return place(one).equals(place(other));
    }

    private FileStatus statusOrNull(Path path) throws IOException {
        try {
            return getFileStatus(path);
        } catch (FileNotFoundException missing) {
            return null;
        }
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        Place place = place(path);
        FileStatus what = statusOrNull(path);
        if (what == null) {
            return false;
        }
        if (place.isRoot()) {
            return refuseRoot(path, recursive);
        }
        try {
            change(
                    path,
                    client -> {
                        if (recursive) {
                            client.removeAll(place.path());
                        } else {
                            client.remove(place.path());
                        }
                    });
        } catch (FileNotFoundException gone) {
            return false;
        }
        return true;
    }

    /** A store's root stays, as HDFS's does. */
    private boolean refuseRoot(Path path, boolean recursive) throws IOException {
        RemoteIterator<FileStatus> listing = listStatusIterator(path);
        boolean isEmpty = !listing.hasNext();
        RemoteIterators.cleanupRemoteIterator(listing);
        if (!recursive && !isEmpty) {
            throw new PathIsNotEmptyDirectoryException(path.toString());
        }
        return false;
    }

    // -- Changing attributes

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        set(path, Attributes.none().permission(permission.toShort() & PERMISSION_BITS));
    }

    @Override
    public void setOwner(Path path, String owner, String group) throws IOException {
        Attributes attributes = Attributes.none();
        attributes = owner == null ? attributes : attributes.owner(owner);
        set(path, group == null ? attributes : attributes.group(group));
    }

    @Override
    public void setTimes(Path path, long modified, long accessed) throws IOException {
        Attributes attributes = Attributes.none();
        attributes = modified < 0 ? attributes : attributes.modified(Instant.ofEpochMilli(modified));
        set(path, accessed < 0 ? attributes : attributes.accessed(Instant.ofEpochMilli(accessed)));
    }

    @Override
    public boolean setReplication(Path path, short replication) throws IOException {
        FileStatus what = statusOrNull(path);
        if (what == null || what.isDirectory()) {
            return false;
        }
        if (place(path).client().store().capabilities().contains("replication")) {
            set(path, Attributes.none().replication(replication));
        }
        return true; // a store without replicas keeps one, as Hadoop's local one does
    }

    private void set(Path path, Attributes attributes) throws IOException {
        String inStore = place(path).path();
        change(path, client -> client.setAttributes(inStore, attributes));
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        var abilities = place(path).client().store().capabilities();
        return switch (capability) {
            case CommonPathCapabilities.FS_APPEND -> abilities.contains("append");
            case CommonPathCapabilities.FS_TRUNCATE -> abilities.contains("truncate");
            case CommonPathCapabilities.FS_PERMISSIONS -> abilities.contains("permissions");
            case CommonPathCapabilities.FS_CHECKSUMS ->
                    tellsChecksums && abilities.contains("checksum");
            default -> super.hasPathCapability(path, capability);
        };
    }
}
