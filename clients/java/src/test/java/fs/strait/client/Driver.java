package fs.strait.client;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Answers the requests of tests/languages/driver.py that faults consist of. */
final class Driver {
    /** A file open for reading, by both of its interfaces. */
    private record OpenFile(InputStream stream, StraitChannel channel) implements AutoCloseable {
        @Override
        public void close() throws IOException {
            try (stream;
                    channel) {
                // Both, also if one fails.
            }
        }
    }

    private final Map<String, StraitClient> clients = new HashMap<>();
    private final Map<String, OpenFile> readers = new HashMap<>();
    private final Map<String, StraitOutputStream> writers = new HashMap<>();
    private StraitClient client;

    private Driver() {}

    public static void main(String[] arguments) throws IOException {
        DataInputStream source = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream target = new DataOutputStream(new BufferedOutputStream(System.out));
        Driver driver = new Driver();
        for (; ; ) {
            List<byte[]> request = new ArrayList<>();
            try {
                for (int left = source.readInt(); left > 0; left--) {
                    request.add(source.readNBytes(source.readInt()));
                }
            } catch (EOFException end) {
                return;
            }
            List<Object> answer = driver.answer(request);
            target.writeInt(answer.size());
            for (Object part : answer) {
                byte[] bytes =
                        part instanceof byte[] given
                                ? given
                                : part.toString().getBytes(StandardCharsets.UTF_8);
                target.writeInt(bytes.length);
                target.write(bytes);
            }
            target.flush();
        }
    }

    private List<Object> answer(List<byte[]> request) throws IOException {
        List<Object> answer = new ArrayList<>(List.of("ok"));
        List<String> texts =
                request.stream().map(part -> new String(part, StandardCharsets.UTF_8)).toList();
        try {
            answer.addAll(perform(texts.get(0), texts.subList(1, texts.size()), request));
        } catch (IOException error) {
            if (!(error instanceof StraitFailure failure)) {
                throw error;
            }
            String path = failure.path() == null ? "" : failure.path();
            String name = error.getClass().getName();
            return List.of("error", failure.kind(), path, error.getMessage(), name);
        }
        return answer;
    }

    private List<?> perform(String operation, List<String> given, List<byte[]> request)
            throws IOException {
        String first = given.get(0);
        switch (operation) {
            case "connect" -> {
                Duration timeout = Duration.ofMillis(Long.parseLong(given.get(2)));
                client =
                        StraitClient.connect(
                                given.get(1), ConnectOptions.defaults().timeout(timeout));
                clients.put(first, client);
                return List.of(String.join(",", client.store().capabilities()));
            }
            case "use" -> client = clients.get(first);
            case "disconnect" -> clients.remove(first).close();
            case "open" -> open(first, given.get(1), given.get(2));
            case "read" -> {
                int length = Integer.parseInt(given.get(1));
                InputStream stream = readers.get(first).stream();
                return List.of(length < 0 ? stream.readAllBytes() : stream.readNBytes(length));
            }
            case "pread" -> {
                ByteBuffer part = ByteBuffer.allocate(Integer.parseInt(given.get(2)));
                readers.get(first).channel().read(part, Long.parseLong(given.get(1)));
                byte[] bytes = new byte[part.flip().remaining()];
                part.get(bytes);
                return List.of(bytes);
            }
            case "write" -> writers.get(first).write(request.get(2));
            case "flush" -> writers.get(first).flush();
            case "close" -> close(first);
            case "stat" -> {
                FileInfo info = client.stat(first);
                return List.of(
                        info.isFile() ? "file" : "directory",
                        info.length(),
                        info.permission(),
                        info.replication(),
                        info.modified().toEpochMilli(),
                        info.accessed().toEpochMilli());
            }
            case "exists" -> {
                return List.of(client.exists(first) ? 1 : 0);
            }
            case "list" -> {
                return list(first, given.get(1));
            }
            case "mkdirs" -> client.mkdirs(first);
            case "rename" -> {
                if (given.get(2).equals("1")) {
                    client.replace(first, given.get(1));
                } else {
                    client.rename(first, given.get(1));
                }
            }
            case "remove" -> {
                if (given.get(1).equals("1")) {
                    client.removeAll(first);
                } else {
                    client.remove(first);
                }
            }
            default -> throw new AssertionError("no operation " + operation);
        }
        return List.of();
    }

    private void open(String name, String path, String mode) throws IOException {
        switch (mode) {
            case "read" ->
                    readers.put(
                            name,
                            new OpenFile(client.newInputStream(path), client.newByteChannel(path)));
            case "create" ->
                    writers.put(name, client.newOutputStream(path, StandardOpenOption.CREATE_NEW));
            case "overwrite" -> writers.put(name, client.newOutputStream(path));
            case "append" ->
                    writers.put(name, client.newOutputStream(path, StandardOpenOption.APPEND));
            default -> throw new AssertionError("no mode " + mode);
        }
    }

    private void close(String name) throws IOException {
        OpenFile reader = readers.get(name);
        if (reader != null) {
            reader.close();
        } else {
            writers.get(name).close();
        }
    }

    private List<String> list(String path, String page) throws IOException {
        try (Stream<FileInfo> entries =
                page.isEmpty() ? client.list(path) : client.list(path, Integer.parseInt(page))) {
            return entries.map(FileInfo::name).collect(Collectors.toList());
        } catch (UncheckedIOException error) {
            throw error.getCause();
        }
    }
}
