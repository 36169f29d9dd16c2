/*
 * Strait's Thrift interface, in two services.
 *
 * DfsService is frozen: it is the interface of the 2009 report "Implementing a
 * Cross-Language Interface to Multiple Distributed File Systems Using Thrift"
 * (Open Cloud Consortium TR-09-03), wire-compatible with its clients.
 *
 * DfsV2 extends it with what today's users need. Its rules: fields are only
 * ever added; ids are never reused; every field is optional on the wire; there
 * is no oneway method; ProtocolVersion only grows.
 *
 * One TCP port speaks binary, compact and JSON, framed and unframed, and HTTP;
 * the server tells them apart by the first bytes. Integers are signed, as Thrift has no others;
 * a negative offset or length is an error where it isn't given a meaning below.
 */
namespace cpp dfsservice
namespace java com.opendatagroup.dfsservice
namespace py strait._gen

// ---------------------------------------------------------------- DfsService

const i16 READ = 1
const i16 WRITE = 2
const i16 READ_WRITE = 3

struct FileStatus {
  1: i64 length,
  2: bool isdir,
  3: i16 block_replication,
  4: i64 blocksize,
  /** Milliseconds since 1970-01-01 UTC. */
  5: i64 modification_time,
  /** As "rw-r--r--". */
  6: string permission,
  7: string owner,
  8: string group,
  9: string path
}

/** A client's session. Negative: init failed. */
struct ClientHandle {
  1: i64 id
}

/** An open file of one session. */
struct DfsHandle {
  1: i64 id
}

exception DfsServiceIOException {
  1: string message
}

service DfsService {
  /** Opens a session on the store with this name or URI; none or empty: the default store. */
  ClientHandle init(1: string uri),

  bool login(1: ClientHandle ch, 2: string user, 3: string password),

  bool logout(1: ClientHandle ch),

  /** Closes the client's files properly and ends its session. */
  bool closeClient(1: ClientHandle ch),

  /** Ends the caller's session; the server stays. */
  bool closeDfs(),

  list<FileStatus> listFiles(1: ClientHandle ch, 2: string path)
      throws (1: DfsServiceIOException ex),

  FileStatus stat(1: ClientHandle ch, 2: string path)
      throws (1: DfsServiceIOException ex),

  bool mkdir(1: ClientHandle ch, 2: string path)
      throws (1: DfsServiceIOException ex),

  bool move(1: ClientHandle ch, 2: string old_path, 3: string new_path)
      throws (1: DfsServiceIOException ex),

  bool remove(1: ClientHandle ch, 2: string path, 3: bool recursive)
      throws (1: DfsServiceIOException ex),

  /** Mode READ, WRITE (creates; an existing file is an error) or READ_WRITE. */
  DfsHandle open(1: ClientHandle ch, 2: string filename, 3: i16 mode)
      throws (1: DfsServiceIOException ex),

  bool close(1: ClientHandle ch, 2: DfsHandle dh)
      throws (1: DfsServiceIOException ex),

  /** Up to len bytes from offset; -1 reads on from the handle's position. Empty: end of file. */
  string read(1: ClientHandle ch, 2: DfsHandle dh, 3: i64 offset, 4: i64 len)
      throws (1: DfsServiceIOException ex),

  /** Writes the first len bytes of buf at the end; offset is -1 or the handle's position. */
  bool write(1: ClientHandle ch, 2: DfsHandle dh, 3: binary buf, 4: i64 offset, 5: i64 len)
      throws (1: DfsServiceIOException ex),

  /** dest lies on the gateway's host, below the directory its operator named. */
  bool copyToLocalFile(1: string src, 2: string dest)
      throws (1: DfsServiceIOException ex),

  /** src lies on the gateway's host, below the directory its operator named. */
  bool copyFromLocalFile(1: string src, 2: string dest)
      throws (1: DfsServiceIOException ex)
}

// --------------------------------------------------------------------- DfsV2

enum ProtocolVersion {
  V1 = 1
}

enum FileType {
  FILE = 1,
  DIRECTORY = 2
}

