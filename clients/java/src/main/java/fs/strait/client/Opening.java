package fs.strait.client;

import fs.strait.client.internal.AppendFileRequest;
import fs.strait.client.internal.CreateFileRequest;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.util.EnumSet;
import java.util.Set;

/** The meaning of options, as far as stores support it: to create, to replace or to append. */
final class Opening {
    private final Set<StandardOpenOption> standard = EnumSet.noneOf(StandardOpenOption.class);
    private final CreateFileRequest create = new CreateFileRequest();
    private boolean creates;

    Opening(OpenOption... options) {
        for (OpenOption option : options) {
            if (option instanceof StandardOpenOption known) {
                standard.add(known);
            } else if (option instanceof CreateOption how) {
                add(how);
            } else {
                throw new UnsupportedOperationException("an unknown option: " + option);
            }
        }
    }

    void add(CreateOption how) {
        creates = true;
        switch (how.field) {
            case PERMISSION -> create.setPermission(Math.toIntExact(how.value));
            case REPLICATION -> create.setReplication((short) how.value);
            case BLOCK_SIZE -> create.setBlock_size(how.value);
        }
    }

    /** Whether the options open a channel for reading, as they do by default. */
    boolean reads() {
        boolean reads = standard.isEmpty() || standard.contains(StandardOpenOption.READ);
        if (reads && (standard.size() > 1 || creates)) {
            throw new UnsupportedOperationException("stores read, or append, but not both");
        }
        return reads;
    }

    /** Opens for writing; without any standard option it creates or replaces a file. */
    RemoteWriter openWriter(Session session, String path) throws IOException {
        if (standard.contains(StandardOpenOption.APPEND)) {
            return openToAppend(session, path);
        }
        boolean replaces =
                standard.isEmpty()
                        || standard.contains(StandardOpenOption.CREATE)
                                && standard.contains(StandardOpenOption.TRUNCATE_EXISTING);
        if (!replaces && !standard.contains(StandardOpenOption.CREATE_NEW)) {
            throw new UnsupportedOperationException(
                    "stores make a file (CREATE_NEW), replace one (CREATE, TRUNCATE_EXISTING), or"
                            + " append (APPEND), but not " + standard);
        }
        return create(session, path, !standard.contains(StandardOpenOption.CREATE_NEW));
    }

    private RemoteWriter openToAppend(Session session, String path) throws IOException {
        try {
            return append(session, path);
        } catch (NoSuchFileException missing) {
            if (!standard.contains(StandardOpenOption.CREATE)) {
                throw missing;
            }
        }
        try {
            return create(session, path, false);
        } catch (FileAlreadyExistsException inBetween) {
            return append(session, path); // another client made it
        }
    }

    private static RemoteWriter append(Session session, String path) throws IOException {
        AppendFileRequest request = new AppendFileRequest().setPath(path);
        return new RemoteWriter(session, path, session.mutate(Method.APPEND_FILE, request));
    }

    private RemoteWriter create(Session session, String path, boolean overwrite)
            throws IOException {
        create.setPath(path).setOverwrite(overwrite);
        return new RemoteWriter(session, path, session.mutate(Method.CREATE_FILE, create));
    }
}
