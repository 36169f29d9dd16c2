package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** URIs: the cases of all client languages, and the parsing of addresses. */
class UrisTest {
    static Stream<JsonObject> cases() throws IOException {
        Path file = Gateways.REPOSITORY.resolve("clients/conformance/cases.json");
        JsonElement uris = JsonParser.parseString(Files.readString(file)).getAsJsonObject().get("uris");
        return StreamSupport.stream(uris.getAsJsonArray().spliterator(), false)
                .map(JsonElement::getAsJsonObject);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void aUriHasThePartsThatEveryClientFinds(JsonObject expected) {
        JsonObject found = new JsonObject();
        String text = expected.get("uri").getAsString();
        found.addProperty("uri", text);
        try {
            StraitUri uri = StraitUri.parse(text);
            found.addProperty("host", uri.host());
            found.addProperty("port", uri.port());
            String store = uri.store();
            found.add("store", store == null ? JsonNull.INSTANCE : new JsonPrimitive(store));
            found.addProperty("path", uri.path());
        } catch (IOException error) {
            found.addProperty("error", ((StraitFailure) error).kind().toString());
            String message = error.getMessage().replace("user and password", "");
            assertFalse(message.contains("password"), message);
            JsonElement says = expected.get("says");
            if (says != null) {
                assertTrue(message.contains(says.getAsString()), message);
                found.add("says", says);
            }
        }
        assertEquals(expected, found);
    }

    @ParameterizedTest
    @ValueSource(strings = {"strait://gw/@lab/a", "strait://[::1]:1/@@lab", "strait://gw:7/a"})
    void theGatewayOfAUriIsAnAddressOfTheSameStore(String text) throws IOException {
        StraitUri uri = StraitUri.parse(text);
        assertEquals(
                new StraitUri(uri.host(), uri.port(), uri.store(), "/"),
                StraitUri.parse(uri.gateway()));
    }

    @Test
    void anAddressHasNoPathAndNamesOneStoreAtMost() {
        ConnectOptions archive = ConnectOptions.defaults().store("archive");
        for (String address : List.of("strait://gw/a", "strait://gw/@lab")) {
            StraitException error =
                    assertThrows(
                            StraitException.class, () -> StraitClient.connect(address, archive));
            assertEquals(ErrorKind.INVALID_ARGUMENT, error.kind());
            assertTrue(error.getMessage().matches("(?s).*(no path|give one).*"), error.toString());
        }
    }

    @Test
    void aUriReachesTheStoreThatItNames(@TempDir Path main, @TempDir Path lab)
            throws IOException, InterruptedException {
        Files.createDirectory(main.resolve("@lab"));
        Files.writeString(main.resolve("file"), "main");
        Files.writeString(main.resolve("@lab/file"), "a directory named @lab");
        Files.writeString(lab.resolve("file"), "lab");
        List<String> stores = List.of("--store", "lab=" + lab.toUri());
        Map<String, String> contents =
                Map.of(
                        "file", "main",
                        "@lab/file", "lab",
                        "@@lab/file", "a directory named @lab");
        try (Gateways.Gateway gateway = Gateways.over(main, stores)) {
            for (Map.Entry<String, String> each : contents.entrySet()) {
                StraitUri uri = StraitUri.parse(gateway.address() + each.getKey());
                try (StraitClient client = StraitClient.connect(uri.gateway());
                        InputStream file = client.newInputStream(uri.path())) {
                    assertEquals(each.getValue(), new String(file.readAllBytes()));
                }
            }
        }
    }
}
