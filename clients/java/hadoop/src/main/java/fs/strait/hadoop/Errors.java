package fs.strait.hadoop;

import fs.strait.client.StraitFailure;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.SocketTimeoutException;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.security.AccessControlException;

/** The exceptions that programs of Hadoop expect, by the kinds of a gateway's. */
final class Errors {
    private Errors() {}

    /** A call of the client. */
    interface Call<T> {
        T run() throws IOException;
    }

    static <T> T at(Path path, Call<T> call) throws IOException {
        try {
            return call.run();
        } catch (UncheckedIOException error) {
            throw hadoops(path, error.getCause());
        } catch (IOException error) {
            throw hadoops(path, error);
        }
    }

    static IOException hadoops(Path path, IOException error) {
        if (!(error instanceof StraitFailure failure)) {
            return error;
        }
        String message = path + ": " + error.getMessage();
        IOException theirs =
                switch (failure.kind()) {
                    case NOT_FOUND -> new FileNotFoundException(message);
                    case ALREADY_EXISTS, IS_A_DIRECTORY -> new FileAlreadyExistsException(message);
                    case NOT_A_DIRECTORY -> new ParentNotDirectoryException(message);
                    case NOT_EMPTY -> new PathIsNotEmptyDirectoryException(path.toString());
                    case PERMISSION_DENIED, UNAUTHENTICATED -> new AccessControlException(message);
                    case TIMED_OUT -> new SocketTimeoutException(message);
                    default -> null;
                };
        if (theirs == null) {
            return error; // its message and path are there already
        }
        theirs.initCause(error);
        return theirs;
    }
}
