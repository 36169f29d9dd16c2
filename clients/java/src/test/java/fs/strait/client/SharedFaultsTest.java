package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The faults of every client language: clients/conformance/README.md has their rules. */
@Timeout(value = 5, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SharedFaultsTest {
    @Test
    void theSharedFaultsEndAsTheirFileSays() throws IOException, InterruptedException {
        Path python = Gateways.REPOSITORY.resolve(".venv/bin/python");
        Gateways.needs(Files.exists(python), "Python in .venv");
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        String classes = System.getProperty("java.class.path");
        ProcessBuilder runner =
                new ProcessBuilder(
                                python.toString(),
                                Gateways.REPOSITORY
                                        .resolve("tests/languages/shared_faults.py")
                                        .toString(),
                                java.toString(),
                                "-Xmx512m",
                                "-XX:TieredStopAtLevel=1",
                                "-cp",
                                classes,
                                Driver.class.getName())
                        .redirectErrorStream(true);
        runner.environment().put("STRAIT_BIN", Gateways.command().toString());
        Process process = runner.start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        List<String> lines = output.lines().toList();
        System.out.println(lines.get(lines.size() - 1));
    }
}