/** What went wrong; the same kinds at every border of Strait. */
enum ErrorCode {
  NOT_FOUND = 1,
  ALREADY_EXISTS = 2,
  NOT_A_DIRECTORY = 3,
  IS_A_DIRECTORY = 4,
  NOT_EMPTY = 5,
  PERMISSION_DENIED = 6,
  UNAUTHENTICATED = 7,
  INVALID_ARGUMENT = 8,
  UNSUPPORTED = 9,
  BUSY = 10,
  NO_SPACE = 11,
  TIMED_OUT = 12,
  UNAVAILABLE = 13,
  CORRUPT = 14,
  OUTCOME_UNKNOWN = 15,
  INTERNAL = 16
}

exception DfsError {
  /** An ErrorCode; newer servers may send newer ones. */
  1: optional i32 code,
  /** Its name, for example "NotFound". */
  2: optional string kind,
  /** For people: what happened, and what to do. */
  3: optional string message,
  4: optional string path,
  /** Repeating the same request can help and can't do harm. */
  5: optional bool retry_safe
}

struct FileInfo {
  1: optional string path,
  2: optional FileType type,
  3: optional i64 length,
  4: optional i64 block_size,
  5: optional i16 replication,
  /** Milliseconds since 1970-01-01 UTC. */
  6: optional i64 modified_ms,
  7: optional i64 accessed_ms,
  /** Permission bits, 07777 at most. */
  8: optional i32 permission,
  9: optional string owner,
  10: optional string group,
  /**
   * The path's last name is a symbolic link; all else is of what it leads to.
   * Told by listings, so that what goes down a tree doesn't leave it.
   */
  11: optional bool link
}

struct BlockLocation {
  1: optional i64 offset,
  2: optional i64 length,
  3: optional list<string> hosts,
  /** host:port of the data service on each host; may be empty. */
  4: optional list<string> addresses,
  5: optional bool corrupt
}

struct Limits {
  /** Most bytes of one readRange or appendData. */
  1: optional i32 max_chunk_bytes,
  2: optional i32 max_message_bytes,
  3: optional i32 max_path_bytes,
  4: optional i32 max_list_page,
  5: optional i32 max_handles_per_session,
  /** A session ends after this time without a request. */
  6: optional i64 session_idle_ms
}

struct StoreInfo {
  1: optional string name,
  /** Told to those who may use it: without a login only where none is needed. */
  2: optional string uri,
  /** Names of what the store can do, as in the documentation of capabilities. */
  3: optional list<string> capabilities,
  /** An abandoned file is writable again within this time. */
  4: optional i32 recovery_ms
}

struct ServerInfoRequest {
  15: optional i32 deadline_ms
}

struct ServerInfoReply {
  1: optional ProtocolVersion version,
  /** The program and its version, for people. */
  2: optional string server,
  3: optional list<StoreInfo> stores,
  4: optional Limits limits
}

/**
 * Opens a session: with a token of an earlier one (any gateway of the
 * deployment takes it), with user and password, or with neither where the
 * operator allows that. With all three the password is checked, and the token's
 * session is used if it is that user's on that store; otherwise there is a new
 * one. The connection is attached to the session: later
 * requests on it need not name it.
 */
struct OpenSessionRequest {
  1: optional ProtocolVersion version,
  /** Name or URI of a configured store; none: the default store. */
  2: optional string store,
  3: optional string user,
  4: optional string password,
  5: optional string token,
  /**
   * Lend the login: open another session of the same user and store, whose
   * token and login end after at most this many milliseconds, and with the
   * login's own end. Only a login can be lent.
   */
  6: optional i64 lend_ms,
  /** The token of a session lent before: that one is to last longer. */
  7: optional string lent,
  15: optional i32 deadline_ms
}

struct OpenSessionReply {
  /** Stands for the login until it expires; keep it secret. */
  1: optional string token,
  2: optional i64 expires_ms,
  3: optional string user,
  4: optional StoreInfo store,
  5: optional ProtocolVersion version,
  6: optional Limits limits,
  /**
   * Another one than before, under the same or another token, means that the
   * session had to be made anew: handles given before are gone, and what became
   * of a file written by one of them can't be known.
   */
  7: optional i64 incarnation
}

