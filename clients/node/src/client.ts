import type { Readable, Writable } from "node:stream";
import type { TlsOptions, Wire } from "./connection.js";
import { isKind, StraitError } from "./errors.js";
import { methods } from "./messages.js";
import { FileReader } from "./reader.js";
import { Session } from "./session.js";
import * as transfer from "./transfer.js";
import type { CopyOptions } from "./transfer.js";
import { blockLocation, fileInfo, storeInfo } from "./types.js";
import type {
  Attributes, BlockLocation, Checksum, CreateOptions, FileInfo, ServerInfo, StoreInfo, StoreStatus,
} from "./types.js";
import { parseAddress } from "./uri.js";
import { FileWriter } from "./writer.js";

// Longer than the minute or so after which a store drops a machine that has gone away.
const DEFAULT_TIMEOUT_MS = 120_000;
const WIRES = ["framed-binary", "binary", "framed-compact", "compact"];

export interface ConnectOptions {
  /** One of the gateway's stores; its default store otherwise. */
  store?: string;
  user?: string;
  password?: string;
  /** Of an earlier session, in place of user and password. */
  token?: string;
  /** True for the certificates that Node trusts, or the options of `node:tls`. */
  tls?: boolean | TlsOptions;
  /** Bounds each request with all that belongs to it: 120 s by default. */
  timeoutMs?: number;
  wire?: Wire;
}

/**
 * Opens a session at the gateway `strait://host:port/@store` or `host:port`. Without TLS it sends no
 * password and no token to another machine.
 */
export async function connect(address: string, options: ConnectOptions = {}): Promise<Client> {
  const { host, port, store } = parseAddress(address);
  const { timeoutMs = DEFAULT_TIMEOUT_MS, wire = "framed-binary", tls = false } = options;
  if (store !== undefined && options.store !== undefined && store !== options.store) {
    const message = `the address names the store ${store}, and the option names ${options.store}; give one`;
    throw new StraitError("InvalidArgument", message);
  }
  if (!(timeoutMs > 0)) throw new StraitError("InvalidArgument", `no time limit: ${timeoutMs}`);
  if (!WIRES.includes(wire)) {
    throw new StraitError("InvalidArgument", `invalid wire ${wire}: give one of ${WIRES.join(", ")}`);
  }
  const session = await Session.open({
    host,
    port,
    wire,
    timeoutMs,
    tls: tls === true ? {} : tls === false ? undefined : tls,
    store: store ?? options.store,
    user: options.user,
    password: options.password,
    token: options.token,
  });
  return new Client(session);
}

/** The files of one store, as one user. Any number of calls may be under way at once. */
export class Client {
  /** @internal */
  constructor(readonly session: Session) {}

  /** As whom the gateway acts. */
  get user(): string {
    return this.session.user;
  }

  /** Stands for the login until it expires; keep it secret. */
  get token(): string | undefined {
    return this.session.token;
  }

  /** The store of this session. */
  get store(): StoreInfo {
    return this.session.store;
  }

  /** Ends the session; close its files first. */
  close(): Promise<void> {
    return this.session.close();
  }

  async serverInfo(): Promise<ServerInfo> {
    const reply = await this.session.call(methods.serverInfo, {});
    return {
      server: reply.server ?? "",
      protocolVersion: reply.version ?? 0,
      stores: (reply.stores ?? []).map(storeInfo),
    };
  }

  /** Capacity and use of the whole store. */
  async status(): Promise<StoreStatus> {
    const reply = await this.session.call(methods.getStoreStatus, {});
    const { capacity = 0, used = 0, remaining = 0, settling = false } = reply;
    return { capacity, used, remaining, settling };
  }

  // -- Looking

  async stat(path: string): Promise<FileInfo> {
    const { info } = await this.session.call(methods.getFileInfo, { path }, path);
    if (info === undefined) {
      const message = "stat: the gateway's reply has no file status (a defect of the gateway)";
      throw new StraitError("Internal", message, path);
    }
    return fileInfo(info);
  }

  async exists(path: string): Promise<boolean> {
    try {
      await this.stat(path);
      return true;
    } catch (error) {
      if (isKind(error, "NotFound", "NotADirectory")) return false;
      throw error;
    }
  }

  /** A directory's entries, in the store's own order; fetched page by page. A file is listed as itself. */
  async *list(path: string, pageSize?: number): AsyncGenerator<FileInfo, void, undefined> {
    const incarnation = this.session.incarnation;
    let cursor: bigint | undefined;
    let isOver = false;
    try {
      do {
        const page = await this.page(path, cursor, pageSize, incarnation);
        cursor = page.cursor;
        isOver = cursor === undefined;
        yield* page.entries;
      } while (!isOver);
    } finally {
      if (!isOver && cursor !== undefined) await this.session.release(cursor);
    }
  }

  private async page(
    path: string,
    cursor: bigint | undefined,
    maxEntries: number | undefined,
    incarnation: bigint | undefined,
  ): Promise<{ entries: FileInfo[]; cursor: bigint | undefined }> {
    const request = { path, cursor, maxEntries };
    try {
      const reply = await (cursor === undefined
        ? this.session.call(methods.listDirectory, request, path)
        : // A cursor is good for one page.
          this.session.callOnce(methods.listDirectory, request, path));
      const entries = (reply.entries ?? []).map(fileInfo);
      if (entries.length === 0 && reply.cursor !== undefined) {
        const message = "list: the gateway sent an empty page that isn't the last (a defect of the gateway)";
        throw new StraitError("Internal", message, path);
      }
      checkEntries(path, entries);
      return { entries, cursor: reply.cursor };
    } catch (error) {
      const isNewSession = cursor !== undefined && this.session.incarnation !== incarnation;
      if (!isNewSession || !isKind(error, "InvalidArgument")) throw error;
      // Another gateway answered: an unknown cursor isn't the caller's mistake.
      const message = "the gateway's session ended in the middle of the listing; list anew";
      throw new StraitError("Unavailable", message, path);
    }
  }

