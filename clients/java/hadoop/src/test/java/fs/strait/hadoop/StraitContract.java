package fs.strait.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** Of HDFS's rules, as strait.xml states them, at a gateway over a directory. */
final class StraitContract extends AbstractFSContract {
    StraitContract(Configuration configuration) {
        super(configuration);
        addConfResource("contract/strait.xml");
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return FileSystem.get(URI.create(Gateway.shared().address()), getConf());
    }

    @Override
    public String getScheme() {
        return "strait";
    }

    @Override
    public Path getTestPath() {
        return new Path("/test");
    }
}
