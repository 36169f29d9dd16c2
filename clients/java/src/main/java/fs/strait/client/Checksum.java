package fs.strait.client;

import java.util.Arrays;
import java.util.HexFormat;

/**
 * A store's checksum of a file; comparable under the same algorithm only.
 *
 * @param algorithm the store's name for it
 * @param value its bytes
 */
public record Checksum(String algorithm, byte[] value) {
    // A record would compare the arrays' identities.

    @Override
    public boolean equals(Object other) {
        return other instanceof Checksum that
                && algorithm.equals(that.algorithm)
                && Arrays.equals(value, that.value);
    }

    @Override
    public int hashCode() {
        return 31 * algorithm.hashCode() + Arrays.hashCode(value);
    }

    @Override
    public String toString() {
        return algorithm + ":" + HexFormat.of().formatHex(value);
    }
}
