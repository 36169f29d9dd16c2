package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.abort;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicNode;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The cases of all client languages, over each wire of this client, on every available store. */
class ConformanceTest {
    private static final Path CASES =
            Gateways.REPOSITORY.resolve("clients/conformance/cases.json");

    private static final Map<String, Gateways.Gateway> GATEWAYS = new TreeMap<>();
    private static final Map<String, Integer> RAN = new TreeMap<>();
    private static final Map<String, Map<String, Integer>> SKIPPED = new TreeMap<>();

    @BeforeAll
    static void startGateways() throws IOException, InterruptedException {
        for (String store : Gateways.stores()) {
            GATEWAYS.put(store, Gateways.start(store));
        }
    }

    @AfterAll
    static void stopGatewaysAndTellCounts() throws IOException {
        for (String store : GATEWAYS.keySet()) {
            Map<String, Integer> reasons = SKIPPED.getOrDefault(store, Map.of());
            int skipped = reasons.values().stream().mapToInt(Integer::intValue).sum();
            StringBuilder line = new StringBuilder("conformance Java %s: %d run, %d skipped"
                    .formatted(store, RAN.getOrDefault(store, 0), skipped));
            reasons.forEach(
                    (name, count) -> line.append(", %d for lack of %s".formatted(count, name)));
            System.out.println(line);
        }
        for (Gateways.Gateway gateway : GATEWAYS.values()) {
            gateway.close();
        }
    }

    @TestFactory
    Stream<DynamicNode> cases() throws IOException {
        List<JsonObject> cases = load();
        return GATEWAYS.keySet().stream()
                .flatMap(store -> Stream.of(Wire.values()).map(wire -> tests(store, wire, cases)));
    }

    private static DynamicNode tests(String store, Wire wire, List<JsonObject> cases) {
        return DynamicContainer.dynamicContainer(
                store + " " + wire,
                cases.stream()
                        .map(one -> DynamicTest.dynamicTest(
                                one.get("name").getAsString(), () -> run(store, wire, one))));
    }

    private static void run(String store, Wire wire, JsonObject one) throws IOException {
        Gateways.Gateway gateway = GATEWAYS.get(store);
        String directory = gateway.root() + "/" + UUID.randomUUID();
        ConnectOptions options = ConnectOptions.defaults().wire(wire);
        try (CaseRun run = new CaseRun(gateway.address(), directory, options)) {
            TreeSet<String> lacking = new TreeSet<>();
            if (one.has("needs")) {
                one.getAsJsonArray("needs").forEach(name -> lacking.add(name.getAsString()));
            }
            lacking.removeAll(run.capabilities());
            if (!lacking.isEmpty()) {
                SKIPPED.computeIfAbsent(store, any -> new TreeMap<>())
                        .merge(lacking.first(), 1, Integer::sum);
                abort("the store " + store + " declares no " + lacking);
            }
            RAN.merge(store, 1, Integer::sum);
            run.run(one.getAsJsonArray("steps"));
        }
    }

    private static List<JsonObject> load() throws IOException {
        try (Reader file = Files.newBufferedReader(CASES)) {
            JsonObject document = JsonParser.parseReader(file).getAsJsonObject();
            assertEquals(1, document.get("format").getAsInt());
            List<JsonObject> cases = new ArrayList<>();
            for (JsonElement one : document.getAsJsonArray("cases")) {
                cases.add(one.getAsJsonObject());
            }
            return cases;
        }
    }

    @Test
    void thePatternsOfTheCasesAreAsDocumented() {
        assertArrayEquals(new byte[] {7, 8, 9}, Bytes.pattern(7, 0, 3));
        byte[] far = Bytes.pattern(7, 20_000, 1_000);
        for (int i = 20_000; i < 21_000; i++) {
            assertEquals((byte) (7 + i + i / 251), far[i - 20_000]);
        }
    }

    @Test
    void aStepThatFailsOtherwiseThanExpectedFailsItsCase() throws IOException {
        Gateways.Gateway gateway = GATEWAYS.get("file");
        String directory = gateway.root() + "/" + UUID.randomUUID();
        try (CaseRun run =
                new CaseRun(gateway.address(), directory, ConnectOptions.defaults())) {
            run.run(steps("{op: stat, path: '/f', error: {kind: NotFound, path: '/f'}}"));
            for (String wrong :
                    List.of(
                            "{op: stat, path: '/f'}",
                            "{op: stat, path: '/f', error: {kind: Busy}}",
                            "{op: stat, path: '/f', error: {kind: NotFound, path: '/g'}}",
                            "{op: stat, path: '', error: {kind: NotFound}}",
                            "{op: exists, path: '/f', expect: false, unknown: 1}",
                            "{op: nonsense}")) {
                assertThrows(AssertionError.class, () -> run.run(steps(wrong)), wrong);
            }
        }
    }

    private static JsonArray steps(String step) {
        return JsonParser.parseString("[" + step + "]").getAsJsonArray();
    }
}
