package fs.strait.hadoop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractAppendTest;
import org.apache.hadoop.fs.contract.AbstractContractBulkDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractContentSummaryTest;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractContractCreateTest;
import org.apache.hadoop.fs.contract.AbstractContractDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractGetEnclosingRoot;
import org.apache.hadoop.fs.contract.AbstractContractGetFileStatusTest;
import org.apache.hadoop.fs.contract.AbstractContractMkdirTest;
import org.apache.hadoop.fs.contract.AbstractContractOpenTest;
import org.apache.hadoop.fs.contract.AbstractContractRenameTest;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractContractSeekTest;
import org.apache.hadoop.fs.contract.AbstractContractSetTimesTest;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

// Hadoop's tests of its contract, unmodified: a class for each of its subjects.

class AppendContractTest extends AbstractContractAppendTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class BulkDeleteContractTest extends AbstractContractBulkDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class ContentSummaryContractTest extends AbstractContractContentSummaryTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class CreateContractTest extends AbstractContractCreateTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class DeleteContractTest extends AbstractContractDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class GetEnclosingRootContractTest extends AbstractContractGetEnclosingRoot {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class GetFileStatusContractTest extends AbstractContractGetFileStatusTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class MkdirContractTest extends AbstractContractMkdirTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class OpenContractTest extends AbstractContractOpenTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class RenameContractTest extends AbstractContractRenameTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class RootDirectoryContractTest extends AbstractContractRootDirectoryTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class SeekContractTest extends AbstractContractSeekTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class SetTimesContractTest extends AbstractContractSetTimesTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

class CopyFromLocalContractTest extends AbstractContractCopyFromLocalTest {
    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}

@ParameterizedClass(name = "buffer-{0}")
@MethodSource("params")
class VectoredReadContractTest extends AbstractContractVectoredReadTest {
    VectoredReadContractTest(String bufferType) {
        super(bufferType);
    }

    @Override
    protected AbstractFSContract createContract(Configuration configuration) {
        return new StraitContract(configuration);
    }
}
