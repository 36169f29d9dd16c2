/*
 * The service as the report's 0.5.x programs knew it: an open file's handle
 * stands alone, without the client's beside it, and the field ids leave a gap
 * where the report's example does. (The report gives `read`, `init`, `login`
 * and the local copies; `write` follows the pattern of `read` here. The released
 * 0.5.4 has other ids for it, which bytes_2009.rs of the gateway replays.)
 */
namespace cpp dfsservice
namespace java com.opendatagroup.dfsservice

const i16 READ = 1
const i16 WRITE = 2
const i16 READ_WRITE = 3

struct FileStatus {
  1: i64 length,
  2: bool isdir,
  3: i16 block_replication,
  4: i64 blocksize,
  5: i64 modification_time,
  6: string permission,
  7: string owner,
  8: string group,
  9: string path
}

struct ClientHandle {
  1: i64 id
}

struct DfsHandle {
  1: i64 id
}

exception DfsServiceIOException {
  1: string message
}

service DfsService {
  ClientHandle init(1: string uri),
  bool login(1: ClientHandle clientHandle, 2: string user, 3: string password),
  bool logout(1: ClientHandle clientHandle),
  bool closeClient(1: ClientHandle clientHandle),
  bool closeDfs(1: ClientHandle clientHandle),

  list<FileStatus> listFiles(1: ClientHandle clientHandle, 2: string path)
      throws (1: DfsServiceIOException ex),
  FileStatus stat(1: ClientHandle clientHandle, 2: string path)
      throws (1: DfsServiceIOException ex),
  bool mkdir(1: ClientHandle clientHandle, 2: string path)
      throws (1: DfsServiceIOException ex),
  bool move(1: ClientHandle clientHandle, 2: string oldPath, 3: string newPath)
      throws (1: DfsServiceIOException ex),
  bool remove(1: ClientHandle clientHandle, 2: string path, 3: bool recursive)
      throws (1: DfsServiceIOException ex),

  DfsHandle open(1: string filename, 2: i16 mode)
      throws (1: DfsServiceIOException ex),
  bool close(1: DfsHandle dfsHandle)
      throws (1: DfsServiceIOException ex),
  string read(1: DfsHandle dfsHandle, 3: i64 offset, 4: i64 len)
      throws (1: DfsServiceIOException ex),
  bool write(1: DfsHandle dfsHandle, 3: binary buf, 4: i64 offset, 5: i64 len)
      throws (1: DfsServiceIOException ex),

  bool copyToLocalFile(1: string src, 2: string dest)
      throws (1: DfsServiceIOException ex),
  bool copyFromLocalFile(1: string src, 2: string dest)
      throws (1: DfsServiceIOException ex)
}