/*
 * In every request below: `session` is a token; without it the connection's
 * own session serves. `request_id` (16 bytes chosen at random by the client)
 * makes a mutation safe to retry: a repetition of the same request is answered
 * from the first one's outcome, not executed twice. `is_retry` says that an
 * earlier attempt may have reached another gateway.
 *
 * `deadline_ms`: the client abandons the call this many milliseconds after the
 * gateway has received it. Then the gateway stops working on a query, doesn't
 * begin a mutation that still waits, and answers TimedOut. A mutation that has
 * begun goes on; its answer then has retry_safe false. A gateway in front of
 * another hands on the time that is left. None: as long as the connection lasts.
 */

/** Closes the session's files properly and ends it; its tokens open nothing any more. */
struct CloseSessionRequest {
  1: optional string session,
  15: optional i32 deadline_ms
}

struct CloseSessionReply {
}

struct GetFileInfoRequest {
  1: optional string session,
  2: optional string path,
  15: optional i32 deadline_ms
}

struct GetFileInfoReply {
  1: optional FileInfo info
}

/**
 * A page of a directory; go on with the cursor that came with the last page.
 * A listing that isn't read to its end ends by closeFile with the cursor, with its session,
 * or if there are too many of them: then the next page is Busy, and the client lists anew.
 */
struct ListDirectoryRequest {
  1: optional string session,
  2: optional string path,
  3: optional i64 cursor,
  /** Most entries of a page; none: the server's own. */
  4: optional i32 max_entries,
  15: optional i32 deadline_ms
}

struct ListDirectoryReply {
  1: optional list<FileInfo> entries,
  /** Absent on the last page. */
  2: optional i64 cursor
}

struct OpenFileRequest {
  1: optional string session,
  2: optional string path,
  15: optional i32 deadline_ms
}

struct OpenFileReply {
  1: optional i64 handle,
  2: optional i64 length,
  /**
   * Distinguishes this file from others that had or will have its name: the same whenever the
   * same file is opened, also after it grew. Opaque; absent where the store can't tell.
   */
  3: optional binary identity
}

/** Many of these for one handle may be in flight at once. */
struct ReadRangeRequest {
  1: optional string session,
  2: optional i64 handle,
  3: optional i64 offset,
  4: optional i32 length,
  15: optional i32 deadline_ms
}

/** May be shorter than asked, as with POSIX read; only empty means the end of the file. */
struct ReadRangeReply {
  1: optional binary data
}

/** Missing parents are made. */
struct CreateFileRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional bool overwrite,
  6: optional i32 permission,
  7: optional i16 replication,
  8: optional i64 block_size,
  /**
   * Replicas on disk that make the file's bytes durable: sync and close fail with fewer. It can
   * only raise the store's own minimum; a store without one ignores it.
   */
  9: optional i16 min_replicas,
  15: optional i32 deadline_ms
}

/** Opens an existing file to append at its end. */
struct AppendFileRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  15: optional i32 deadline_ms
}

struct OpenWriterReply {
  1: optional i64 handle,
  /** The file's length. */
  2: optional i64 position
}

struct AppendDataRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional i64 handle,
  /** Where the data begins: the file's length before it. A repetition of the last append is recognised by it. */
  5: optional i64 expected_offset,
  6: optional binary data,
  15: optional i32 deadline_ms
}

struct AppendDataReply {
  /** The file's length, all accepted bytes counted. */
  1: optional i64 position
}

/** What a flush promises. A store without the capability visible_while_written promises nothing before close. */
enum FlushMode {
  /** In every replica's memory and visible to readers who open afterwards. */
  FLUSH = 1,
  /** On stable storage. */
  SYNC = 2
}

struct FlushFileRequest {
  1: optional string session,
  2: optional i64 handle,
  3: optional FlushMode mode,
  15: optional i32 deadline_ms
}

struct FlushFileReply {
  1: optional i64 position,
  /** At least this many replicas hold all bytes written here; absent if unknown, or if nothing was written. */
  2: optional i32 replicas
}

/**
 * Of a writer: sync, and the length recorded. Of a reader: the handle is forgotten. After NO_SPACE
 * and UNAVAILABLE, a file of Kadoop is still open, and may be closed again.
 */
struct CloseFileRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional i64 handle,
  /**
   * Forgets the handle whatever happens, and drops a writer without waiting for its bytes: those
   * flushed before stay, others may. The reply's length is 0.
   */
  5: optional bool abandon,
  15: optional i32 deadline_ms
}

struct CloseFileReply {
  1: optional i64 length,
  /** As in FlushFileReply. */
  2: optional i32 replicas
}

