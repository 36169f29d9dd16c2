package fs.strait.client;

import fs.strait.client.internal.GetFileInfoReply;
import fs.strait.client.internal.GetFileInfoRequest;
import fs.strait.client.internal.RemovePathRequest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.CopyOption;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.util.EnumSet;
import java.util.Set;
import java.util.UUID;

/** Copies whole files: reads one side while writing the other. */
final class Transfer {
    private final StraitClient client;
    private final Session session;
    private final Progress progress;
    private final boolean replace;

    /** With {@link StandardCopyOption#REPLACE_EXISTING} or nothing as options. */
    Transfer(StraitClient client, Session session, Progress progress, CopyOption... options) {
        this.client = client;
        this.session = session;
        this.progress = progress;
        for (CopyOption option : options) {
            if (option != StandardCopyOption.REPLACE_EXISTING) {
                throw new UnsupportedOperationException(option + " isn't supported");
            }
        }
        this.replace = options.length > 0;
    }

    /** See {@link StraitClient#get(String, Path, Progress, CopyOption...)}. */
    long get(String source, Path target) throws IOException {
        if (Files.exists(target) && !Files.isRegularFile(target)) {
            // A device or a pipe takes the bytes; a file can't replace it.
            try (WritableByteChannel out =
                    Files.newByteChannel(target, StandardOpenOption.WRITE)) {
                return get(source, out);
            }
        }
        if (!replace && Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
            throw taken(target);
        }
        Path temporary = target.resolveSibling(temporaryName("get"));
        try {
            return get(source, temporary, target);
        } catch (FileSystemException error) {
            // The caller doesn't know the temporary name.
            throw temporary.toString().equals(error.getFile()) ? saidOf(target, error) : error;
        }
    }

    private static FileSystemException saidOf(Path target, FileSystemException error) {
        String file = target.toString();
        FileSystemException said = new FileSystemException(file, null, error.getReason());
        if (error instanceof NoSuchFileException) {
            said = new NoSuchFileException(file, null, "its directory doesn't exist");
        } else if (error instanceof AccessDeniedException) {
            said = new AccessDeniedException(file, null, error.getReason());
        }
        said.initCause(error);
        return said;
    }

    private long get(String source, Path temporary, Path target) throws IOException {
        Set<StandardOpenOption> isNew =
                EnumSet.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        FileAttribute<?>[] attributes = Modes.ofNewFile(target, permissionOf(source));
        try {
            long copied;
            try (WritableByteChannel out = Files.newByteChannel(temporary, isNew, attributes)) {
                copied = get(source, out);
            }
            appear(temporary, target);
            return copied;
        } finally {
            Files.deleteIfExists(temporary);
        }
    }

    /**
     * Permission bits for a copy, which never allow more than its original's; null if that has
     * none.
     */
    private Integer permissionOf(String source) throws IOException {
        GetFileInfoRequest request = new GetFileInfoRequest().setPath(StraitUri.checked(source));
        GetFileInfoReply reply = session.call(Method.GET_FILE_INFO, request);
        boolean isSet = reply.isSetInfo() && reply.getInfo().isSetPermission();
        return isSet ? reply.getInfo().getPermission() : null;
    }

    private void appear(Path temporary, Path target) throws IOException {
        if (replace) {
            Files.move(
                    temporary,
                    target,
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
            return;
        }
        try {
            // A move may replace an existing file, a link doesn't.
            Files.createLink(target, temporary);
        } catch (FileAlreadyExistsException taken) {
            throw taken(target);
        } catch (IOException | UnsupportedOperationException noLinks) {
            Files.move(temporary, target);
        }
    }

    private static IOException taken(Path target) {
        return Failures.of(
                ErrorKind.ALREADY_EXISTS, "the file is there already", target.toString());
    }

    private long get(String source, WritableByteChannel target) throws IOException {
        RemoteReader reader = new RemoteReader(session, source, RemoteReader.Pattern.WHOLE);
        long length = reader.length();
        try {
            long copied =
                    new Pump(session.buffers())
                            .run(
                                    buffer -> fill(reader, buffer),
                                    buffer -> drain(buffer, target),
                                    BufferPool.CHUNK_BYTES,
                                    length,
                                    progress);
            if (copied < length) {
                String message = "read: the file became shorter while it was read";
                throw Failures.of(ErrorKind.BUSY, message, source);
            }
            return copied;
        } finally {
            reader.close();
        }
    }

    private static void fill(RemoteReader reader, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining() && reader.read(buffer) > 0) {
            // Continue with the next piece of it.
        }
    }

