package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import fs.strait.client.internal.AppendDataRequest;
import fs.strait.client.internal.AppendFileRequest;
import fs.strait.client.internal.CloseFileRequest;
import fs.strait.client.internal.ConcatFilesRequest;
import fs.strait.client.internal.CreateFileRequest;
import fs.strait.client.internal.MakeDirectoriesRequest;
import fs.strait.client.internal.RemovePathRequest;
import fs.strait.client.internal.RenamePathRequest;
import fs.strait.client.internal.SetAttributesRequest;
import fs.strait.client.internal.TruncateFileRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.thrift.TBase;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The wrapper's assumptions about the generated code. */
class GeneratedCodeTest {
    @Test
    void theCommittedCodeIsWhatTheInterfaceGives(@TempDir Path fresh)
            throws IOException, InterruptedException {
        Process generator =
                new ProcessBuilder("./generate.sh", fresh.toString()).inheritIO().start();
        assertEquals(0, generator.waitFor(), "generate.sh");
        assertEquals(
                sources(fresh),
                sources(Path.of("src/generated/java")),
                "clients/java/generate.sh mends it");
    }

    private static Map<Path, String> sources(Path root) throws IOException {
        Map<Path, String> sources = new TreeMap<>();
        try (Stream<Path> files = Files.walk(root).filter(Files::isRegularFile)) {
            files.forEach(file -> sources.put(root.relativize(file), text(file)));
        }
        return sources;
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Test
    void everyMutationTakesARequestId() {
        Stream<TBase<?, ?>> mutations =
                Stream.of(
                        new AppendDataRequest(),
                        new AppendFileRequest(),
                        new CloseFileRequest(),
                        new ConcatFilesRequest(),
                        new CreateFileRequest(),
                        new MakeDirectoriesRequest(),
                        new RemovePathRequest(),
                        new RenamePathRequest(),
                        new SetAttributesRequest(),
                        new TruncateFileRequest());
        mutations.forEach(
                request -> {
                    Mutation.of(request).retry(true);
                    assertEquals(true, FakeMethods.get(request, "is_retry"));
                });
    }
}
