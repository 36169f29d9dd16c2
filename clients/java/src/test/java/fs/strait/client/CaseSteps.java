package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** The steps of a case that go through the client's own interface. */
final class CaseSteps {
    private final StraitClient client;
    private final Bytes bytes;
    private final Map<String, StraitChannel> files = new HashMap<>();

    CaseSteps(StraitClient client, Bytes bytes) {
        this.client = client;
        this.bytes = bytes;
    }

    void run(CaseRun.Step step) throws IOException {
        switch (step.op()) {
            case "write" -> write(step);
            case "read" -> read(step);
            case "open" -> open(step);
            case "read_next" -> readNext(step);
            case "read_at" -> readAt(step);
            case "append" -> file(step).write(ByteBuffer.wrap(takeBytes(step)));
            case "position" -> assertEquals(step.takeNumber("expect"), file(step).position());
            case "flush" -> flush(step);
            case "close" -> files.remove(step.takeText("file")).close();
            case "stat" -> stat(step);
            case "exists" ->
                    assertEquals(step.takeBoolean("expect"), client.exists(step.takeText("path")));
            case "list" -> list(step);
            case "mkdirs" -> mkdirs(step);
            case "rename" -> rename(step);
            case "remove" -> remove(step);
            case "set_attributes" -> setAttributes(step);
            case "truncate" ->
                    client.truncate(step.takeText("path"), step.takeNumber("length"));
            case "concat" ->
                    client.concat(step.takeText("path"), step.takePaths("sources"));
            case "put" -> put(step);
            case "locate" -> locate(step);
            case "checksum" -> checksum(step);
            case "status" -> status();
            default -> throw new AssertionError("unknown op " + step.op());
        }
    }

    void closeFiles() throws IOException {
        for (StraitChannel file : files.values()) {
            file.close();
        }
    }

    private StraitChannel file(CaseRun.Step step) {
        return files.get(step.takeText("file"));
    }

    private byte[] takeBytes(CaseRun.Step step) {
        return bytes.of(step.takeObject("bytes"));
    }

    private void assertBytes(JsonObject expected, byte[] got) {
        // Not with assertArrayEquals, whose report would print megabytes.
        assertTrue(
                Arrays.equals(bytes.of(expected), got),
                () -> "other bytes, " + got.length + " of them");
    }

    private static OpenOption[] options(String mode, Integer permission) {
        List<OpenOption> options = new ArrayList<>();
        switch (mode) {
            case "read" -> options.add(StandardOpenOption.READ);
            case "create" -> options.add(StandardOpenOption.CREATE_NEW);
            case "overwrite" ->
                    Collections.addAll(
                            options,
                            StandardOpenOption.CREATE,
                            StandardOpenOption.TRUNCATE_EXISTING);
            case "append" -> options.add(StandardOpenOption.APPEND);
            default -> throw new AssertionError("unknown mode " + mode);
        }
        if (permission != null) {
            options.add(CreateOption.permission(permission));
        }
        return options.toArray(new OpenOption[0]);
    }

    private void write(CaseRun.Step step) throws IOException {
        byte[] data = takeBytes(step);
        Long piece = step.takeNumber("piece");
        int size = piece == null ? Math.max(1, data.length) : piece.intValue();
        OpenOption[] options = options(step.takeText("mode"), step.takeOctal("permission"));
        try (StraitOutputStream file = client.newOutputStream(step.takeText("path"), options)) {
            for (int done = 0; done < data.length; done += size) {
                file.write(data, done, Math.min(size, data.length - done));
            }
        }
    }

    private void read(CaseRun.Step step) throws IOException {
        JsonObject expect = step.takeObject("expect");
        try (InputStream file = client.newInputStream(step.takeText("path"))) {
            byte[] got = file.readAllBytes();
            if (expect != null) {
                assertBytes(expect, got);
            }
        }
    }

    private void open(CaseRun.Step step) throws IOException {
        String name = step.takeText("file");
        OpenOption[] options = options(step.takeText("mode"), null);
        files.put(name, client.newByteChannel(step.takeText("path"), options));
    }

    private void readNext(CaseRun.Step step) throws IOException {
        StraitChannel file = file(step);
        ByteBuffer target = ByteBuffer.allocate(step.takeNumber("length").intValue());
        while (target.hasRemaining() && file.read(target) >= 0) {
            // Continue until the length or the end.
        }
        assertBytes(step.takeObject("expect"), Arrays.copyOf(target.array(), target.position()));
    }

    private void readAt(CaseRun.Step step) throws IOException {
        StraitChannel file = file(step);
        ByteBuffer target = ByteBuffer.allocate(step.takeNumber("length").intValue());
        file.read(target, step.takeNumber("offset"));
        assertBytes(step.takeObject("expect"), Arrays.copyOf(target.array(), target.position()));
    }

    private void flush(CaseRun.Step step) throws IOException {
        StraitChannel file = file(step);
        switch (step.takeText("mode")) {
            case "flush" -> file.flush();
            case "sync" -> file.sync();
            default -> throw new AssertionError("unknown mode in " + step);
        }
    }

