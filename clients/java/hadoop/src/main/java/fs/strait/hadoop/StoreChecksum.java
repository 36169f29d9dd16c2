package fs.strait.hadoop;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import org.apache.hadoop.fs.FileChecksum;

/** A store's own checksum of a file. */
final class StoreChecksum extends FileChecksum {
    // The longest one of a store is below; it bounds what a broken peer's stream may claim.
    private static final int MAX_BYTES = 1 << 10;

    private String algorithm;
    private byte[] value;

    StoreChecksum(String algorithm, byte[] value) {
        this.algorithm = algorithm;
        this.value = value.clone();
    }

    @Override
    public String getAlgorithmName() {
        return algorithm;
    }

    @Override
    public int getLength() {
        return value.length;
    }

    @Override
    public byte[] getBytes() {
        return value.clone();
    }

    @Override
    public void readFields(DataInput in) throws IOException {
        algorithm = in.readUTF();
        int length = in.readInt();
        if (length < 0 || length > MAX_BYTES) {
            throw new IOException("not the length of a checksum: " + length);
        }
        value = new byte[length];
        in.readFully(value);
    }

    @Override
    public void write(DataOutput out) throws IOException {
        out.writeUTF(algorithm);
        out.writeInt(value.length);
        out.write(value);
    }
}
