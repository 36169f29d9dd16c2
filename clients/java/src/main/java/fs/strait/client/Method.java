package fs.strait.client;

import fs.strait.client.internal.AppendDataReply;
import fs.strait.client.internal.CloseFileReply;
import fs.strait.client.internal.CloseSessionReply;
import fs.strait.client.internal.FlushFileReply;
import fs.strait.client.internal.GetBlockLocationsReply;
import fs.strait.client.internal.GetChecksumReply;
import fs.strait.client.internal.GetFileInfoReply;
import fs.strait.client.internal.GetStoreStatusReply;
import fs.strait.client.internal.ListDirectoryReply;
import fs.strait.client.internal.MutationReply;
import fs.strait.client.internal.OpenFileReply;
import fs.strait.client.internal.OpenSessionReply;
import fs.strait.client.internal.OpenWriterReply;
import fs.strait.client.internal.ReadRangeReply;
import fs.strait.client.internal.ServerInfoReply;
import java.util.function.Supplier;
import org.apache.thrift.TBase;

/**
 * A method of DfsV2: each takes one request and answers one reply or a DfsError.
 *
 * @param name its name on the wire
 * @param newReply makes an empty reply
 */
record Method<R extends TBase<R, ?>>(String name, Supplier<R> newReply) {
    static final Method<ServerInfoReply> SERVER_INFO =
            new Method<>("serverInfo", ServerInfoReply::new);
    static final Method<OpenSessionReply> OPEN_SESSION =
            new Method<>("openSession", OpenSessionReply::new);
    static final Method<CloseSessionReply> CLOSE_SESSION =
            new Method<>("closeSession", CloseSessionReply::new);
    static final Method<GetFileInfoReply> GET_FILE_INFO =
            new Method<>("getFileInfo", GetFileInfoReply::new);
    static final Method<ListDirectoryReply> LIST_DIRECTORY =
            new Method<>("listDirectory", ListDirectoryReply::new);
    static final Method<GetBlockLocationsReply> GET_BLOCK_LOCATIONS =
            new Method<>("getBlockLocations", GetBlockLocationsReply::new);
    static final Method<GetChecksumReply> GET_CHECKSUM =
            new Method<>("getChecksum", GetChecksumReply::new);
    static final Method<GetStoreStatusReply> GET_STORE_STATUS =
            new Method<>("getStoreStatus", GetStoreStatusReply::new);
    static final Method<OpenFileReply> OPEN_FILE = new Method<>("openFile", OpenFileReply::new);
    static final Method<ReadRangeReply> READ_RANGE =
            new Method<>("readRange", ReadRangeReply::new);
    static final Method<OpenWriterReply> CREATE_FILE =
            new Method<>("createFile", OpenWriterReply::new);
    static final Method<OpenWriterReply> APPEND_FILE =
            new Method<>("appendFile", OpenWriterReply::new);
    static final Method<AppendDataReply> APPEND_DATA =
            new Method<>("appendData", AppendDataReply::new);
    static final Method<FlushFileReply> FLUSH_FILE =
            new Method<>("flushFile", FlushFileReply::new);
    static final Method<CloseFileReply> CLOSE_FILE =
            new Method<>("closeFile", CloseFileReply::new);
    static final Method<MutationReply> TRUNCATE_FILE =
            new Method<>("truncateFile", MutationReply::new);
    static final Method<MutationReply> CONCAT_FILES =
            new Method<>("concatFiles", MutationReply::new);
    static final Method<MutationReply> MAKE_DIRECTORIES =
            new Method<>("makeDirectories", MutationReply::new);
    static final Method<MutationReply> RENAME_PATH =
            new Method<>("renamePath", MutationReply::new);
    static final Method<MutationReply> REMOVE_PATH =
            new Method<>("removePath", MutationReply::new);
    static final Method<MutationReply> SET_ATTRIBUTES =
            new Method<>("setAttributes", MutationReply::new);
}
