package fs.strait.client;

/** The encoding of messages on the connection, which the gateway detects. */
public enum Wire {
    /** Thrift's binary protocol, each message preceded by its length: the default. */
    FRAMED_BINARY(true, false),
    /** Thrift's binary protocol. */
    BINARY(false, false),
    /** Thrift's compact protocol, each message preceded by its length. */
    FRAMED_COMPACT(true, true),
    /** Thrift's compact protocol. */
    COMPACT(false, true);

    final boolean framed;
    final boolean compact;

    Wire(boolean framed, boolean compact) {
        this.framed = framed;
        this.compact = compact;
    }
}
