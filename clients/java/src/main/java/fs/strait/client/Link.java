package fs.strait.client;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;

/** A connection for bytes, with or without TLS; its calls wait, with a limit. */
interface Link {
    /** Sets the deadline for all further receiving and sending, over any number of waits. */
    void waitUntil(Deadline deadline);

    /** Receives at least one byte into `target`, which must have room for one. */
    int receive(ByteBuffer target) throws IOException;

    /** Sends all remaining bytes of all parts, in order. */
    void send(ByteBuffer... parts) throws IOException;

    /** Whether bytes for the reader arrived, or the connection ended; doesn't wait. */
    boolean hasStirred() throws IOException;

    InetAddress peer() throws IOException;

    boolean isOpen();

    void close();
}
