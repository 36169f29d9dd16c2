package fs.strait.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.Set;

/** Permission bits of local files and copies; where there are none, files have the default. */
final class Modes {
    // Of a mode, what a copy gets at most: a set-id bit is the original's alone.
    private static final int PERMISSION_BITS = 0777;
    // Forbidden where the system doesn't tell what is: writing for all but the owner.
    private static final int USUAL_UMASK = 022;
    private static final Path STATUS = Path.of("/proc/self/status");

    private Modes() {}

    /** Of a new local file beside `target`; the system takes the umask from it. */
    static FileAttribute<?>[] ofNewFile(Path target, Integer permission) throws IOException {
        boolean isPosix = target.getFileSystem().supportedFileAttributeViews().contains("posix");
        if (permission == null || !isPosix) {
            return new FileAttribute<?>[0];
        }
        return new FileAttribute<?>[] {
            PosixFilePermissions.asFileAttribute(permissions(permission))
        };
    }

    /** Of a copy of a local file: its own, less what the umask forbids; null: it has none. */
    static Integer ofCopy(Path original) throws IOException {
        if (!original.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            return null;
        }
        int permission = 0;
        for (PosixFilePermission each : Files.getPosixFilePermissions(original)) {
            permission |= bit(each);
        }
        return permission & ~umask();
    }

    private static Set<PosixFilePermission> permissions(int permission) {
        Set<PosixFilePermission> found = EnumSet.noneOf(PosixFilePermission.class);
        for (PosixFilePermission each : PosixFilePermission.values()) {
            if ((permission & PERMISSION_BITS & bit(each)) != 0) {
                found.add(each);
            }
        }
        return found;
    }

    /** They are in the order of the bits, from the owner's right to read on. */
    private static int bit(PosixFilePermission permission) {
        return 0400 >> permission.ordinal();
    }

    private static int umask() throws IOException {
        if (Files.isReadable(STATUS)) {
            for (String line : Files.readAllLines(STATUS)) {
                if (line.startsWith("Umask:")) {
                    return Integer.parseInt(line.substring("Umask:".length()).strip(), 8);
                }
            }
        }
        return USUAL_UMASK;
    }
}
