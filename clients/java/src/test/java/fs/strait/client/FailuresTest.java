package fs.strait.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import fs.strait.client.internal.DfsError;
import fs.strait.client.internal.ErrorCode;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Exceptions by kind. */
class FailuresTest {
    private static final Map<ErrorKind, Class<? extends IOException>> NATIVE =
            Map.of(
                    ErrorKind.NOT_FOUND, NoSuchFileException.class,
                    ErrorKind.ALREADY_EXISTS, FileAlreadyExistsException.class,
                    ErrorKind.NOT_A_DIRECTORY, NotDirectoryException.class,
                    ErrorKind.NOT_EMPTY, DirectoryNotEmptyException.class,
                    ErrorKind.PERMISSION_DENIED, AccessDeniedException.class);

    @ParameterizedTest
    @EnumSource(ErrorKind.class)
    void eachKindHasItsExceptionWithPathAndReason(ErrorKind kind) {
        DfsError wire = new DfsError().setCode(kind.ordinal() + 1);
        IOException error = Failures.of(wire.setMessage("why").setPath("/p"));
        assertInstanceOf(NATIVE.getOrDefault(kind, StraitException.class), error);
        StraitFailure failure = assertInstanceOf(StraitFailure.class, error);
        assertEquals(kind, failure.kind());
        assertEquals("/p", failure.path());
        assertEquals(kind.usuallyRetrySafe, failure.retrySafe());
        assertEquals("/p: why", error.getMessage());
    }

    @Test
    void theKindsAreThoseOfTheProtocol() {
        assertEquals(ErrorCode.values().length, ErrorKind.values().length);
        for (ErrorCode code : ErrorCode.values()) {
            ErrorKind kind = ErrorKind.ofCode(code.getValue());
            assertEquals(code.name(), kind.name());
            assertEquals(code.name().replace("_", ""), kind.toString().toUpperCase());
        }
    }

    @Test
    void aCodeOfANewerGatewayIsAnErrorToo() {
        IOException error = Failures.of(new DfsError().setCode(99).setRetry_safe(true));
        assertEquals(ErrorKind.INTERNAL, ((StraitFailure) error).kind());
        assertTrue(((StraitFailure) error).retrySafe());
    }

    @Test
    void aFailureWithoutAPathIsSaidOfTheCallers() {
        IOException error = Failures.at("/p", Failures.of(ErrorKind.BUSY, "held", null));
        assertEquals("/p: held", error.getMessage());
        IOException named = Failures.at("/q", error);
        assertEquals("/p: held", named.getMessage());
    }
}