  /** The blocks of a range of a file, to its end without `length`, and their hosts. */
  async locate(path: string, offset = 0, length?: number): Promise<BlockLocation[]> {
    const request = { path, offset, length };
    const reply = await this.session.call(methods.getBlockLocations, request, path);
    return (reply.blocks ?? []).map(blockLocation);
  }

  /** The store's own checksum of a file. */
  async checksum(path: string): Promise<Checksum> {
    const reply = await this.session.call(methods.getChecksum, { path }, path);
    return { algorithm: reply.algorithm ?? "", value: reply.value ?? Buffer.alloc(0) };
  }

  // -- Files

  /** Opens a file to read. */
  open(path: string): Promise<FileReader> {
    return FileReader.open(this.session, path);
  }

  /** Makes a file and its missing parents; `overwrite` replaces an existing one. */
  async create(path: string, options: CreateOptions & { overwrite?: boolean } = {}): Promise<FileWriter> {
    const request = { path, overwrite: false, ...options };
    const opened = await this.session.mutate(methods.createFile, request, path);
    return new FileWriter(this.session, path, opened);
  }

  /** Opens an existing file to append at its end. */
  async append(path: string): Promise<FileWriter> {
    const opened = await this.session.mutate(methods.appendFile, { path }, path);
    return new FileWriter(this.session, path, opened);
  }

  /** A whole file. */
  async readFile(path: string): Promise<Buffer>;
  async readFile(path: string, encoding: BufferEncoding): Promise<string>;
  async readFile(path: string, encoding?: BufferEncoding): Promise<Buffer | string> {
    const file = await this.open(path);
    try {
      const data = await file.readAll();
      return encoding === undefined ? data : data.toString(encoding);
    } finally {
      await file.close();
    }
  }

  /** Makes or replaces a file with these bytes. */
  async writeFile(path: string, data: Uint8Array | string, options: CreateOptions = {}): Promise<void> {
    const file = await this.create(path, { ...options, overwrite: true });
    try {
      await file.write(data);
      await file.close();
    } finally {
      if (!file.closed) await file.abandon();
    }
  }

  /** A file as a stream of `node:stream`. */
  async createReadStream(path: string): Promise<Readable> {
    return (await this.open(path)).stream();
  }

  /** A stream that makes or replaces a file. */
  async createWriteStream(path: string, options: CreateOptions = {}): Promise<Writable> {
    return (await this.create(path, { ...options, overwrite: true })).stream();
  }

  /** Copies a file to a local path, which appears only when it is complete; gives its bytes. */
  get(path: string, local: string, options: CopyOptions = {}): Promise<number> {
    return transfer.get(this, path, local, options);
  }

  /**
   * Copies a local file, which appears only when it is complete; gives its bytes. If `path` is a
   * directory, the copy goes into it.
   */
  put(local: string, path: string, options: CopyOptions = {}): Promise<number> {
    return transfer.put(this, local, path, options);
  }

  // -- Changing names

  /** Makes a directory and its missing parents; an existing directory is success. */
  async mkdirs(path: string, permission?: number): Promise<void> {
    await this.session.mutate(methods.makeDirectories, { path, permission }, path);
  }

  /** Renames; `target` is the new name itself. With `replace`, a file there gives way. */
  async rename(source: string, target: string, options: { replace?: boolean } = {}): Promise<void> {
    const request = { source, target, replace: options.replace ?? false };
    await this.session.mutate(methods.renamePath, request, source);
  }

  /** Removes a file or an empty directory; with `recursive`, a directory with all in it. */
  async remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    await this.session.mutate(methods.removePath, { path, recursive: options.recursive ?? false }, path);
  }

  // -- Changing attributes

  async setAttributes(path: string, attributes: Attributes): Promise<void> {
    const { modified, accessed, ...others } = attributes;
    const request = { path, ...others, modifiedMs: modified?.getTime(), accessedMs: accessed?.getTime() };
    await this.session.mutate(methods.setAttributes, request, path);
  }

  /** Cuts a closed file to `length` bytes. */
  async truncate(path: string, length: number): Promise<void> {
    await this.session.mutate(methods.truncateFile, { path, length }, path);
  }

  /**
   * Moves the bytes of `sources`, in order, to the end of a closed file, and removes the sources: in one step,
   * and without a copy. The store needs the capability "concat".
   */
  async concat(path: string, sources: string[]): Promise<void> {
    await this.session.mutate(methods.concatFiles, { path, sources }, path);
  }
}

/** Refuses entries that aren't in the listed directory: their names could lead a program out of it. */
function checkEntries(path: string, entries: FileInfo[]): void {
  // As the gateway has it: without repeated slashes, and in UTF-8.
  const listed = `/${Buffer.from(path).toString().split("/").filter((name) => name !== "").join("/")}`;
  const directory = listed === "/" ? listed : `${listed}/`;
  for (const entry of entries) {
    const isName = !["", ".", ".."].includes(entry.name) && !entry.name.includes("\0");
    const isIn = isName && entry.path === directory + entry.name;
    // A file is listed as itself.
    if (isIn || (entry.path === listed && entry.isFile)) continue;
    const message = `list: the gateway named ${JSON.stringify(entry.path)}, which isn't in this directory`;
    throw new StraitError("Internal", message, path);
  }
}
