package fs.strait.client;

import com.google.gson.JsonObject;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import java.util.HashMap;

/** The bytes that cases describe; see clients/conformance/README.md. */
final class Bytes {
    private static final int PERIOD = 251 * 64;

    private final Map<String, byte[]> random = new HashMap<>();

    byte[] of(JsonObject form) {
        if (form.has("hex")) {
            return HexFormat.of().parseHex(form.get("hex").getAsString());
        }
        if (form.has("text")) {
            return form.get("text").getAsString().getBytes(StandardCharsets.UTF_8);
        }
        if (form.has("pattern")) {
            long offset = form.has("offset") ? form.get("offset").getAsLong() : 0;
            return pattern(form.get("pattern").getAsInt(), offset, form.get("length").getAsInt());
        }
        if (form.has("concat")) {
            ByteArrayOutputStream whole = new ByteArrayOutputStream();
            form.getAsJsonArray("concat").forEach(p -> whole.writeBytes(of(p.getAsJsonObject())));
            return whole.toByteArray();
        }
        if (form.has("random")) {
            return random.computeIfAbsent(form.get("random").getAsString(), name -> sixteen());
        }
        throw new AssertionError("no bytes: " + form);
    }

    private static byte[] sixteen() {
        byte[] bytes = new byte[16];
        new SecureRandom().nextBytes(bytes);
        return bytes;
    }

    /** Byte i of pattern S is (S + i + i div 251) mod 256. */
    static byte[] pattern(int seed, long offset, int length) {
        byte[] period = new byte[PERIOD];
        for (int i = 0; i < PERIOD; i++) {
            period[i] = (byte) (seed + i + i / 251);
        }
        byte[] bytes = new byte[length];
        for (int done = 0; done < length; ) {
            int from = (int) ((offset + done) % PERIOD);
            int count = Math.min(PERIOD - from, length - done);
            System.arraycopy(period, from, bytes, done, count);
            done += count;
        }
        return bytes;
    }
}
