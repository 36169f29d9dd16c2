package fs.strait.client;

import fs.strait.client.internal.ConcatFilesRequest;
import fs.strait.client.internal.GetBlockLocationsRequest;
import fs.strait.client.internal.GetChecksumReply;
import fs.strait.client.internal.GetChecksumRequest;
import fs.strait.client.internal.GetFileInfoReply;
import fs.strait.client.internal.GetFileInfoRequest;
import fs.strait.client.internal.GetStoreStatusReply;
import fs.strait.client.internal.GetStoreStatusRequest;
import fs.strait.client.internal.MakeDirectoriesRequest;
import fs.strait.client.internal.RemovePathRequest;
import fs.strait.client.internal.RenamePathRequest;
import fs.strait.client.internal.ServerInfoReply;
import fs.strait.client.internal.ServerInfoRequest;
import fs.strait.client.internal.SetAttributesRequest;
import fs.strait.client.internal.TruncateFileRequest;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.CopyOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * The files of one store behind a gateway, for one user. For any number of threads at once.
 *
 * <p>Paths are absolute within the store, with {@code /} between names. Every failure is an {@link
 * IOException} that is also a {@link StraitFailure}. After a broken connection the client
 * tries five more times, for 1.6 to 3.1 s in all. The gateway recognises repeated changes, so it executes each once.
 */
public final class StraitClient implements AutoCloseable {
    private final Session session;

    private StraitClient(Session session) {
        this.session = session;
    }

    // -- The session

    /**
     * Opens a session, without a login, on the gateway's default store.
     *
     * @param address {@code strait://host:port/} or {@code host:port}; the port is 9090 by default,
     *     and {@code /@NAME} after it names a store
     * @return the client; close it
     * @throws IOException if there is no gateway, or it requires a login
     */
    public static StraitClient connect(String address) throws IOException {
        return connect(address, ConnectOptions.defaults());
    }

    /**
     * Opens a session.
     *
     * @param address {@code strait://host:port/} or {@code host:port}; the port is 9090 by default,
     *     and {@code /@NAME} after it names a store
     * @param options store, login and more
     * @return the client; close it
     * @throws IOException if there is no gateway, or it refuses the login
     */
    public static StraitClient connect(String address, ConnectOptions options) throws IOException {
        StraitUri parsed = StraitUri.parseAddress(address);
        String store = parsed.store();
        if (store != null && options.store != null && !store.equals(options.store)) {
            String message = "the address names the store %s, and the option names %s; give one";
            throw Failures.of(
                    ErrorKind.INVALID_ARGUMENT, message.formatted(store, options.store), null);
        }
        ConnectOptions all = store == null ? options : options.store(store);
        return new StraitClient(new Session(parsed.host(), parsed.port(), all));
    }

    /**
     * The user that the gateway acts for.
     *
     * @return the user's name
     */
    public String user() {
        return session.user();
    }

    /**
     * Represents the login until it expires; keep it secret.
     *
     * @return for {@link ConnectOptions#token}
     */
    public String token() {
        return session.token();
    }

    /**
     * The store of this session.
     *
     * @return its names and abilities
     */
    public StoreInfo store() {
        return session.store();
    }

    /**
     * The gateway's version, and the stores it serves.
     *
     * @return its description
     * @throws IOException if it can't be reached
     */
    public ServerInfo serverInfo() throws IOException {
        ServerInfoReply reply = session.call(Method.SERVER_INFO, new ServerInfoRequest());
        int version = reply.isSetVersion() ? reply.getVersion().getValue() : 0;
        List<StoreInfo> stores =
                Convert.list(reply.getStores()).stream().map(Convert::store).toList();
        return new ServerInfo(Convert.text(reply.getServer()), version, stores);
    }

    /**
     * Capacity and use of the whole store.
     *
     * @return bytes
     * @throws IOException if the store can't tell
     */
    public StoreStatus status() throws IOException {
        GetStoreStatusReply reply =
                session.call(Method.GET_STORE_STATUS, new GetStoreStatusRequest());
        return new StoreStatus(
                reply.getCapacity(), reply.getUsed(), reply.getRemaining(), reply.isSettling());
    }

