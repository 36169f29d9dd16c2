package fs.strait.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/**
 * {@code strait://} for programs of {@code FileContext}, such as YARN; they find it by {@code
 * fs.AbstractFileSystem.strait.impl}.
 */
public final class StraitFs extends DelegateToFileSystem {
    /**
     * Made by Hadoop.
     *
     * @param uri of the gateway
     * @param configuration as {@link StraitFileSystem}'s
     * @throws IOException if there is no gateway
     * @throws URISyntaxException if the URI has no host
     */
    public StraitFs(URI uri, Configuration configuration) throws IOException, URISyntaxException {
        super(uri, new StraitFileSystem(), configuration, StraitFileSystem.SCHEME, false);
    }

    @Override
    public int getUriDefaultPort() {
        return Stores.port(URI.create("strait://gateway"));
    }
}