    private void stat(CaseRun.Step step) throws IOException {
        FileInfo info = client.stat(step.takeText("path"));
        JsonObject expect = step.takeObject("expect");
        if (expect == null) {
            return;
        }
        for (Map.Entry<String, JsonElement> field : expect.entrySet()) {
            Object got =
                    switch (field.getKey()) {
                        case "type" -> info.isDirectory() ? "directory" : "file";
                        case "permission" -> Integer.toOctalString(info.permission());
                        case "length" -> info.length();
                        case "replication" -> info.replication();
                        case "modified_ms" -> info.modified().toEpochMilli();
                        case "accessed_ms" -> info.accessed().toEpochMilli();
                        default -> throw new AssertionError("unknown field " + field.getKey());
                    };
            assertEquals(field.getValue().getAsString(), got.toString(), field.getKey());
        }
    }

    private void list(CaseRun.Step step) throws IOException {
        Long page = step.takeNumber("page");
        List<String> expected = names(step.take("expect"));
        String path = step.takeText("path");
        try (Stream<FileInfo> entries =
                page == null ? client.list(path) : client.list(path, page.intValue())) {
            List<String> got = entries.map(FileInfo::name).sorted().toList();
            assertEquals(expected, got);
        }
    }

    private static List<String> names(JsonElement expect) {
        Stream<String> names = Stream.empty();
        if (expect != null && expect.isJsonObject()) {
            String prefix = expect.getAsJsonObject().get("prefix").getAsString();
            int count = expect.getAsJsonObject().get("count").getAsInt();
            names = IntStream.range(0, count).mapToObj(n -> prefix + n);
        } else if (expect != null) {
            names = expect.getAsJsonArray().asList().stream().map(JsonElement::getAsString);
        }
        return names.sorted().toList();
    }

    private void mkdirs(CaseRun.Step step) throws IOException {
        String path = step.takeText("path");
        Integer permission = step.takeOctal("permission");
        Long count = step.takeNumber("count");
        for (int n = 0; n < (count == null ? 1 : count); n++) {
            String one = count == null ? path : path + n;
            if (permission == null) {
                client.mkdirs(one);
            } else {
                client.mkdirs(one, permission);
            }
        }
    }

    private void rename(CaseRun.Step step) throws IOException {
        String source = step.takeText("source");
        String target = step.takeText("target");
        if (step.takeBoolean("replace")) {
            client.replace(source, target);
        } else {
            client.rename(source, target);
        }
    }

    private void remove(CaseRun.Step step) throws IOException {
        String path = step.takeText("path");
        if (step.takeBoolean("recursive")) {
            client.removeAll(path);
        } else {
            client.remove(path);
        }
    }

    private void put(CaseRun.Step step) throws IOException {
        Path scratch = Files.createTempDirectory("strait-case");
        Path local = Files.write(scratch.resolve(step.takeText("name")), takeBytes(step));
        CopyOption[] options =
                step.takeBoolean("replace")
                        ? new CopyOption[] {StandardCopyOption.REPLACE_EXISTING}
                        : new CopyOption[0];
        try {
            client.put(local, step.takeText("path"), options);
        } finally {
            Files.delete(local);
            Files.delete(scratch);
        }
    }

    private void setAttributes(CaseRun.Step step) throws IOException {
        Attributes attributes = Attributes.none();
        Integer permission = step.takeOctal("permission");
        if (permission != null) {
            attributes = attributes.permission(permission);
        }
        Long replication = step.takeNumber("replication");
        if (replication != null) {
            attributes = attributes.replication(replication.intValue());
        }
        Long modified = step.takeNumber("modified_ms");
        if (modified != null) {
            attributes = attributes.modified(Instant.ofEpochMilli(modified));
            attributes =
                    attributes.accessed(Instant.ofEpochMilli(step.takeNumber("accessed_ms")));
        }
        client.setAttributes(step.takeText("path"), attributes);
    }

    private void locate(CaseRun.Step step) throws IOException {
        String path = step.takeText("path");
        Long offset = step.takeNumber("offset");
        Long length = step.takeNumber("length");
        JsonObject expect = step.takeObject("expect");
        List<BlockLocation> blocks =
                offset == null && length == null
                        ? client.locate(path)
                        : client.locate(path, offset == null ? 0 : offset, length);
        if (expect == null) {
            return;
        }
        if (expect.has("none")) {
            assertEquals(List.of(), blocks);
            return;
        }
        long end = blocks.get(0).offset();
        assertTrue(end <= expect.get("from").getAsLong(), "begins too late");
        for (BlockLocation block : blocks) {
            assertEquals(end, block.offset(), "a gap");
            assertTrue(block.length() > 0 && !block.hosts().isEmpty(), "a block on no host");
            end += block.length();
        }
        assertTrue(end >= expect.get("to").getAsLong(), "ends too early");
    }

    private void checksum(CaseRun.Step step) throws IOException {
        Checksum one = client.checksum(step.takeText("path"));
        Checksum other = client.checksum(step.takePath("other"));
        assertEquals(step.takeBoolean("expect"), one.equals(other));
    }

    private void status() throws IOException {
        StoreStatus status = client.status();
        assertTrue(0 <= status.used() && status.used() <= status.capacity(), "used");
        assertTrue(0 <= status.remaining() && status.remaining() <= status.capacity(), "remaining");
    }
}