    private void drain(ByteBuffer buffer, WritableByteChannel target) throws IOException {
        while (buffer.hasRemaining()) {
            target.write(buffer);
        }
        session.buffers().giveBack(buffer);
    }

    /** See {@link StraitClient#put(Path, String, Progress, CopyOption...)}. */
    long put(Path source, String target) throws IOException {
        try (ReadableByteChannel in = Files.newByteChannel(source)) {
            return put(in, source, within(source, target));
        }
    }

    /** The target itself or, if it is a directory, the path in it for the local file. */
    private String within(Path source, String target) throws IOException {
        FileInfo there = statIfThere(target);
        if (there == null || !there.isDirectory()) {
            return target;
        }
        String directory = target.endsWith("/") ? target : target + "/";
        return directory + source.toAbsolutePath().normalize().getFileName();
    }

    private FileInfo statIfThere(String path) throws IOException {
        try {
            return client.stat(path);
        } catch (NoSuchFileException free) {
            return null;
        }
    }

    private long put(ReadableByteChannel source, Path local, String target)
            throws IOException {
        checkTarget(target);
        // Doesn't contain the target's name, which may already have the maximum length.
        String directory = target.substring(0, target.lastIndexOf('/') + 1);
        String temporary = directory + temporaryName("put");
        boolean written = false;
        boolean done = false;
        try {
            long copied = write(source, local, temporary);
            written = true;
            appear(temporary, target);
            done = true;
            return copied;
        } catch (IOException error) {
            if (!written && Failures.isOf(error, ErrorKind.OUTCOME_UNKNOWN)) {
                // In any outcome, no part of it is visible under the target's name.
                throw Failures.about(target, ErrorKind.UNAVAILABLE, true, error);
            }
            throw Failures.renamed(temporary, target, error);
        } finally {
            if (!done) {
                removeQuietly(temporary);
            }
        }
    }

    private void checkTarget(String target) throws IOException {
        FileInfo there = statIfThere(target);
        if (there == null) {
            return;
        }
        if (!replace) {
            throw Failures.of(ErrorKind.ALREADY_EXISTS, "the path is taken", target);
        }
        if (there.isDirectory()) {
            throw Failures.of(ErrorKind.IS_A_DIRECTORY, "the target is a directory", target);
        }
    }

    private long write(ReadableByteChannel source, Path local, String path) throws IOException {
        Opening opening = new Opening(StandardOpenOption.CREATE_NEW);
        Integer permission = Modes.ofCopy(local);
        if (permission != null) {
            opening.add(CreateOption.permission(permission));
        }
        RemoteWriter writer = opening.openWriter(session, path);
        try {
            long copied =
                    new Pump(session.buffers())
                            .run(
                                    buffer -> fill(source, buffer),
                                    writer::send,
                                    writer.chunkBytes(),
                                    Files.size(local),
                                    progress);
            writer.close();
            return copied;
        } finally {
            writer.abandon();
        }
    }

    private static void fill(ReadableByteChannel source, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining() && source.read(buffer) >= 0) {
            // Continue with the next piece of it.
        }
    }

    private void appear(String temporary, String target) throws IOException {
        if (!replace) {
            client.rename(temporary, target);
        } else if (client.store().capabilities().contains("rename_replace")) {
            client.replace(temporary, target);
        } else {
            try {
                client.remove(target);
            } catch (NoSuchFileException free) {
                // The name is free.
            }
            client.rename(temporary, target);
        }
    }

    private void removeQuietly(String path) {
        try {
            RemovePathRequest request = new RemovePathRequest().setPath(path).setRecursive(false);
            session.mutate(Method.REMOVE_PATH, request, session.parting());
        } catch (IOException ignored) {
            // The earlier failure has more details.
        }
    }

    private static String temporaryName(String operation) {
        return ".strait-" + operation + "-" + UUID.randomUUID();
    }
}