struct TruncateFileRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional i64 length,
  15: optional i32 deadline_ms
}

// The bytes of `sources`, in order, go to the end of the closed file `path`, in one step and without a
// copy; the sources are removed. Capability "concat".
struct ConcatFilesRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional list<string> sources,
  15: optional i32 deadline_ms
}

struct MakeDirectoriesRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional i32 permission,
  15: optional i32 deadline_ms
}

struct RenamePathRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string source,
  /** The new name itself, never a directory to move into. */
  5: optional string target,
  6: optional bool replace,
  15: optional i32 deadline_ms
}

struct RemovePathRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional bool recursive,
  15: optional i32 deadline_ms
}

struct SetAttributesRequest {
  1: optional string session,
  2: optional binary request_id,
  3: optional bool is_retry,
  4: optional string path,
  5: optional i32 permission,
  6: optional string owner,
  7: optional string group,
  8: optional i64 modified_ms,
  9: optional i64 accessed_ms,
  10: optional i16 replication,
  15: optional i32 deadline_ms
}

/** What a mutation without a result of its own answers. */
struct MutationReply {
}

struct GetBlockLocationsRequest {
  1: optional string session,
  2: optional string path,
  3: optional i64 offset,
  /** None: to the end. */
  4: optional i64 length,
  15: optional i32 deadline_ms
}

struct GetBlockLocationsReply {
  1: optional list<BlockLocation> blocks
}

struct GetChecksumRequest {
  1: optional string session,
  2: optional string path,
  15: optional i32 deadline_ms
}

struct GetChecksumReply {
  /** Checksums compare only under the same algorithm. */
  1: optional string algorithm,
  2: optional binary value
}

struct GetStoreStatusRequest {
  1: optional string session,
  15: optional i32 deadline_ms
}

struct GetStoreStatusReply {
  1: optional StoreInfo store,
  2: optional i64 capacity,
  3: optional i64 used,
  4: optional i64 remaining,
  /**
   * The store has just started (Kadoop: safe mode), and doesn't know yet where all bytes
   * lie. Blocks without hosts may be there all the same; ask again before calling them lost.
   */
  5: optional bool settling
}

service DfsV2 extends DfsService {
  ServerInfoReply serverInfo(1: ServerInfoRequest request) throws (1: DfsError error),
  OpenSessionReply openSession(1: OpenSessionRequest request) throws (1: DfsError error),
  CloseSessionReply closeSession(1: CloseSessionRequest request) throws (1: DfsError error),

  GetFileInfoReply getFileInfo(1: GetFileInfoRequest request) throws (1: DfsError error),
  ListDirectoryReply listDirectory(1: ListDirectoryRequest request) throws (1: DfsError error),
  GetBlockLocationsReply getBlockLocations(1: GetBlockLocationsRequest request) throws (1: DfsError error),
  GetChecksumReply getChecksum(1: GetChecksumRequest request) throws (1: DfsError error),
  GetStoreStatusReply getStoreStatus(1: GetStoreStatusRequest request) throws (1: DfsError error),

  OpenFileReply openFile(1: OpenFileRequest request) throws (1: DfsError error),
  ReadRangeReply readRange(1: ReadRangeRequest request) throws (1: DfsError error),

  OpenWriterReply createFile(1: CreateFileRequest request) throws (1: DfsError error),
  OpenWriterReply appendFile(1: AppendFileRequest request) throws (1: DfsError error),
  AppendDataReply appendData(1: AppendDataRequest request) throws (1: DfsError error),
  FlushFileReply flushFile(1: FlushFileRequest request) throws (1: DfsError error),
  CloseFileReply closeFile(1: CloseFileRequest request) throws (1: DfsError error),

  MutationReply truncateFile(1: TruncateFileRequest request) throws (1: DfsError error),
  MutationReply makeDirectories(1: MakeDirectoriesRequest request) throws (1: DfsError error),
  MutationReply renamePath(1: RenamePathRequest request) throws (1: DfsError error),
  MutationReply removePath(1: RemovePathRequest request) throws (1: DfsError error),
  MutationReply setAttributes(1: SetAttributesRequest request) throws (1: DfsError error),

  MutationReply concatFiles(1: ConcatFilesRequest request) throws (1: DfsError error)
}
