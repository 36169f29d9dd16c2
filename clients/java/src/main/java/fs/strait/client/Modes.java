package fs.strait.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.Set;

/** Permission bits of local files and copies; files get the default if there are none. */
final class Modes {
    // Permission bits that a copy can get: a set-id bit belongs only to the original.
    private static final int PERMISSION_BITS = 0777;
    // Umask if the system doesn't tell it: only the owner may write.
    private static final int USUAL_UMASK = 022;
    private static final Path STATUS = Path.of("/proc/self/status");

    private Modes() {}

    /** For a new local file beside `target`; the system subtracts the umask. */
    static FileAttribute<?>[] ofNewFile(Path target, Integer permission) throws IOException {
        boolean isPosix = target.getFileSystem().supportedFileAttributeViews().contains("posix");
        if (permission == null || !isPosix) {
            return new FileAttribute<?>[0];
        }
        return new FileAttribute<?>[] {
            PosixFilePermissions.asFileAttribute(permissions(permission))
        };
    }

    /** For a copy of a local file: the file's own bits, less the umask; null: it has none. */
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

    /** The bit of a permission; the enum begins with the owner's read permission, in bit order. */
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
