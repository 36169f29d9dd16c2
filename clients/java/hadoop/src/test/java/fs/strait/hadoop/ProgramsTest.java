package fs.strait.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.tools.DistCp;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.apache.hadoop.util.functional.RemoteIterators;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs of Hadoop, unmodified, and what its contract tests don't ask. */
class ProgramsTest {
    private static final int BLOCK = 1 << 20;
    private static final int MORE_THAN_A_PAGE = 1_001;
    private static final int MORE_LISTINGS_THAN_A_GATEWAY_KEEPS = 300;

    private final String gateway = Gateway.shared().address();
    @TempDir java.nio.file.Path scratch;

    private static int run(Tool tool, String... arguments) throws Exception {
        return ToolRunner.run(new Configuration(), tool, arguments);
    }

    private static FileSystem fileSystem(String uri) throws IOException {
        return FileSystem.get(URI.create(uri), new Configuration());
    }

    @Test
    void fsShellPutsListsAndGets() throws Exception {
        java.nio.file.Path original = Files.writeString(scratch.resolve("original"), "bytes\n");
        java.nio.file.Path copy = scratch.resolve("copy");
        String directory = gateway + "/shell";
        FsShell shell = new FsShell();
        assertEquals(0, run(shell, "-mkdir", "-p", directory));
        assertEquals(0, run(shell, "-put", original.toString(), directory + "/file"));
        assertEquals(0, run(shell, "-mv", directory + "/file", directory + "/moved"));
        assertEquals(0, run(shell, "-chmod", "640", directory + "/moved"));
        assertEquals(0, run(shell, "-test", "-e", directory + "/moved"));
        assertEquals(0, run(shell, "-ls", "-R", directory));
        assertEquals(0, run(shell, "-get", directory + "/moved", copy.toString()));
        assertEquals("bytes\n", Files.readString(copy));
        assertEquals(0, run(shell, "-rm", "-r", "-skipTrash", directory));
        assertEquals(1, run(shell, "-test", "-e", directory));
    }

    @Test
    void distcpCopiesATreeBothWays() throws Exception {
        java.nio.file.Path tree = Files.createDirectories(scratch.resolve("tree/below"));
        byte[] bytes = new byte[3 * BLOCK + 5];
        for (int number = 0; number < bytes.length; number++) {
            bytes[number] = (byte) (number % 251);
        }
        Files.write(tree.resolve("large"), bytes);
        Files.writeString(tree.resolve("small"), "small");
        String remote = gateway + "/distcp";
        String local = scratch.resolve("tree").toUri().toString();
        String back = scratch.resolve("back").toUri().toString();
        Configuration configuration = new Configuration();
        configuration.set("hadoop.tmp.dir", scratch.resolve("hadoop").toString());
        configuration.set("mapreduce.jobtracker.staging.root.dir", scratch.resolve("staging").toString());
        assertEquals(0, ToolRunner.run(configuration, new DistCp(configuration, null), new String[] {local, remote}));
        assertEquals(0, ToolRunner.run(configuration, new DistCp(configuration, null), new String[] {remote, back}));
        assertArrayEquals(bytes, Files.readAllBytes(scratch.resolve("back/below/large")));
        assertEquals("small", Files.readString(scratch.resolve("back/below/small")));
        fileSystem(remote).delete(new Path(remote), true);
    }

    @Test
    void aPathNamesAStoreOfTheGateway() throws Exception {
        FileSystem files = fileSystem(gateway);
        Path inLab = new Path(gateway + "/@lab/directory/file");
        files.create(inLab).close();
        assertFalse(files.exists(new Path("/directory/file")));
        assertEquals(inLab, files.listStatus(new Path("/@lab/directory"))[0].getPath());
        assertThrows(
                IOException.class, () -> files.rename(inLab, new Path("/file")), "to another store");
        // A name with @ in the default store.
        Path escaped = new Path(gateway + "/@@lab");
        files.mkdirs(escaped);
        assertTrue(
                Stream.of(files.listStatus(new Path("/"))).anyMatch(e -> e.getPath().equals(escaped)));
        assertTrue(files.delete(escaped, true));
        assertTrue(files.delete(new Path("/@lab/directory"), true));
    }

