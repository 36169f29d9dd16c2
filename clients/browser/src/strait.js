// Files of any store behind a Strait gateway, for pages: Thrift's binary protocol over HTTP, by fetch.
import { isKind, StraitError } from "./errors.js";
import { Reader, Writer } from "./files.js";
import { newId, Session } from "./session.js";
import { BINARY, BOOL, I16, I32, I64, LIST } from "./wire.js";

export { StraitError } from "./errors.js";
export { parseUri } from "./uri.js";

const text = (bytes) => new TextDecoder().decode(bytes);

/**
 * Opens a session.
 * @param {string} address http://host:port, https://host:port or strait://host:port; /@NAME after it names a store
 * @param {{store?: string, user?: string, password?: string, token?: string, timeoutMs?: number}} [options]
 *     timeoutMs (120 s) bounds each request as a whole
 * @returns {Promise<Client>}
 */
export async function connect(address, options = {}) {
  const session = new Session(address, options);
  await session.login();
  return new Client(session);
}

/** The files of one store. Paths are absolute within it. Every failure is a StraitError. */
export class Client {
  constructor(session) {
    this.session = session;
  }

  get user() {
    return this.session.user;
  }

  /** Stands for the login until it expires; keep it secret. */
  get token() {
    return this.session.token;
  }

  get store() {
    return this.session.store;
  }

  /** Ends the session; close its files first. */
  close() {
    return this.session.close();
  }

  async stat(path) {
    return infoOf((await this.session.call("getFileInfo", { 2: [BINARY, path] }, path)).struct(1));
  }

  async exists(path) {
    try {
      await this.stat(path);
      return true;
    } catch (error) {
      if (isKind(error, "NotFound", "NotADirectory")) return false;
      throw error;
    }
  }

  /** A directory's entries in the store's order, fetched page by page. */
  async *list(path, pageEntries) {
    const incarnation = this.session.incarnation;
    let cursor;
    try {
      do {
        const fields = { 2: [BINARY, path], 3: [I64, cursor], 4: [I32, pageEntries] };
        const isFirst = cursor === undefined;
        const page = await (isFirst ? this.session.call("listDirectory", fields, path) : this.laterPage(fields, path, incarnation));
        cursor = page.get(2);
        yield* entriesOf(page, path);
      } while (cursor !== undefined);
    } finally {
      if (cursor !== undefined) await this.session.tidy("closeFile", { 4: [I64, cursor] });
    }
  }

  /** The cursor moves with each answer, so the request for a page after the first is sent once. */
  async laterPage(fields, path, incarnation) {
    try {
      return await this.session.once("listDirectory", fields, path);
    } catch (error) {
      // The session's token isn't valid any more, or another call has logged in since.
      const isTokenOver = isKind(error, "Unauthenticated") && this.session.canLogIn;
      const isOtherSession = isKind(error, "InvalidArgument") && this.session.incarnation !== incarnation;
      if (!isTokenOver && !isOtherSession) throw error;
      throw new StraitError("Unavailable", "the gateway's session ended in the middle of the listing; list anew", path);
    }
  }

  async locate(path, offset = 0, length) {
    const fields = { 2: [BINARY, path], 3: [I64, offset], 4: [I64, length] };
    const found = await this.session.call("getBlockLocations", fields, path);
    return found.list(1).map((block) => ({ offset: block.number(1), length: block.number(2), hosts: block.list(3).map(text) }));
  }

  async checksum(path) {
    const found = await this.session.call("getChecksum", { 2: [BINARY, path] }, path);
    return { algorithm: found.text(1) ?? "", value: found.bytes(2) ?? new Uint8Array() };
  }

  async status() {
    const found = await this.session.call("getStoreStatus", {});
    return { capacity: found.number(2), used: found.number(3), remaining: found.number(4) };
  }

  open(path) {
    return Reader.open(this.session, path);
  }

  /**
   * Makes a file and its missing parents. One that exists is an error without `overwrite`.
   * @param {{overwrite?: boolean, permission?: number, replication?: number, blockSize?: number}} [options]
   */
  async create(path, { overwrite = false, permission, replication, blockSize } = {}) {
    const fields = { 4: [BINARY, path], 5: [BOOL, overwrite], 6: [I32, permission], 7: [I16, replication], 8: [I64, blockSize] };
    return new Writer(this.session, path, await this.session.call("createFile", fields, path, true));
  }

  /** Opens an existing file to go on at its end. */
  async append(path) {
    return new Writer(this.session, path, await this.session.call("appendFile", { 4: [BINARY, path] }, path, true));
  }

  async readBytes(path) {
    const file = await this.open(path);
    try {
      const parts = [];
      for await (const part of file) parts.push(part);
      return new Uint8Array(await new Blob(parts).arrayBuffer());
    } finally {
      await file.close();
    }
  }

