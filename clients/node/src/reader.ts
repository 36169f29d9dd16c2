import { Readable } from "node:stream";
import type { Connection } from "./connection.js";
import { isKind, StraitError } from "./errors.js";
import { methods } from "./messages.js";
import type { Session } from "./session.js";

/** Bytes of a request, and requests in flight of one file: 16 MiB are 134 ms of 1 Gbit/s. */
export const CHUNK_BYTES = 1 << 20;
export const WINDOW = 16;

interface Ahead {
  offset: number;
  length: number;
  data: Promise<Buffer>;
}

/** A remote file open to read. Its reads run one after the other, `readAt` excepted. */
export class FileReader {
  private handle = 0n;
  private identity: Buffer | undefined;
  private fileLength = 0;
  private offset = 0;
  private sequentialFrom = -1; // a read at this position continues the one before
  private rest: Buffer = Buffer.alloc(0); // at `offset`, from a chunk ahead
  private ahead: Ahead[] = [];
  private next = 0; // not yet requested
  private window = 1;
  private connection: Connection | undefined; // while requests are in flight
  private isClosed = false;
  private readonly chunk: number; // bytes of a request ahead; the session's may change
  private turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly session: Session,
    /** The path in the store. */
    readonly path: string,
  ) {
    this.chunk = Math.min(CHUNK_BYTES, session.maxChunkBytes);
  }

  static async open(session: Session, path: string): Promise<FileReader> {
    const reader = new FileReader(session, path);
    await reader.open(session.deadline());
    return reader;
  }

  private async open(deadline: number): Promise<void> {
    const reply = await this.session.call(methods.openFile, { path: this.path }, this.path, deadline);
    const length = reply.length ?? 0;
    if (this.isClosed) {
      void this.session.release(reply.handle ?? 0n); // `close` didn't know this handle
      this.checkOpen();
    }
    const isOther = this.identity && reply.identity && !this.identity.equals(reply.identity);
    if (length < this.fileLength || isOther) {
      void this.session.release(reply.handle ?? 0n);
      const by = isOther ? "another" : "a shorter one";
      throw new StraitError("Unavailable", `the file was replaced by ${by}`, this.path, false);
    }
    this.handle = reply.handle ?? 0n;
    this.fileLength = length;
    if (reply.identity) this.identity = Buffer.from(reply.identity);
  }

  /** Bytes of the file when it was opened. */
  get length(): number {
    return this.fileLength;
  }

  /** Where the next `read` begins; it may be set, also past the end. */
  get position(): number {
    return this.offset;
  }

  set position(position: number) {
    this.checkCount(position, "position");
    if (position !== this.offset) {
      this.offset = position;
      this.stopAhead();
      this.sequentialFrom = -1;
    }
  }

  /** Up to `length` bytes, at least one; an empty buffer at the end of the file. */
  read(length: number): Promise<Buffer> {
    return this.inTurn(async () => {
      this.checkCount(length, "length");
      if (length === 0) return Buffer.alloc(0);
      if (this.rest.length === 0) this.rest = await this.nextBytes(length);
      const part = this.rest.subarray(0, length);
      this.rest = this.rest.subarray(part.length);
      this.offset += part.length;
      this.sequentialFrom = this.offset;
      return part;
    });
  }

  /** The rest of the file. */
  async readAll(): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Up to `length` bytes from `offset`, fewer only at the end. Any number at once; `position` stays. */
  async readAt(offset: number, length: number): Promise<Buffer> {
    this.checkOpen();
    this.checkCount(offset, "offset");
    this.checkCount(length, "length");
    const parts: Buffer[] = [];
    let filled = 0;
    while (filled < length) {
      const part = await this.readOnce(offset + filled, length - filled, this.session.deadline());
      if (part.length === 0) break;
      parts.push(part);
      filled += part.length;
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  /** The rest of the file in pieces, several requests ahead. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    this.sequentialFrom = this.offset;
    for (let part; (part = await this.read(CHUNK_BYTES)).length > 0; ) yield part;
  }

  /** The rest of the file; its end closes the file. */
  stream(): Readable {
    const readable = Readable.from(this, { objectMode: false, highWaterMark: CHUNK_BYTES });
    readable.once("close", () => void this.close());
    return readable;
  }

  /** Closes the file at the gateway. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.stopAhead();
    await this.session.release(this.handle);
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.turn.then(() => {
      this.checkOpen();
      return work();
    });
    this.turn = result.catch(() => {});
    return result;
  }

  private checkOpen(): void {
    if (this.isClosed) throw new StraitError("InvalidArgument", "the file is closed", this.path);
  }

  private checkCount(value: number, what: string): void {
    if (Number.isSafeInteger(value) && value >= 0) return;
    throw new StraitError("InvalidArgument", `invalid ${what} ${value}: give a whole number from 0 to 2^53`, this.path);
  }

  // -- Ahead

  private async nextBytes(wanted: number): Promise<Buffer> {
    const deadline = this.session.deadline();
    const isSequential = this.sequentialFrom === this.offset || wanted >= this.chunk;
    if (isSequential && this.offset < this.fileLength) {
      try {
        const data = await this.fromAhead(deadline);
        if (data.length > 0) return data;
      } catch (error) {
        if (isKind(error, "TimedOut")) throw error; // the time is over for another try too
        // A single request, with its retries, tries again or reports the error.
      }
    }
    this.stopAhead();
    return this.readOnce(this.offset, wanted, deadline);
  }

  private async fromAhead(deadline: number): Promise<Buffer> {
    if (this.connection === undefined) {
      this.connection = await this.session.borrow(deadline, undefined, true);
      this.next = this.offset;
      this.window = 1;
    }
    this.fillWindow();
    const first = this.ahead.shift();
    if (first === undefined || first.offset !== this.offset) return Buffer.alloc(0);
    const data = await first.data;
    if (data.length > first.length) {
      throw new StraitError("Internal", "the gateway sent more bytes than asked for", this.path);
    }
    // As in TCP's slow start: a reader of few bytes doesn't pay for many.
    this.window = Math.min(WINDOW, this.window + 1);
    if (data.length < first.length) this.stopAhead(); // the next read begins behind it
    else this.fillWindow();
    return data;
  }

  private fillWindow(): void {
    while (this.connection && this.ahead.length < this.window && this.next < this.fileLength) {
      const length = Math.min(this.chunk, this.fileLength - this.next);
      const request = { handle: this.handle, offset: this.next, length };
      const data = this.connection
        .call(methods.readRange, request, this.session.deadline(), this.path)
        .then((reply) => reply.data ?? Buffer.alloc(0));
      data.catch(() => {}); // it may be dropped
      this.ahead.push({ offset: this.next, length, data });
      this.next += length;
    }
  }

  private stopAhead(): void {
    this.rest = Buffer.alloc(0);
    this.ahead = [];
    if (this.connection !== undefined) this.session.giveBack(this.connection);
    this.connection = undefined;
  }

  // -- Single requests

  private async readOnce(offset: number, length: number, deadline: number): Promise<Buffer> {
    const { handle } = this;
    try {
      return await this.requestRange(offset, length, deadline);
    } catch (error) {
      if (!isKind(error, "InvalidArgument", "NotFound", "Unauthenticated")) throw error;
      this.checkOpen();
      // The handle is gone, for example because the session ended.
      if (handle === this.handle) await this.open(deadline);
      return this.requestRange(offset, length, deadline);
    }
  }

  private async requestRange(offset: number, length: number, deadline: number): Promise<Buffer> {
    const most = Math.min(length, this.session.maxChunkBytes);
    const request = { handle: this.handle, offset, length: most };
    const { data } = await this.session.call(methods.readRange, request, this.path, deadline);
    if (data !== undefined && data.length > most) {
      throw new StraitError("Internal", "the gateway sent more bytes than asked for", this.path);
    }
    return data ?? Buffer.alloc(0);
  }
}
