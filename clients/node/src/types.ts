import * as wire from "./messages.js";

const DIRECTORY = 2; // FileType.DIRECTORY

/** A store's record of one path. */
export interface FileInfo {
  path: string;
  /** The last component of the path. */
  name: string;
  isDirectory: boolean;
  isFile: boolean;
  /** Bytes; 0 for a directory. */
  length: number;
  /** Bytes a block; 0 for a directory. */
  blockSize: number;
  /** Requested replicas; 0 for a directory. */
  replication: number;
  modified: Date;
  /** 1970 if the store doesn't keep it. */
  accessed: Date;
  /** Permission bits, 0o7777 at most. */
  permission: number;
  owner: string;
  group: string;
}

/** One block of a file and its location. */
export interface BlockLocation {
  offset: number;
  length: number;
  /** Nearest first if the store sorts them. */
  hosts: string[];
  /** host:port of the data service on each host; may be empty. */
  addresses: string[];
  /** The store knows no good replica. */
  corrupt: boolean;
}

/** A store that the gateway's operator configured. */
export interface StoreInfo {
  name: string;
  uri: string;
  /** Names of the store's abilities, for example "append". */
  capabilities: ReadonlySet<string>;
  /** An abandoned file is writable again after this many milliseconds at the latest. */
  recoveryMs: number;
}

export interface ServerInfo {
  /** The program and its version, for people. */
  server: string;
  protocolVersion: number;
  stores: StoreInfo[];
}

/** Capacity of a whole store, in bytes. */
export interface StoreStatus {
  capacity: number;
  used: number;
  remaining: number;
  /** The store has just started: blocks without hosts may still exist. */
  settling: boolean;
}

/** Comparable under the same algorithm only. */
export interface Checksum {
  algorithm: string;
  value: Buffer;
}

/** Settings of a new file; the store has a default for each. */
export interface CreateOptions {
  /** Permission bits, exactly as the file gets them (no umask). */
  permission?: number;
  replication?: number;
  /** Bytes a block. */
  blockSize?: number;
  /** With fewer replicas on disk, sync and close fail. It can only raise the store's own minimum. */
  minReplicas?: number;
}

/** Attributes to set; the others stay. */
export interface Attributes {
  permission?: number;
  owner?: string;
  group?: string;
  modified?: Date;
  accessed?: Date;
  replication?: number;
}

export function fileInfo(info: wire.FileInfo): FileInfo {
  const path = info.path ?? "";
  const isDirectory = info.type === DIRECTORY;
  return {
    path,
    name: path.slice(path.lastIndexOf("/") + 1),
    isDirectory,
    isFile: !isDirectory,
    length: info.length ?? 0,
    blockSize: info.blockSize ?? 0,
    replication: info.replication ?? 0,
    modified: new Date(info.modifiedMs ?? 0),
    accessed: new Date(info.accessedMs ?? 0),
    permission: info.permission ?? 0,
    owner: info.owner ?? "",
    group: info.group ?? "",
  };
}

export function blockLocation(block: wire.BlockLocation): BlockLocation {
  return {
    offset: block.offset ?? 0,
    length: block.length ?? 0,
    hosts: block.hosts ?? [],
    addresses: block.addresses ?? [],
    corrupt: block.corrupt ?? false,
  };
}

export function storeInfo(store: wire.StoreInfo): StoreInfo {
  return {
    name: store.name ?? "",
    uri: store.uri ?? "",
    capabilities: new Set(store.capabilities ?? []),
    recoveryMs: store.recoveryMs ?? 0,
  };
}
