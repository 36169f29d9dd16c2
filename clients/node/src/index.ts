/** Files of many distributed file systems, through a Strait gateway. */
export { Client, connect } from "./client.js";
export type { ConnectOptions } from "./client.js";
export type { TlsOptions, Wire } from "./connection.js";
export { StraitError } from "./errors.js";
export type { ErrorKind } from "./errors.js";
export type { FileReader } from "./reader.js";
export type { CopyOptions } from "./transfer.js";
export type {
  Attributes, BlockLocation, Checksum, CreateOptions, FileInfo, ServerInfo, StoreInfo, StoreStatus,
} from "./types.js";
export { parseUri } from "./uri.js";
export type { StraitUri } from "./uri.js";
export type { FileWriter } from "./writer.js";