    /** Ends the session; close its files first. */
    @Override
    public void close() {
        session.close();
    }

    // -- Looking

    /**
     * Returns the attributes of a path.
     *
     * @param path of a file or directory
     * @return its attributes
     * @throws IOException {@link NoSuchFileException} if it doesn't exist
     */
    public FileInfo stat(String path) throws IOException {
        GetFileInfoRequest request = new GetFileInfoRequest().setPath(StraitUri.checked(path));
        GetFileInfoReply reply = session.call(Method.GET_FILE_INFO, request);
        if (!reply.isSetInfo()) {
            String message =
                    "stat: the gateway's reply has no file status (a defect of the gateway)";
            throw Failures.of(ErrorKind.INTERNAL, message, path);
        }
        return Convert.file(reply.getInfo());
    }

    /**
     * Returns whether a path exists.
     *
     * @param path to check
     * @return true if so
     * @throws IOException if the store can't tell
     */
    public boolean exists(String path) throws IOException {
        try {
            stat(path);
            return true;
        } catch (NoSuchFileException | NotDirectoryException nothing) {
            return false;
        }
    }

    /**
     * Lists a directory, in the store's own order; fetched page by page while the stream is used.
     *
     * @param path of a directory
     * @return its entries; a failure on the way is an {@link java.io.UncheckedIOException}
     * @throws IOException {@link NotDirectoryException} for a file
     */
    public Stream<FileInfo> list(String path) throws IOException {
        return list(path, 0);
    }

    /**
     * Lists a directory by pages of a given size.
     *
     * @param path of a directory
     * @param pageEntries entries of a page; 0: the gateway decides
     * @return its entries; a failure on the way is an {@link java.io.UncheckedIOException}
     * @throws IOException {@link NotDirectoryException} for a file
     */
    public Stream<FileInfo> list(String path, int pageEntries) throws IOException {
        return new Listing(session, StraitUri.checked(path), pageEntries).stream();
    }

    /**
     * Returns the location of a file.
     *
     * @param path of a file
     * @return all its blocks
     * @throws IOException if the store can't tell
     */
    public List<BlockLocation> locate(String path) throws IOException {
        return locate(new GetBlockLocationsRequest().setPath(StraitUri.checked(path)));
    }

    /**
     * Returns the location of a range of a file.
     *
     * @param path of a file
     * @param offset of the first byte
     * @param length bytes
     * @return the blocks that contain any of it
     * @throws IOException if the store can't tell
     */
    public List<BlockLocation> locate(String path, long offset, long length) throws IOException {
        GetBlockLocationsRequest request = new GetBlockLocationsRequest();
        request.setPath(StraitUri.checked(path)).setOffset(offset).setLength(length);
        return locate(request);
    }

    private List<BlockLocation> locate(GetBlockLocationsRequest request) throws IOException {
        var blocks = session.call(Method.GET_BLOCK_LOCATIONS, request).getBlocks();
        return Convert.list(blocks).stream().map(Convert::block).toList();
    }

    /**
     * Returns the store's own checksum of a file.
     *
     * @param path of a file
     * @return comparable with others of its algorithm
     * @throws IOException if the store has none
     */
    public Checksum checksum(String path) throws IOException {
        GetChecksumRequest request = new GetChecksumRequest().setPath(StraitUri.checked(path));
        GetChecksumReply reply = session.call(Method.GET_CHECKSUM, request);
        byte[] value = reply.isSetValue() ? reply.getValue() : new byte[0];
        return new Checksum(Convert.text(reply.getAlgorithm()), value);
    }

    // -- Files

