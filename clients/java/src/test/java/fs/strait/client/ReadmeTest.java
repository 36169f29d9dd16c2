package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The code of README.md compiles and runs. */
class ReadmeTest {
    private static final Pattern CODE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    @Test
    void theCodeOfTheReadmeRuns(@TempDir Path directory) throws Exception {
        try (Gateways.Gateway gateway = Gateways.start("file")) {
            String code =
                    CODE.matcher(Files.readString(Path.of("README.md")))
                            .results()
                            .map(block -> block.group(1))
                            .collect(Collectors.joining())
                            .replace("strait://127.0.0.1:9090/", gateway.address())
                            .replace("/example-java", gateway.root() + "/example-java")
                            .replace("Path.of(\"", "Path.of(\"" + directory + "/");
            run(directory, code);
        }
        assertFalse(Files.exists(directory.resolve("numbers.txt")), "it cleans up, and so runs again");
    }

    private static void run(Path directory, String code) throws Exception {
        List<String> imports =
                Pattern.compile("^import .*;$", Pattern.MULTILINE)
                        .matcher(code)
                        .results()
                        .map(MatchResult::group)
                        .toList();
        String body = code.replaceAll("(?m)^import .*;$", "");
        String program =
                """
                %s
                public class Readme {
                    public static void main(String[] arguments) throws Exception {
                        %s
                    }
                }
                """
                        .formatted(String.join("\n", imports), body);
        Path source = Files.writeString(directory.resolve("Readme.java"), program);
        compile(source, directory);
        URL[] classes = {directory.toUri().toURL()};
        try (URLClassLoader loader = new URLClassLoader(classes)) {
            Object none = new String[0];
            loader.loadClass("Readme").getMethod("main", String[].class).invoke(null, none);
        }
    }

    private static void compile(Path source, Path target) throws IOException {
        int status =
                ToolProvider.getSystemJavaCompiler()
                        .run(
                                null,
                                null,
                                null,
                                "-d",
                                target.toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                source.toString());
        assertTrue(status == 0, () -> "README.md doesn't compile");
    }
}