  async readText(path) {
    return text(await this.readBytes(path));
  }

  /** Makes or replaces a file, of a string or bytes. */
  async writeFile(path, data) {
    const file = await this.create(path, { overwrite: true });
    try {
      await file.write(data);
      await file.close();
    } catch (error) {
      await file.abandon();
      throw error;
    }
  }

  /**
   * Copies a File or Blob to a file, which appears, or is replaced, only when it is complete. In a directory it gets
   * the File's name.
   */
  async put(source, path, { overwrite = false } = {}) {
    let there = await this.statOrNone(path);
    let target = path;
    if (there?.isDirectory) {
      target = `${path.replace(/\/+$/, "")}/${source.name}`;
      there = await this.statOrNone(target);
    }
    if (there && !overwrite) throw new StraitError("AlreadyExists", "the path is taken", target);
    if (there?.isDirectory) throw new StraitError("IsADirectory", "the target is a directory", target);
    const hex = Array.from(newId(), (byte) => byte.toString(16).padStart(2, "0")).join("");
    const temporary = `${target.slice(0, target.lastIndexOf("/") + 1)}.strait-put-${hex}`;
    try {
      await source.stream().pipeTo((await this.create(temporary)).stream());
      const canReplace = this.store.capabilities.has("rename_replace");
      if (there && !canReplace) await this.remove(target);
      await this.rename(temporary, target, { replace: overwrite && canReplace });
    } catch (error) {
      await this.session.tidy("removePath", { 4: [BINARY, temporary] }, true);
      if (error.path !== temporary) throw error;
      // Nobody knows the temporary name.
      throw new StraitError(error.kind, error.message.replaceAll(temporary, target), target, error.retrySafe);
    }
  }

  async statOrNone(path) {
    return this.stat(path).catch((error) => {
      if (isKind(error, "NotFound")) return undefined;
      throw error;
    });
  }

  async mkdirs(path, permission) {
    await this.session.call("makeDirectories", { 4: [BINARY, path], 5: [I32, permission] }, path, true);
  }

  async rename(source, target, { replace = false } = {}) {
    const fields = { 4: [BINARY, source], 5: [BINARY, target], 6: [BOOL, replace] };
    await this.session.call("renamePath", fields, source, true);
  }

  async remove(path, { recursive = false } = {}) {
    await this.session.call("removePath", { 4: [BINARY, path], 5: [BOOL, recursive] }, path, true);
  }

  /** @param {{permission?: number, owner?: string, group?: string, modified?: Date, accessed?: Date, replication?: number}} set */
  async setAttributes(path, { permission, owner, group, modified, accessed, replication }) {
    const fields = {
      4: [BINARY, path], 5: [I32, permission], 6: [BINARY, owner], 7: [BINARY, group],
      8: [I64, modified?.getTime()], 9: [I64, accessed?.getTime()], 10: [I16, replication],
    };
    await this.session.call("setAttributes", fields, path, true);
  }

  /** Cuts a closed file. */
  async truncate(path, length) {
    await this.session.call("truncateFile", { 4: [BINARY, path], 5: [I64, length] }, path, true);
  }

  /** Moves the sources' bytes, in order, to the end of a closed file, in one step. */
  async concat(path, sources) {
    await this.session.call("concatFiles", { 4: [BINARY, path], 5: [LIST, sources] }, path, true);
  }
}

/** A page's entries, all of them the directory's: programs join their names to paths of their own. */
function entriesOf(page, path) {
  const entries = page.list(1).map(infoOf);
  const fail = (why) => {
    throw new StraitError("Internal", `list ${path}: the gateway ${why}`, path);
  };
  if (!entries.length && page.has(2)) fail("sent an empty page that isn't the last (a defect of the gateway)");
  const directory = path.split("/").filter((name) => name !== "").map((name) => `/${name}`).join("");
  for (const entry of entries) {
    const isSound = !["", ".", ".."].includes(entry.name) && !entry.name.includes("\0");
    const isChild = isSound && entry.path === `${directory}/${entry.name}`;
    if (!isChild) fail(`named ${entry.path}, which isn't in this directory`);
  }
  return entries;
}

function infoOf(found) {
  const path = found.text(1) ?? "";
  return {
    path,
    name: path.slice(path.lastIndexOf("/") + 1),
    isDirectory: found.number(2) === 2,
    length: found.number(3),
    blockSize: found.number(4),
    replication: found.number(5),
    modified: new Date(found.number(6)),
    accessed: new Date(found.number(7)),
    permission: found.number(8),
    owner: found.text(9) ?? "",
    group: found.text(10) ?? "",
  };
}
