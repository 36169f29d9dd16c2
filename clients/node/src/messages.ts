// Generated from idl/dfs.thrift by generate.mjs; `make gen` rewrites it.
import type { Method, Struct } from "./codec.js";

export interface DfsError {
  code?: number | undefined;
  kind?: string | undefined;
  message?: string | undefined;
  path?: string | undefined;
  retrySafe?: boolean | undefined;
}

export const DfsError: Struct<DfsError> = {
  name: "DfsError",
  fields: [
    { id: 1, name: "code", of: { wire: "i32" } },
    { id: 2, name: "kind", of: { wire: "string" } },
    { id: 3, name: "message", of: { wire: "string" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "retrySafe", of: { wire: "bool" } },
  ],
};

export interface ServerInfoRequest {
  deadlineMs?: number | undefined;
}

export const ServerInfoRequest: Struct<ServerInfoRequest> = {
  name: "ServerInfoRequest",
  fields: [
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface StoreInfo {
  name?: string | undefined;
  uri?: string | undefined;
  capabilities?: string[] | undefined;
  recoveryMs?: number | undefined;
}

export const StoreInfo: Struct<StoreInfo> = {
  name: "StoreInfo",
  fields: [
    { id: 1, name: "name", of: { wire: "string" } },
    { id: 2, name: "uri", of: { wire: "string" } },
    { id: 3, name: "capabilities", of: { wire: "list", element: { wire: "string" } } },
    { id: 4, name: "recoveryMs", of: { wire: "i32" } },
  ],
};

export interface Limits {
  maxChunkBytes?: number | undefined;
  maxMessageBytes?: number | undefined;
  maxPathBytes?: number | undefined;
  maxListPage?: number | undefined;
  maxHandlesPerSession?: number | undefined;
  sessionIdleMs?: number | undefined;
}

export const Limits: Struct<Limits> = {
  name: "Limits",
  fields: [
    { id: 1, name: "maxChunkBytes", of: { wire: "i32" } },
    { id: 2, name: "maxMessageBytes", of: { wire: "i32" } },
    { id: 3, name: "maxPathBytes", of: { wire: "i32" } },
    { id: 4, name: "maxListPage", of: { wire: "i32" } },
    { id: 5, name: "maxHandlesPerSession", of: { wire: "i32" } },
    { id: 6, name: "sessionIdleMs", of: { wire: "i64" } },
  ],
};

export interface ServerInfoReply {
  version?: number | undefined;
  server?: string | undefined;
  stores?: StoreInfo[] | undefined;
  limits?: Limits | undefined;
}

export const ServerInfoReply: Struct<ServerInfoReply> = {
  name: "ServerInfoReply",
  fields: [
    { id: 1, name: "version", of: { wire: "i32" } },
    { id: 2, name: "server", of: { wire: "string" } },
    { id: 3, name: "stores", of: { wire: "list", element: { wire: "struct", struct: StoreInfo } } },
    { id: 4, name: "limits", of: { wire: "struct", struct: Limits } },
  ],
};

export interface OpenSessionRequest {
  version?: number | undefined;
  store?: string | undefined;
  user?: string | undefined;
  password?: string | undefined;
  token?: string | undefined;
  lendMs?: number | undefined;
  lent?: string | undefined;
  deadlineMs?: number | undefined;
}

export const OpenSessionRequest: Struct<OpenSessionRequest> = {
  name: "OpenSessionRequest",
  fields: [
    { id: 1, name: "version", of: { wire: "i32" } },
    { id: 2, name: "store", of: { wire: "string" } },
    { id: 3, name: "user", of: { wire: "string" } },
    { id: 4, name: "password", of: { wire: "string" } },
    { id: 5, name: "token", of: { wire: "string" } },
    { id: 6, name: "lendMs", of: { wire: "i64" } },
    { id: 7, name: "lent", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface OpenSessionReply {
  token?: string | undefined;
  expiresMs?: number | undefined;
  user?: string | undefined;
  store?: StoreInfo | undefined;
  version?: number | undefined;
  limits?: Limits | undefined;
  incarnation?: bigint | undefined;
}

export const OpenSessionReply: Struct<OpenSessionReply> = {
  name: "OpenSessionReply",
  fields: [
    { id: 1, name: "token", of: { wire: "string" } },
    { id: 2, name: "expiresMs", of: { wire: "i64" } },
    { id: 3, name: "user", of: { wire: "string" } },
    { id: 4, name: "store", of: { wire: "struct", struct: StoreInfo } },
    { id: 5, name: "version", of: { wire: "i32" } },
    { id: 6, name: "limits", of: { wire: "struct", struct: Limits } },
    { id: 7, name: "incarnation", of: { wire: "opaque" } },
  ],
};

export interface CloseSessionRequest {
  session?: string | undefined;
  deadlineMs?: number | undefined;
}

export const CloseSessionRequest: Struct<CloseSessionRequest> = {
  name: "CloseSessionRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export type CloseSessionReply = Record<string, never>;

export const CloseSessionReply: Struct<CloseSessionReply> = {
  name: "CloseSessionReply",
  fields: [
  ],
};

export interface GetFileInfoRequest {
  session?: string | undefined;
  path?: string | undefined;
  deadlineMs?: number | undefined;
}

export const GetFileInfoRequest: Struct<GetFileInfoRequest> = {
  name: "GetFileInfoRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "path", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface FileInfo {
  path?: string | undefined;
  type?: number | undefined;
  length?: number | undefined;
  blockSize?: number | undefined;
  replication?: number | undefined;
  modifiedMs?: number | undefined;
  accessedMs?: number | undefined;
  permission?: number | undefined;
  owner?: string | undefined;
  group?: string | undefined;
  link?: boolean | undefined;
}

export const FileInfo: Struct<FileInfo> = {
  name: "FileInfo",
  fields: [
    { id: 1, name: "path", of: { wire: "string" } },
    { id: 2, name: "type", of: { wire: "i32" } },
    { id: 3, name: "length", of: { wire: "i64" } },
    { id: 4, name: "blockSize", of: { wire: "i64" } },
    { id: 5, name: "replication", of: { wire: "i16" } },
    { id: 6, name: "modifiedMs", of: { wire: "i64" } },
    { id: 7, name: "accessedMs", of: { wire: "i64" } },
    { id: 8, name: "permission", of: { wire: "i32" } },
    { id: 9, name: "owner", of: { wire: "string" } },
    { id: 10, name: "group", of: { wire: "string" } },
    { id: 11, name: "link", of: { wire: "bool" } },
  ],
};

export interface GetFileInfoReply {
  info?: FileInfo | undefined;
}

export const GetFileInfoReply: Struct<GetFileInfoReply> = {
  name: "GetFileInfoReply",
  fields: [
    { id: 1, name: "info", of: { wire: "struct", struct: FileInfo } },
  ],
};

export interface ListDirectoryRequest {
  session?: string | undefined;
  path?: string | undefined;
  cursor?: bigint | undefined;
  maxEntries?: number | undefined;
  deadlineMs?: number | undefined;
}

export const ListDirectoryRequest: Struct<ListDirectoryRequest> = {
  name: "ListDirectoryRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "path", of: { wire: "string" } },
    { id: 3, name: "cursor", of: { wire: "opaque" } },
    { id: 4, name: "maxEntries", of: { wire: "i32" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface ListDirectoryReply {
  entries?: FileInfo[] | undefined;
  cursor?: bigint | undefined;
}

export const ListDirectoryReply: Struct<ListDirectoryReply> = {
  name: "ListDirectoryReply",
  fields: [
    { id: 1, name: "entries", of: { wire: "list", element: { wire: "struct", struct: FileInfo } } },
    { id: 2, name: "cursor", of: { wire: "opaque" } },
  ],
};

export interface GetBlockLocationsRequest {
  session?: string | undefined;
  path?: string | undefined;
  offset?: number | undefined;
  length?: number | undefined;
  deadlineMs?: number | undefined;
}

export const GetBlockLocationsRequest: Struct<GetBlockLocationsRequest> = {
  name: "GetBlockLocationsRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "path", of: { wire: "string" } },
    { id: 3, name: "offset", of: { wire: "i64" } },
    { id: 4, name: "length", of: { wire: "i64" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface BlockLocation {
  offset?: number | undefined;
  length?: number | undefined;
  hosts?: string[] | undefined;
  addresses?: string[] | undefined;
  corrupt?: boolean | undefined;
}

export const BlockLocation: Struct<BlockLocation> = {
  name: "BlockLocation",
  fields: [
    { id: 1, name: "offset", of: { wire: "i64" } },
    { id: 2, name: "length", of: { wire: "i64" } },
    { id: 3, name: "hosts", of: { wire: "list", element: { wire: "string" } } },
    { id: 4, name: "addresses", of: { wire: "list", element: { wire: "string" } } },
    { id: 5, name: "corrupt", of: { wire: "bool" } },
  ],
};

export interface GetBlockLocationsReply {
  blocks?: BlockLocation[] | undefined;
}

export const GetBlockLocationsReply: Struct<GetBlockLocationsReply> = {
  name: "GetBlockLocationsReply",
  fields: [
    { id: 1, name: "blocks", of: { wire: "list", element: { wire: "struct", struct: BlockLocation } } },
  ],
};

export interface GetChecksumRequest {
  session?: string | undefined;
  path?: string | undefined;
  deadlineMs?: number | undefined;
}

export const GetChecksumRequest: Struct<GetChecksumRequest> = {
  name: "GetChecksumRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "path", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface GetChecksumReply {
  algorithm?: string | undefined;
  value?: Buffer | undefined;
}

export const GetChecksumReply: Struct<GetChecksumReply> = {
  name: "GetChecksumReply",
  fields: [
    { id: 1, name: "algorithm", of: { wire: "string" } },
    { id: 2, name: "value", of: { wire: "binary" } },
  ],
};

export interface GetStoreStatusRequest {
  session?: string | undefined;
  deadlineMs?: number | undefined;
}

export const GetStoreStatusRequest: Struct<GetStoreStatusRequest> = {
  name: "GetStoreStatusRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface GetStoreStatusReply {
  store?: StoreInfo | undefined;
  capacity?: number | undefined;
  used?: number | undefined;
  remaining?: number | undefined;
  settling?: boolean | undefined;
}

export const GetStoreStatusReply: Struct<GetStoreStatusReply> = {
  name: "GetStoreStatusReply",
  fields: [
    { id: 1, name: "store", of: { wire: "struct", struct: StoreInfo } },
    { id: 2, name: "capacity", of: { wire: "i64" } },
    { id: 3, name: "used", of: { wire: "i64" } },
    { id: 4, name: "remaining", of: { wire: "i64" } },
    { id: 5, name: "settling", of: { wire: "bool" } },
  ],
};

export interface OpenFileRequest {
  session?: string | undefined;
  path?: string | undefined;
  deadlineMs?: number | undefined;
}

export const OpenFileRequest: Struct<OpenFileRequest> = {
  name: "OpenFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "path", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface OpenFileReply {
  handle?: bigint | undefined;
  length?: number | undefined;
  identity?: Buffer | undefined;
}

export const OpenFileReply: Struct<OpenFileReply> = {
  name: "OpenFileReply",
  fields: [
    { id: 1, name: "handle", of: { wire: "opaque" } },
    { id: 2, name: "length", of: { wire: "i64" } },
    { id: 3, name: "identity", of: { wire: "binary" } },
  ],
};

export interface ReadRangeRequest {
  session?: string | undefined;
  handle?: bigint | undefined;
  offset?: number | undefined;
  length?: number | undefined;
  deadlineMs?: number | undefined;
}

export const ReadRangeRequest: Struct<ReadRangeRequest> = {
  name: "ReadRangeRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "handle", of: { wire: "opaque" } },
    { id: 3, name: "offset", of: { wire: "i64" } },
    { id: 4, name: "length", of: { wire: "i32" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface ReadRangeReply {
  data?: Buffer | undefined;
}

export const ReadRangeReply: Struct<ReadRangeReply> = {
  name: "ReadRangeReply",
  fields: [
    { id: 1, name: "data", of: { wire: "binary" } },
  ],
};

export interface CreateFileRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  overwrite?: boolean | undefined;
  permission?: number | undefined;
  replication?: number | undefined;
  blockSize?: number | undefined;
  minReplicas?: number | undefined;
  deadlineMs?: number | undefined;
}

export const CreateFileRequest: Struct<CreateFileRequest> = {
  name: "CreateFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "overwrite", of: { wire: "bool" } },
    { id: 6, name: "permission", of: { wire: "i32" } },
    { id: 7, name: "replication", of: { wire: "i16" } },
    { id: 8, name: "blockSize", of: { wire: "i64" } },
    { id: 9, name: "minReplicas", of: { wire: "i16" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface OpenWriterReply {
  handle?: bigint | undefined;
  position?: number | undefined;
}

export const OpenWriterReply: Struct<OpenWriterReply> = {
  name: "OpenWriterReply",
  fields: [
    { id: 1, name: "handle", of: { wire: "opaque" } },
    { id: 2, name: "position", of: { wire: "i64" } },
  ],
};

export interface AppendFileRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  deadlineMs?: number | undefined;
}

export const AppendFileRequest: Struct<AppendFileRequest> = {
  name: "AppendFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface AppendDataRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  handle?: bigint | undefined;
  expectedOffset?: number | undefined;
  data?: Buffer | undefined;
  deadlineMs?: number | undefined;
}

export const AppendDataRequest: Struct<AppendDataRequest> = {
  name: "AppendDataRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "handle", of: { wire: "opaque" } },
    { id: 5, name: "expectedOffset", of: { wire: "i64" } },
    { id: 6, name: "data", of: { wire: "binary" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface AppendDataReply {
  position?: number | undefined;
}

export const AppendDataReply: Struct<AppendDataReply> = {
  name: "AppendDataReply",
  fields: [
    { id: 1, name: "position", of: { wire: "i64" } },
  ],
};

export interface FlushFileRequest {
  session?: string | undefined;
  handle?: bigint | undefined;
  mode?: number | undefined;
  deadlineMs?: number | undefined;
}

export const FlushFileRequest: Struct<FlushFileRequest> = {
  name: "FlushFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "handle", of: { wire: "opaque" } },
    { id: 3, name: "mode", of: { wire: "i32" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface FlushFileReply {
  position?: number | undefined;
  replicas?: number | undefined;
}

export const FlushFileReply: Struct<FlushFileReply> = {
  name: "FlushFileReply",
  fields: [
    { id: 1, name: "position", of: { wire: "i64" } },
    { id: 2, name: "replicas", of: { wire: "i32" } },
  ],
};

export interface CloseFileRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  handle?: bigint | undefined;
  abandon?: boolean | undefined;
  deadlineMs?: number | undefined;
}

export const CloseFileRequest: Struct<CloseFileRequest> = {
  name: "CloseFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "handle", of: { wire: "opaque" } },
    { id: 5, name: "abandon", of: { wire: "bool" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface CloseFileReply {
  length?: number | undefined;
  replicas?: number | undefined;
}

export const CloseFileReply: Struct<CloseFileReply> = {
  name: "CloseFileReply",
  fields: [
    { id: 1, name: "length", of: { wire: "i64" } },
    { id: 2, name: "replicas", of: { wire: "i32" } },
  ],
};

export interface TruncateFileRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  length?: number | undefined;
  deadlineMs?: number | undefined;
}

export const TruncateFileRequest: Struct<TruncateFileRequest> = {
  name: "TruncateFileRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "length", of: { wire: "i64" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export type MutationReply = Record<string, never>;

export const MutationReply: Struct<MutationReply> = {
  name: "MutationReply",
  fields: [
  ],
};

export interface MakeDirectoriesRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  permission?: number | undefined;
  deadlineMs?: number | undefined;
}

export const MakeDirectoriesRequest: Struct<MakeDirectoriesRequest> = {
  name: "MakeDirectoriesRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "permission", of: { wire: "i32" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface RenamePathRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  source?: string | undefined;
  target?: string | undefined;
  replace?: boolean | undefined;
  deadlineMs?: number | undefined;
}

export const RenamePathRequest: Struct<RenamePathRequest> = {
  name: "RenamePathRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "source", of: { wire: "string" } },
    { id: 5, name: "target", of: { wire: "string" } },
    { id: 6, name: "replace", of: { wire: "bool" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface RemovePathRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  recursive?: boolean | undefined;
  deadlineMs?: number | undefined;
}

export const RemovePathRequest: Struct<RemovePathRequest> = {
  name: "RemovePathRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "recursive", of: { wire: "bool" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface SetAttributesRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  permission?: number | undefined;
  owner?: string | undefined;
  group?: string | undefined;
  modifiedMs?: number | undefined;
  accessedMs?: number | undefined;
  replication?: number | undefined;
  deadlineMs?: number | undefined;
}

export const SetAttributesRequest: Struct<SetAttributesRequest> = {
  name: "SetAttributesRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "permission", of: { wire: "i32" } },
    { id: 6, name: "owner", of: { wire: "string" } },
    { id: 7, name: "group", of: { wire: "string" } },
    { id: 8, name: "modifiedMs", of: { wire: "i64" } },
    { id: 9, name: "accessedMs", of: { wire: "i64" } },
    { id: 10, name: "replication", of: { wire: "i16" } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export interface ConcatFilesRequest {
  session?: string | undefined;
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
  path?: string | undefined;
  sources?: string[] | undefined;
  deadlineMs?: number | undefined;
}

export const ConcatFilesRequest: Struct<ConcatFilesRequest> = {
  name: "ConcatFilesRequest",
  fields: [
    { id: 1, name: "session", of: { wire: "string" } },
    { id: 2, name: "requestId", of: { wire: "binary" } },
    { id: 3, name: "isRetry", of: { wire: "bool" } },
    { id: 4, name: "path", of: { wire: "string" } },
    { id: 5, name: "sources", of: { wire: "list", element: { wire: "string" } } },
    { id: 15, name: "deadlineMs", of: { wire: "i32" } },
  ],
};

export const methods = {
  serverInfo: { name: "serverInfo", request: ServerInfoRequest, reply: ServerInfoReply } satisfies Method<ServerInfoRequest, ServerInfoReply>,
  openSession: { name: "openSession", request: OpenSessionRequest, reply: OpenSessionReply } satisfies Method<OpenSessionRequest, OpenSessionReply>,
  closeSession: { name: "closeSession", request: CloseSessionRequest, reply: CloseSessionReply } satisfies Method<CloseSessionRequest, CloseSessionReply>,
  getFileInfo: { name: "getFileInfo", request: GetFileInfoRequest, reply: GetFileInfoReply } satisfies Method<GetFileInfoRequest, GetFileInfoReply>,
  listDirectory: { name: "listDirectory", request: ListDirectoryRequest, reply: ListDirectoryReply } satisfies Method<ListDirectoryRequest, ListDirectoryReply>,
  getBlockLocations: { name: "getBlockLocations", request: GetBlockLocationsRequest, reply: GetBlockLocationsReply } satisfies Method<GetBlockLocationsRequest, GetBlockLocationsReply>,
  getChecksum: { name: "getChecksum", request: GetChecksumRequest, reply: GetChecksumReply } satisfies Method<GetChecksumRequest, GetChecksumReply>,
  getStoreStatus: { name: "getStoreStatus", request: GetStoreStatusRequest, reply: GetStoreStatusReply } satisfies Method<GetStoreStatusRequest, GetStoreStatusReply>,
  openFile: { name: "openFile", request: OpenFileRequest, reply: OpenFileReply } satisfies Method<OpenFileRequest, OpenFileReply>,
  readRange: { name: "readRange", request: ReadRangeRequest, reply: ReadRangeReply } satisfies Method<ReadRangeRequest, ReadRangeReply>,
  createFile: { name: "createFile", request: CreateFileRequest, reply: OpenWriterReply } satisfies Method<CreateFileRequest, OpenWriterReply>,
  appendFile: { name: "appendFile", request: AppendFileRequest, reply: OpenWriterReply } satisfies Method<AppendFileRequest, OpenWriterReply>,
  appendData: { name: "appendData", request: AppendDataRequest, reply: AppendDataReply } satisfies Method<AppendDataRequest, AppendDataReply>,
  flushFile: { name: "flushFile", request: FlushFileRequest, reply: FlushFileReply } satisfies Method<FlushFileRequest, FlushFileReply>,
  closeFile: { name: "closeFile", request: CloseFileRequest, reply: CloseFileReply } satisfies Method<CloseFileRequest, CloseFileReply>,
  truncateFile: { name: "truncateFile", request: TruncateFileRequest, reply: MutationReply } satisfies Method<TruncateFileRequest, MutationReply>,
  makeDirectories: { name: "makeDirectories", request: MakeDirectoriesRequest, reply: MutationReply } satisfies Method<MakeDirectoriesRequest, MutationReply>,
  renamePath: { name: "renamePath", request: RenamePathRequest, reply: MutationReply } satisfies Method<RenamePathRequest, MutationReply>,
  removePath: { name: "removePath", request: RemovePathRequest, reply: MutationReply } satisfies Method<RemovePathRequest, MutationReply>,
  setAttributes: { name: "setAttributes", request: SetAttributesRequest, reply: MutationReply } satisfies Method<SetAttributesRequest, MutationReply>,
  concatFiles: { name: "concatFiles", request: ConcatFilesRequest, reply: MutationReply } satisfies Method<ConcatFilesRequest, MutationReply>,
};