    /**
     * Opens a file for reading from its beginning. Several requests are in flight at once, so a
     * {@link java.io.BufferedInputStream} is only useful for reading byte by byte.
     *
     * @param path of a file
     * @return for one thread at a time; without mark
     * @throws IOException {@link NoSuchFileException} if there is none
     */
    public InputStream newInputStream(String path) throws IOException {
        String file = StraitUri.checked(path);
        return new RemoteInputStream(
                new RemoteReader(session, file, RemoteReader.Pattern.SEQUENTIAL));
    }

    /**
     * Opens a file for writing, and makes missing parents.
     *
     * @param path of a file
     * @param options none: creates or replaces it; {@link java.nio.file.StandardOpenOption}s:
     *     CREATE_NEW creates a new one, APPEND continues at its end; {@link CreateOption}s
     * @return for one thread at a time
     * @throws IOException {@link java.nio.file.FileAlreadyExistsException} for CREATE_NEW, if it
     *     exists
     * @throws UnsupportedOperationException for operations that no store has, such as overwriting
     *     in place
     */
    public StraitOutputStream newOutputStream(String path, OpenOption... options)
            throws IOException {
        String file = StraitUri.checked(path);
        return new StraitOutputStream(new Opening(options).openWriter(session, file));
    }

    /**
     * Opens a file for reading at random, or for writing at its end.
     *
     * @param path of a file
     * @param options none or READ: for reading; else as for {@link #newOutputStream}
     * @return the channel
     * @throws IOException as for the streams
     * @throws UnsupportedOperationException for operations that no store has
     */
    public StraitChannel newByteChannel(String path, OpenOption... options) throws IOException {
        String file = StraitUri.checked(path);
        Opening opening = new Opening(options);
        return opening.reads()
                ? new StraitChannel(new RemoteReader(session, file, RemoteReader.Pattern.RANDOM))
                : new StraitChannel(opening.openWriter(session, file));
    }

    // -- Changing names

    /**
     * Makes a directory and its missing parents; an existing directory is success.
     *
     * @param path of the directory
     * @throws IOException if that fails
     */
    public void mkdirs(String path) throws IOException {
        mkdirs(new MakeDirectoriesRequest().setPath(StraitUri.checked(path)));
    }

    /**
     * Makes a directory and its missing parents.
     *
     * @param path of the directory
     * @param permission permission bits, 07777 at most
     * @throws IOException if that fails
     */
    public void mkdirs(String path, int permission) throws IOException {
        MakeDirectoriesRequest request = new MakeDirectoriesRequest();
        mkdirs(request.setPath(StraitUri.checked(path)).setPermission(permission));
    }

    private void mkdirs(MakeDirectoriesRequest request) throws IOException {
        session.mutate(Method.MAKE_DIRECTORIES, request);
    }

    /**
     * Renames a file or directory.
     *
     * @param source its name
     * @param target the new name itself, which must be free
     * @throws IOException {@link java.nio.file.FileAlreadyExistsException} if it isn't
     */
    public void rename(String source, String target) throws IOException {
        rename(source, target, false);
    }

    /**
     * Renames a file, and replaces one at the target.
     *
     * @param source its name
     * @param target the new name itself
     * @throws IOException if that fails
     */
    public void replace(String source, String target) throws IOException {
        rename(source, target, true);
    }

    private void rename(String source, String target, boolean replace) throws IOException {
        RenamePathRequest request = new RenamePathRequest().setSource(StraitUri.checked(source));
        request.setTarget(StraitUri.checked(target)).setReplace(replace);
        session.mutate(Method.RENAME_PATH, request);
    }

    /**
     * Removes a file, or a directory without entries.
     *
     * @param path of it
     * @throws IOException {@link java.nio.file.DirectoryNotEmptyException} if it has some
     */
    public void remove(String path) throws IOException {
        remove(path, false);
    }

    /**
     * Removes a file, or a directory with everything beneath it.
     *
     * @param path of it
     * @throws IOException {@link NoSuchFileException} if it doesn't exist
     */
    public void removeAll(String path) throws IOException {
        remove(path, true);
    }

