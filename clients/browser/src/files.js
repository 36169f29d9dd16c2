import { isKind, StraitError } from "./errors.js";
import { BINARY, BOOL, I32, I64 } from "./wire.js";

const MAX_CHUNK_BYTES = 1 << 20;
const encoder = new TextEncoder();

const joined = (parts, length) => {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};

/** An open file to read: `for await`, a ReadableStream, or ranges. */
export class Reader {
  constructor(session, path) {
    this.session = session;
    this.path = path;
    this.position = 0;
  }

  static async open(session, path) {
    const reader = new Reader(session, path);
    await reader.reopen();
    return reader;
  }

  async reopen() {
    const found = await this.session.call("openFile", { 2: [BINARY, this.path] }, this.path);
    const [length, identity] = [found.number(2), String(found.bytes(3))];
    if (this.handle !== undefined && (identity !== this.identity || length < this.length)) {
      throw new StraitError("Unavailable", "the file was replaced while it was read", this.path);
    }
    Object.assign(this, { handle: found.get(1), length, identity });
  }

  async range(offset, length) {
    const count = Math.min(length, this.session.chunkBytes);
    const ask = async () => {
      const fields = { 2: [I64, this.handle], 3: [I64, offset], 4: [I32, count] };
      return (await this.session.call("readRange", fields, this.path)).bytes(1) ?? new Uint8Array();
    };
    const used = this.handle;
    try {
      return await ask();
    } catch (error) {
      // The handle ended with its session: opened again once.
      if (!isKind(error, "InvalidArgument", "NotFound", "Unauthenticated")) throw error;
      if (used === this.handle) await this.reopen();
      return ask();
    }
  }

  /** Reads from an offset, up to this many bytes; fewer at the end of the file. The position stays. */
  async readAt(offset, length) {
    if (offset < 0 || length < 0) throw new StraitError("InvalidArgument", "a negative offset or length", this.path);
    const parts = [];
    let done = 0;
    while (done < length) {
      const part = await this.range(offset + done, length - done);
      if (part.length === 0) break;
      parts.push(part);
      done += part.length;
    }
    return parts.length === 1 ? parts[0] : joined(parts, done);
  }

  /** Reads on, up to this many bytes; none at the end. */
  async read(length = MAX_CHUNK_BYTES) {
    const bytes = await this.readAt(this.position, length);
    this.position += bytes.length;
    return bytes;
  }

  async *[Symbol.asyncIterator]() {
    for (let part; (part = await this.read()).length > 0; ) yield part;
  }

  /** The rest of the file; the end, and a cancellation, close it. */
  stream() {
    return new ReadableStream({
      pull: async (target) => {
        const part = await this.read();
        if (part.length > 0) return target.enqueue(part);
        await this.close();
        target.close();
      },
      cancel: () => this.close(),
    });
  }

  async close() {
    await this.session.tidy("closeFile", { 4: [I64, this.handle] });
  }
}

/**
 * An open file to write at its end, for one caller at a time. After NoSpace and Unavailable it is still open, keeps the
 * bytes that the gateway hasn't taken, and sends them again with the next call.
 */
export class Writer {
  constructor(session, path, opened) {
    this.session = session;
    this.path = path;
    this.handle = opened.get(1);
    this.sent = opened.number(2);
    this.incarnation = session.incarnation;
    this.pending = new Uint8Array(session.chunkBytes);
    this.filled = 0;
    this.closed = false;
  }

  /** The file's length, with all bytes written here. */
  get position() {
    return this.sent + this.filled;
  }

  /** A write of up to 1 MiB that fails has taken nothing. */
  async write(data) {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    for (let at = 0; at < bytes.length; ) {
      const wanted = Math.min(bytes.length - at, this.pending.length);
      if (this.filled + wanted > this.pending.length) await this.send();
      const taken = Math.min(bytes.length - at, this.pending.length - this.filled);
      this.pending.set(bytes.subarray(at, at + taken), this.filled);
      this.filled += taken;
      at += taken;
    }
  }

  async send() {
    if (this.filled === 0) return;
    const data = this.pending.subarray(0, this.filled);
    await this.guarded("appendData", { 4: [I64, this.handle], 5: [I64, this.sent], 6: [BINARY, data] }, true);
    this.sent += this.filled;
    this.filled = 0;
  }

  /** After NoSpace and Unavailable the file goes on; after other errors it is over. */
  async guarded(method, fields, changes) {
    if (this.closed) throw this.failed ?? new StraitError("InvalidArgument", "the file is closed", this.path);
    try {
      return await this.session.call(method, fields, this.path, changes);
    } catch (error) {
      if (isKind(error, "NoSpace", "Unavailable")) throw error;
      this.closed = true;
      const isOther = this.incarnation !== this.session.incarnation;
      const isGone = isKind(error, "Unauthenticated") || (isKind(error, "InvalidArgument") && isOther);
      this.failed = isGone ? new StraitError("OutcomeUnknown", "the session ended while the file was written", this.path) : error;
      throw this.failed;
    }
  }

  /** Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing. */
  async flush() {
    await this.send();
    await this.guarded("flushFile", { 2: [I64, this.handle], 3: [I32, 1] }, false);
  }

  /** Puts the written bytes on stable storage. In object stores it promises nothing. */
  async sync() {
    await this.send();
    await this.guarded("flushFile", { 2: [I64, this.handle], 3: [I32, 2] }, false);
  }

  /** Puts all bytes on stable storage (except in HDFS), and ends the file. */
  async close() {
    await this.send();
    await this.guarded("closeFile", { 4: [I64, this.handle] }, true);
    this.closed = true;
  }

  /** Ends the file. Flushed bytes stay; other bytes may be lost. */
  async abandon() {
    if (!this.closed) await this.session.tidy("closeFile", { 4: [I64, this.handle], 5: [BOOL, 1] }, true);
    this.closed = true;
  }

  /** For `pipeTo`: its end closes the file, an abort gives it up. */
  stream() {
    return new WritableStream({ write: (part) => this.write(part), close: () => this.close(), abort: () => this.abandon() });
  }
}
