//! The messages of `DfsV2`. `idl/dfs.thrift` documents their fields.

use crate::Secret;
use crate::value::wire_enums;
use crate::wire_structs;
use bytes::Bytes;

wire_enums! {
    /// Version of the interface; only grows.
    ProtocolVersion {
        V1 = 1,
    }
    /// File or directory.
    FileType {
        File = 1,
        Directory = 2,
    }
    /// The kinds of failure.
    ErrorCode {
        NotFound = 1,
        AlreadyExists = 2,
        NotADirectory = 3,
        IsADirectory = 4,
        NotEmpty = 5,
        PermissionDenied = 6,
        Unauthenticated = 7,
        InvalidArgument = 8,
        Unsupported = 9,
        Busy = 10,
        NoSpace = 11,
        TimedOut = 12,
        Unavailable = 13,
        Corrupt = 14,
        OutcomeUnknown = 15,
        Internal = 16,
    }
    /// Extent of a flush.
    FlushMode {
        Flush = 1,
        Sync = 2,
    }
}

wire_structs! {
    /// A typed error.
    DfsError {
        1 code: i32,
        2 kind: String,
        3 message: String,
        4 path: String,
        5 retry_safe: bool,
    }
    /// A store's record of one path.
    FileInfo {
        1 path: String,
        2 file_type as "type": FileType,
        3 length: i64,
        4 block_size: i64,
        5 replication: i16,
        6 modified_ms: i64,
        7 accessed_ms: i64,
        8 permission: i32,
        9 owner: String,
        10 group: String,
        11 link: bool,
    }
    /// One block of a file and its location.
    BlockLocation {
        1 offset: i64,
        2 length: i64,
        3 hosts: Vec<String>,
        4 addresses: Vec<String>,
        5 corrupt: bool,
    }
    /// The limits that a server enforces.
    Limits {
        1 max_chunk_bytes: i32,
        2 max_message_bytes: i32,
        3 max_path_bytes: i32,
        4 max_list_page: i32,
        5 max_handles_per_session: i32,
        6 session_idle_ms: i64,
    }
    /// A configured store.
    StoreInfo {
        1 name: String,
        2 uri: String,
        3 capabilities: Vec<String>,
        4 recovery_ms: i32,
    }
    /// Request of `serverInfo`.
    ServerInfoRequest {
        15 deadline_ms: i32,
    }
    /// Reply of `serverInfo`.
    ServerInfoReply {
        1 version: ProtocolVersion,
        2 server: String,
        3 stores: Vec<StoreInfo>,
        4 limits: Limits,
    }
    /// Request of `openSession`.
    OpenSessionRequest {
        1 version: ProtocolVersion,
        2 store: String,
        3 user: String,
        4 password: Secret,
        5 token: Secret,
        6 lend_ms: i64,
        7 lent: Secret,
        15 deadline_ms: i32,
    }
    /// Reply of `openSession`.
    OpenSessionReply {
        1 token: Secret,
        2 expires_ms: i64,
        3 user: String,
        4 store: StoreInfo,
        5 version: ProtocolVersion,
        6 limits: Limits,
        7 incarnation: i64,
    }
    /// Request of `closeSession`.
    CloseSessionRequest {
        1 session: Secret,
        15 deadline_ms: i32,
    }
    /// Reply of `closeSession`.
    CloseSessionReply {
    }
    /// Request of `getFileInfo`.
    GetFileInfoRequest {
        1 session: Secret,
        2 path: String,
        15 deadline_ms: i32,
    }
    /// Reply of `getFileInfo`.
    GetFileInfoReply {
        1 info: FileInfo,
    }
    /// Request of `listDirectory`.
    ListDirectoryRequest {
        1 session: Secret,
        2 path: String,
        3 cursor: i64,
        4 max_entries: i32,
        15 deadline_ms: i32,
    }
    /// Reply of `listDirectory`.
    ListDirectoryReply {
        1 entries: Vec<FileInfo>,
        2 cursor: i64,
    }
    /// Request of `openFile`.
    OpenFileRequest {
        1 session: Secret,
        2 path: String,
        15 deadline_ms: i32,
    }
    /// Reply of `openFile`.
    OpenFileReply {
        1 handle: i64,
        2 length: i64,
        3 identity: Bytes,
    }
    /// Request of `readRange`.
    ReadRangeRequest {
        1 session: Secret,
        2 handle: i64,
        3 offset: i64,
        4 length: i32,
        15 deadline_ms: i32,
    }
    /// Reply of `readRange`.
    ReadRangeReply {
        1 data: Bytes,
    }
    /// Request of `createFile`.
    CreateFileRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 overwrite: bool,
        6 permission: i32,
        7 replication: i16,
        8 block_size: i64,
        9 min_replicas: i16,
        15 deadline_ms: i32,
    }
    /// Request of `appendFile`.
    AppendFileRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        15 deadline_ms: i32,
    }
    /// Reply of `createFile` and `appendFile`.
    OpenWriterReply {
        1 handle: i64,
        2 position: i64,
    }
    /// Request of `appendData`.
    AppendDataRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 handle: i64,
        5 expected_offset: i64,
        6 data: Bytes,
        15 deadline_ms: i32,
    }
    /// Reply of `appendData`.
    AppendDataReply {
        1 position: i64,
    }
    /// Request of `flushFile`.
    FlushFileRequest {
        1 session: Secret,
        2 handle: i64,
        3 mode: FlushMode,
        15 deadline_ms: i32,
    }
    /// Reply of `flushFile`.
    FlushFileReply {
        1 position: i64,
        2 replicas: i32,
    }
    /// Request of `closeFile`.
    CloseFileRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 handle: i64,
        5 abandon: bool,
        15 deadline_ms: i32,
    }
    /// Reply of `closeFile`.
    CloseFileReply {
        1 length: i64,
        2 replicas: i32,
    }
    /// Request of `truncateFile`.
    TruncateFileRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 length: i64,
        15 deadline_ms: i32,
    }
    /// Request of `concatFiles`.
    ConcatFilesRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 sources: Vec<String>,
        15 deadline_ms: i32,
    }
    /// Request of `makeDirectories`.
    MakeDirectoriesRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 permission: i32,
        15 deadline_ms: i32,
    }
    /// Request of `renamePath`.
    RenamePathRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 source: String,
        5 target: String,
        6 replace: bool,
        15 deadline_ms: i32,
    }
    /// Request of `removePath`.
    RemovePathRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 recursive: bool,
        15 deadline_ms: i32,
    }
    /// Request of `setAttributes`.
    SetAttributesRequest {
        1 session: Secret,
        2 request_id: Bytes,
        3 is_retry: bool,
        4 path: String,
        5 permission: i32,
        6 owner: String,
        7 group: String,
        8 modified_ms: i64,
        9 accessed_ms: i64,
        10 replication: i16,
        15 deadline_ms: i32,
    }
    /// Reply of mutations without a result of their own.
    MutationReply {
    }
    /// Request of `getBlockLocations`.
    GetBlockLocationsRequest {
        1 session: Secret,
        2 path: String,
        3 offset: i64,
        4 length: i64,
        15 deadline_ms: i32,
    }
    /// Reply of `getBlockLocations`.
    GetBlockLocationsReply {
        1 blocks: Vec<BlockLocation>,
    }
    /// Request of `getChecksum`.
    GetChecksumRequest {
        1 session: Secret,
        2 path: String,
        15 deadline_ms: i32,
    }
    /// Reply of `getChecksum`.
    GetChecksumReply {
        1 algorithm: String,
        2 value: Bytes,
    }
    /// Request of `getStoreStatus`.
    GetStoreStatusRequest {
        1 session: Secret,
        15 deadline_ms: i32,
    }
    /// Reply of `getStoreStatus`.
    GetStoreStatusReply {
        1 store: StoreInfo,
        2 capacity: i64,
        3 used: i64,
        4 remaining: i64,
        5 settling: bool,
    }
}
