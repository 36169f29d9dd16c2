package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs one case of clients/conformance/cases.json through the client; its format and rules are in
 * the README there.
 */
final class CaseRun implements AutoCloseable {
    private static final Set<String> PATHS = Set.of("path", "source", "target");

    private final String address;
    private final ConnectOptions options;
    private final StraitClient client;
    private final Map<String, Session> others = new HashMap<>();
    private final String directory;
    private final Bytes bytes = new Bytes();
    private final Map<String, Long> saved = new HashMap<>();

    CaseRun(String address, String directory, ConnectOptions options) throws IOException {
        this.address = address;
        this.options = options;
        this.directory = directory;
        this.client = StraitClient.connect(address, options);
    }

    Set<String> capabilities() {
        return client.store().capabilities();
    }

    void run(JsonArray steps) throws IOException {
        client.mkdirs(directory);
        CaseSteps operations = new CaseSteps(client, bytes);
        try {
            for (JsonElement step : steps) {
                run(new Step(step.getAsJsonObject().deepCopy()), operations);
            }
        } finally {
            operations.closeFiles();
            client.removeAll(directory);
        }
    }

    private void run(Step step, CaseSteps operations) throws IOException {
        String shown = step.toString();
        JsonObject expected = step.takeObject("error");
        try {
            if (step.op().equals("request")) {
                request(step);
            } else {
                operations.run(step);
            }
        } catch (IOException failure) {
            assertNotNull(expected, () -> shown + "\n  failed: " + failure);
            assertExpected(shown, expected, failure);
            return;
        } catch (AssertionError failure) {
            throw new AssertionError(shown + "\n  " + failure.getMessage(), failure);
        }
        step.assertAllTaken();
        assertTrue(expected == null, () -> shown + "\n  succeeded");
    }

    private void assertExpected(String shown, JsonObject expected, IOException failure) {
        StraitFailure typed = (StraitFailure) failure;
        Set<String> kinds = new HashSet<>();
        JsonElement kind = expected.get("kind");
        if (kind.isJsonArray()) {
            kind.getAsJsonArray().forEach(one -> kinds.add(one.getAsString()));
        } else {
            kinds.add(kind.getAsString());
        }
        assertTrue(
                kinds.contains(typed.kind().toString()),
                () -> shown + "\n  failed as " + typed.kind() + ": " + failure);
        if (expected.has("path")) {
            assertEquals(directory + expected.get("path").getAsString(), typed.path(), shown);
        }
    }

    // -- Requests as they stand, below the client

    private void request(Step step) throws IOException {
        String method = step.takeText("method");
        JsonObject args = step.takeObject("args");
        JsonObject expect = step.takeObject("expect");
        JsonObject save = step.takeObject("save");
        String name = step.takeText("client");
        Map<String, Object> fields = new HashMap<>();
        args.entrySet().forEach(field -> fields.put(field.getKey(), value(field)));
        Session session = name == null ? own() : other(name);
        Map<String, Object> reply = session.once(session.deadline(), c -> RawRequest.send(c, method, fields));
        if (expect != null) {
            for (Map.Entry<String, JsonElement> field : expect.entrySet()) {
                assertSame(field.getKey(), value(field), reply.get(field.getKey()));
            }
        }
        if (save != null) {
            for (Map.Entry<String, JsonElement> field : save.entrySet()) {
                saved.put(field.getValue().getAsString(), (Long) reply.get(field.getKey()));
            }
        }
    }

    private Session own() throws IOException {
        return other("");
    }

    private Session other(String name) throws IOException {
        Session session = others.get(name);
        if (session == null) {
            StraitUri parsed = StraitUri.parseAddress(address);
            session = new Session(parsed.host(), parsed.port(), options);
            others.put(name, session);
        }
        return session;
    }

    private Object value(Map.Entry<String, JsonElement> field) {
        JsonElement value = field.getValue();
        if (PATHS.contains(field.getKey())) {
            return directory + value.getAsString();
        }
        if (value.isJsonObject()) {
            return ByteBuffer.wrap(bytes.of(value.getAsJsonObject()));
        }
        if (value.getAsJsonPrimitive().isBoolean()) {
            return value.getAsBoolean();
        }
        if (value.getAsJsonPrimitive().isString() && value.getAsString().startsWith("$")) {
            return saved.get(value.getAsString().substring(1));
        }
        return value.getAsJsonPrimitive().isNumber() ? value.getAsLong() : value.getAsString();
    }

    private static void assertSame(String name, Object expected, Object got) {
        if (expected instanceof Long number) {
            assertEquals(number.longValue(), ((Number) got).longValue(), name);
        } else {
            assertEquals(expected, got, name);
        }
    }

    @Override
    public void close() {
        others.values().forEach(Session::close);
        client.close();
    }

    /** A step's keys. Each is taken once, so that an unknown key is detected. */
    final class Step {
        private final JsonObject object;
        private final String op;
        private final String shown;

        Step(JsonObject object) {
            this.object = object;
            this.shown = object.toString();
            this.op = takeText("op");
            JsonElement absolute = object.remove("absolute");
            if (absolute == null || !absolute.getAsBoolean()) {
                for (String key : PATHS) {
                    if (object.has(key)) {
                        object.addProperty(key, directory + object.get(key).getAsString());
                    }
                }
            }
        }

        String op() {
            return op;
        }

        String takeText(String key) {
            JsonElement value = object.remove(key);
            return value == null ? null : value.getAsString();
        }

        /** The key's path, in the case's directory. */
        String takePath(String key) {
            return directory + takeText(key);
        }

        /** The paths of an array, in the case's directory. */
        List<String> takePaths(String key) {
            List<String> paths = new ArrayList<>();
            object.remove(key).getAsJsonArray().forEach(path -> paths.add(directory + path.getAsString()));
            return paths;
        }

        Long takeNumber(String key) {
            JsonElement value = object.remove(key);
            return value == null ? null : value.getAsLong();
        }

        Integer takeOctal(String key) {
            String digits = takeText(key);
            return digits == null ? null : Integer.valueOf(digits, 8);
        }

        boolean takeBoolean(String key) {
            JsonElement value = object.remove(key);
            return value != null && value.getAsBoolean();
        }

        JsonElement take(String key) {
            return object.remove(key);
        }

        JsonObject takeObject(String key) {
            JsonElement value = object.remove(key);
            return value == null ? null : value.getAsJsonObject();
        }

        void assertAllTaken() {
            assertTrue(object.keySet().isEmpty(), () -> "unknown keys in " + shown);
        }

        @Override
        public String toString() {
            return shown;
        }
    }
}
