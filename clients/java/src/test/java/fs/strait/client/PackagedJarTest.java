package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jar as it is packaged: alone, and beside another version of Thrift's runtime. */
class PackagedJarTest {
    private static final String PROGRAM =
            """
            import fs.strait.client.*;
            import java.io.*;

            public class Program {
                public static void main(String[] arguments) throws Exception {
                    try (StraitClient client = StraitClient.connect(arguments[0])) {
                        try (OutputStream file = client.newOutputStream(arguments[1])) {
                            file.write("there and back".getBytes());
                        }
                        try (InputStream file = client.newInputStream(arguments[1])) {
                            System.out.print(new String(file.readAllBytes()));
                        }
                        client.remove(arguments[1]);
                    }
                    THEIRS
                }
            }
            """;
    // Exists only in the other version: 0.25 has no such constructor.
    private static final String THEIRS =
            "new org.apache.thrift.protocol.TBinaryProtocol("
                    + "new org.apache.thrift.transport.TMemoryBuffer(8)).writeI32(7);"
                    + " System.out.print(\" by \" + org.apache.thrift.TBaseHelper.class"
                    + ".getProtectionDomain().getCodeSource().getLocation());";

    private static final Path JAR = Path.of(System.getProperty("strait.jar"));
    private static final Path OTHER_THRIFT = Path.of(System.getProperty("strait.other-thrift"));

    @TempDir Path scratch;

    @Test
    void nothingOfThriftsOwnNamesIsInTheJar() throws IOException {
        try (JarFile jar = new JarFile(JAR.toFile())) {
            assertTrue(jar.stream().noneMatch(each -> each.getName().startsWith("org/apache/")));
            assertTrue(jar.getEntry("fs/strait/client/internal/thrift/TBase.class") != null);
        }
        String pom = Files.readString(JAR.resolveSibling("dependency-reduced-pom.xml"));
        assertFalse(pom.contains("libthrift</artifactId>\n      <version>0.25"), pom);
    }

    @Test
    void theJarAloneMakesARoundTrip() throws IOException, InterruptedException {
        assertEquals("there and back", run("", JAR.toString()));
    }

    @Test
    void theJarMakesARoundTripBesideAnotherVersionOfThrift()
            throws IOException, InterruptedException {
        for (List<Path> order : List.of(List.of(OTHER_THRIFT, JAR), List.of(JAR, OTHER_THRIFT))) {
            String said = run(THEIRS, order.get(0) + File.pathSeparator + order.get(1));
            assertEquals("there and back by " + OTHER_THRIFT.toUri().toString().replace("///", "/"), said);
        }
    }

    private String run(String theirs, String classPath) throws IOException, InterruptedException {
        Path program = scratch.resolve("Program.java");
        Files.writeString(program, PROGRAM.replace("THEIRS", theirs));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        try (Gateways.Gateway gateway = Gateways.start("file")) {
            Process process =
                    new ProcessBuilder(
                                    java,
                                    "-cp",
                                    classPath,
                                    program.toString(),
                                    gateway.address(),
                                    gateway.root())
                            .redirectError(scratch.resolve("errors").toFile())
                            .start();
            String said = new String(process.getInputStream().readAllBytes());
            assertEquals(0, process.waitFor(), Files.readString(scratch.resolve("errors")));
            return said;
        }
    }
}