    private void remove(String path, boolean recursive) throws IOException {
        RemovePathRequest request = new RemovePathRequest();
        request.setPath(StraitUri.checked(path)).setRecursive(recursive);
        session.mutate(Method.REMOVE_PATH, request);
    }

    // -- Changing attributes

    /**
     * Sets attributes of a file or directory.
     *
     * @param path of it
     * @param attributes those to set
     * @throws IOException if the store can't, or the user may not
     */
    public void setAttributes(String path, Attributes attributes) throws IOException {
        SetAttributesRequest request = new SetAttributesRequest().setPath(StraitUri.checked(path));
        Convert.fill(request, attributes);
        session.mutate(Method.SET_ATTRIBUTES, request);
    }

    /**
     * Cuts a closed file.
     *
     * @param path of the file
     * @param length bytes to keep
     * @throws IOException if the store can't
     */
    public void truncate(String path, long length) throws IOException {
        TruncateFileRequest request = new TruncateFileRequest();
        request.setPath(StraitUri.checked(path)).setLength(length);
        session.mutate(Method.TRUNCATE_FILE, request);
    }

    /**
     * Moves the sources' bytes, in order, to the end of a closed file, and removes the sources: in one
     * step and without copying. Needs the capability "concat".
     *
     * @param path the file that gets the bytes
     * @param sources the files to join to it
     * @throws IOException if the store can't
     */
    public void concat(String path, List<String> sources) throws IOException {
        ConcatFilesRequest request = new ConcatFilesRequest();
        List<String> checked = new ArrayList<>();
        for (String source : sources) {
            checked.add(StraitUri.checked(source));
        }
        request.setPath(StraitUri.checked(path)).setSources(checked);
        session.mutate(Method.CONCAT_FILES, request);
    }

    // -- Whole files

    /**
     * Copies a remote file to a local one, which appears only when it is complete.
     *
     * @param source remote path
     * @param target local path; a device or a pipe receives the bytes directly
     * @param options {@link java.nio.file.StandardCopyOption#REPLACE_EXISTING} or none
     * @return bytes
     * @throws IOException of either side; {@link java.nio.file.FileAlreadyExistsException} if the
     *     target exists and shouldn't be replaced
     */
    public long get(String source, Path target, CopyOption... options) throws IOException {
        return get(source, target, Progress.NONE, options);
    }

    /**
     * Copies a remote file to a local one and reports the progress.
     *
     * @param source remote path
     * @param target local path
     * @param progress called after each piece
     * @param options as for {@link #get(String, Path, CopyOption...)}
     * @return bytes
     * @throws IOException as for {@link #get(String, Path, CopyOption...)}
     */
    public long get(String source, Path target, Progress progress, CopyOption... options)
            throws IOException {
        return new Transfer(this, session, progress, options).get(StraitUri.checked(source), target);
    }

    /**
     * Copies a local file to a remote one, which appears, or is replaced, only when it is complete
     * and closed. A failed put tries to remove its temporary file. After {@link
     * ErrorKind#OUTCOME_UNKNOWN} or {@link ErrorKind#TIMED_OUT}, the target may be there, complete.
     *
     * @param source local path
     * @param target remote path; in a directory the file gets its own name
     * @param options {@link java.nio.file.StandardCopyOption#REPLACE_EXISTING} or none
     * @return bytes
     * @throws IOException of either side; {@link java.nio.file.FileAlreadyExistsException} if the
     *     target exists and shouldn't be replaced
     */
    public long put(Path source, String target, CopyOption... options) throws IOException {
        return put(source, target, Progress.NONE, options);
    }

    /**
     * Copies a local file to a remote one and reports the progress.
     *
     * @param source local path
     * @param target remote path
     * @param progress called after each piece
     * @param options as for {@link #put(Path, String, CopyOption...)}
     * @return bytes
     * @throws IOException as for {@link #put(Path, String, CopyOption...)}
     */
    public long put(Path source, String target, Progress progress, CopyOption... options)
            throws IOException {
        return new Transfer(this, session, progress, options).put(source, StraitUri.checked(target));
    }
}