    @Test
    void fileContextFindsItByItsConfiguration() throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("fs.AbstractFileSystem.strait.impl", StraitFs.class.getName());
        FileContext context = FileContext.getFileContext(URI.create(gateway), configuration);
        Path directory = new Path(gateway + "/context");
        context.mkdir(directory, FsPermission.getDirDefault(), true);
        assertTrue(context.getFileStatus(directory).isDirectory());
        assertTrue(context.delete(directory, true));
    }

    @Test
    void itLogsInOverTlsByItsConfiguration() throws Exception {
        try (Gateway secured = Gateway.secured("secret of alice")) {
            URI uri = URI.create("strait://localhost:" + secured.port());
            Configuration configuration = new Configuration();
            configuration.set("fs.strait.tls", secured.certificate().toString());
            configuration.set("fs.strait.user", "alice");
            configuration.set("fs.strait.password", "secret of alice");
            try (FileSystem files = FileSystem.newInstance(uri, configuration)) {
                files.create(new Path("/mine")).close();
                assertTrue(files.exists(new Path("/mine")));
            }
            configuration.set("fs.strait.password", "guessed");
            try (FileSystem files = FileSystem.newInstance(uri, configuration)) {
                Exception error =
                        assertThrows(
                                AccessControlException.class, () -> files.exists(new Path("/mine")));
                assertFalse(error.getMessage().contains("guessed"), error.getMessage());
            }
        }
    }

    @Test
    void onlyTheNamedGatewaysGetTheLogin() throws Exception {
        try (Gateway secured = Gateway.secured("secret of alice")) {
            String address = "localhost:" + secured.port();
            Configuration configuration = new Configuration();
            configuration.set("fs.strait.tls", secured.certificate().toString());
            configuration.set("fs.strait.user", "alice");
            configuration.set("fs.strait.password", "secret of alice");
            for (String others : new String[] {"", "other:9090", "localhost:1, localhost"}) {
                configuration.set("fs.strait.gateways", others);
                assertThrows(
                        AccessControlException.class, () -> rootOf(address, configuration), others);
            }
            configuration.set("fs.strait.gateways", "other:9090, LOCALHOST:" + secured.port());
            assertTrue(rootOf(address, configuration).isDirectory());
        }
    }

    private static FileStatus rootOf(String gateway, Configuration configuration) throws IOException {
        URI uri = URI.create("strait://" + gateway);
        try (FileSystem files = FileSystem.newInstance(uri, configuration)) {
            return files.getFileStatus(new Path("/"));
        }
    }

    @Test
    void anAddressWithAPasswordIsRefusedWithoutRepeatingIt() {
        URI uri = URI.create("strait://alice:secret@gateway:9090/");
        Exception error =
                assertThrows(
                        IOException.class,
                        () -> FileSystem.newInstance(uri, new Configuration()).close());
        assertFalse(error.getMessage().contains("secret"), error.getMessage());
    }

    @Test
    void aListingThatIsClosedEarlyTakesNothingFromOthers() throws Exception {
        FileSystem files = fileSystem(gateway);
        Path directory = new Path("/wide");
        for (int number = 0; number < MORE_THAN_A_PAGE; number++) {
            files.create(new Path(directory, "f" + number)).close();
        }
        RemoteIterator<FileStatus> all = files.listStatusIterator(directory);
        all.next();
        for (int number = 0; number < MORE_LISTINGS_THAN_A_GATEWAY_KEEPS; number++) {
            RemoteIterator<FileStatus> begun = files.listStatusIterator(directory);
            begun.next();
            RemoteIterators.cleanupRemoteIterator(begun);
        }
        int entries = 1;
        for (; all.hasNext(); all.next()) {
            entries++;
        }
        assertEquals(MORE_THAN_A_PAGE, entries);
        assertTrue(files.delete(directory, true));
    }

    @Test
    void aMissingFileIsNamed() throws Exception {
        FileSystem files = fileSystem(gateway);
        Path missing = new Path(gateway + "/missing");
        Exception error =
                assertThrows(FileNotFoundException.class, () -> files.open(missing).close());
        assertTrue(error.getMessage().contains("/missing"), error.getMessage());
    }

    @Test
    void kadoopTellsLocationsAndShowsFlushedBytes() throws Exception {
        try (Gateway kadoop = Gateway.kadoop();
                FileSystem files =
                        FileSystem.newInstance(URI.create(kadoop.address()), new Configuration())) {
            Path path = new Path("/file");
            try (FSDataOutputStream out =
                    files.create(path, true, 4096, files.getDefaultReplication(path), BLOCK)) {
                out.write(new byte[2 * BLOCK + 10]);
                out.hflush();
                try (FSDataInputStream in = files.open(path)) {
                    assertEquals(2 * BLOCK + 10, in.readAllBytes().length);
                }
                out.hsync();
            }
            BlockLocation[] blocks = files.getFileBlockLocations(path, 0, 2 * BLOCK + 10);
            assertEquals(3, blocks.length);
            assertTrue(blocks[0].getHosts().length > 0);
            assertEquals(BLOCK, files.getFileStatus(path).getBlockSize());
            assertTrue(files.truncate(path, 5));
            assertEquals(5, files.getFileStatus(path).getLen());
        }
    }
}
