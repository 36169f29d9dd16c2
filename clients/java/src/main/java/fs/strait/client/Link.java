package fs.strait.client;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;

/** A connection as bytes, in the clear or not; its calls wait, with a limit. */
interface Link {
    /** Whatever is received and sent from now on is over by then, however many waits that takes. */
    void waitUntil(Deadline deadline);

    /** At least one byte into `target`, which has room for one. */
    int receive(ByteBuffer target) throws IOException;

    /** All remaining bytes of all parts, in order. */
    void send(ByteBuffer... parts) throws IOException;

    /** Whether something for the reader came, or the connection ended; doesn't wait. */
    boolean hasStirred() throws IOException;

    InetAddress peer() throws IOException;

    boolean isOpen();

    void close();
}
