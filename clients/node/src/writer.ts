import { Writable } from "node:stream";
import type { Connection } from "./connection.js";
import { isKind, LostError, StraitError } from "./errors.js";
import { methods } from "./messages.js";
import type { AppendDataReply, AppendDataRequest, OpenWriterReply } from "./messages.js";
import { CHUNK_BYTES, WINDOW } from "./reader.js";
import { newRequestId } from "./session.js";
import type { Session } from "./session.js";

const FLUSH = 1; // FlushMode
const SYNC = 2;
/** Appends that are answered at once: seldom more than these. */
const SPARE = 4;

type Append = AppendDataRequest & { data: Buffer; expectedOffset: number };

/**
 * A remote file open to write at its end. `write` resolves when the bytes are on their way; a later
 * call reports an error, `flush`, `sync` or `close` at the latest. Its calls run one after the other.
 *
 * After `NoSpace` and `Unavailable` the file stays open: it keeps the bytes that the gateway hasn't
 * taken, and sends them again with the next call, each of which may be repeated.
 */
export class FileWriter {
  /** Replicas that held all bytes, at least, at the last `flush`, `sync` or `close`, if the store tells. */
  replicas: number | undefined;
  private readonly handle: bigint;
  private readonly incarnation: bigint | undefined;
  private readonly chunkBytes: number; // of an append of full length; the session's may change
  private sent: number; // the file's length with all appends
  private pending: Buffer[] = []; // not yet a request
  private pendingBytes = 0;
  private spare: Buffer[] = []; // memory of answered appends of full length: new memory costs page faults
  // Appends without a reply, in order. The first of them are in flight; the others have to be sent
  // (again).
  private kept: Append[] = [];
  private inFlight: Promise<AppendDataReply>[] = [];
  private connection: Connection | undefined; // while appends are in flight
  private failure: unknown;
  private refusal: StraitError | undefined; // the latest error, if the file goes on after it
  private isClosed = false;
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly session: Session,
    /** The path in the store. */
    readonly path: string,
    opened: OpenWriterReply,
  ) {
    this.handle = opened.handle ?? 0n;
    this.incarnation = session.incarnation;
    this.chunkBytes = Math.min(CHUNK_BYTES, session.maxChunkBytes);
    this.sent = opened.position ?? 0;
  }

  /** The file's length with everything written. */
  get position(): number {
    return this.sent + this.pendingBytes;
  }

  /** False after `NoSpace` and `Unavailable`, even of `close`. */
  get closed(): boolean {
    return this.isClosed;
  }

  /** Takes all bytes, or none; text is UTF-8. */
  write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    return this.inTurn(async () => {
      await this.settle(WINDOW - 1);
      const chunk = this.chunkBytes;
      for (let at = 0; at < bytes.length; ) {
        const part = bytes.subarray(at, at + chunk - this.pendingBytes);
        this.pending.push(this.copied([part], part.length)); // the caller may use its memory again
        this.pendingBytes += part.length;
        at += part.length;
        if (this.pendingBytes < chunk) continue;
        await this.sendPending();
        if (this.refusal === undefined) await this.settle(WINDOW - 1).catch((error) => this.orLater(error));
      }
    });
  }

  private copied(parts: Uint8Array[], bytes: number): Buffer {
    const isFull = bytes === this.chunkBytes;
    const spare = isFull ? this.spare.pop() : undefined;
    const copy = spare?.length === bytes ? spare : Buffer.allocUnsafe(bytes);
    let at = 0;
    for (const part of parts) {
      copy.set(part, at);
      at += part.length;
    }
    return copy;
  }

  /** Bytes are taken already: an error after which the file goes on is the next call's. */
  private orLater(error: unknown): void {
    if (!this.mayGoOn(error)) throw error;
  }

  /** Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing. */
  flush(): Promise<void> {
    return this.inTurn(() => this.flushAs(FLUSH));
  }

  /** Puts the written bytes on stable storage. In object stores it promises nothing. */
  sync(): Promise<void> {
    return this.inTurn(() => this.flushAs(SYNC));
  }

  private async flushAs(mode: number): Promise<void> {
    await this.sendAll();
    try {
      const request = { handle: this.handle, mode };
      this.replicas = (await this.session.call(methods.flushFile, request, this.path)).replicas;
      this.refusal = undefined;
    } catch (error) {
      throw this.explained(error);
    }
  }

  /**
   * Syncs, and lets other clients write the file. After `NoSpace` and `Unavailable` it is still
   * open, and may be closed again; after any other error it is closed.
   */
  close(): Promise<void> {
    const over = this.turn.then(() => this.closeNow());
    this.turn = over.catch(() => {});
    return over;
  }

  private async closeNow(): Promise<void> {
    if (this.isClosed) return;
    if (this.failure === undefined) {
      try {
        await this.sendAll();
        const request = { handle: this.handle };
        const { length, replicas } = await this.session.mutate(methods.closeFile, request, this.path);
        this.replicas = replicas;
        this.isClosed = true;
        this.checkLength(length);
        return;
      } catch (error) {
        const explained = this.explained(error);
        if (this.mayGoOn(explained)) throw explained;
        this.failure ??= explained;
      }
    }
    await this.giveUp();
    throw this.failure;
  }

  /** Holds the closed file's length, if the gateway tells it, against what was written. */
  private checkLength(told: number | undefined): void {
    if (told === undefined || told < 0 || told === this.sent) return;
    throw new StraitError("Internal", `close: the file has ${told} bytes instead of ${this.sent}`, this.path);
  }

  /** Ends the file, and doesn't wait for its store. Flushed bytes stay; other bytes may be lost. */
  abandon(): Promise<void> {
    const over = this.turn.then(() => this.giveUp());
    this.turn = over.catch(() => {});
    return over;
  }

  private async giveUp(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.kept = [];
    this.giveBack();
    await this.session.release(this.handle, true);
  }

  /** A stream into the file; its end closes the file, and its destruction abandons it. */
  stream(): Writable {
    const done = (work: Promise<void>, callback: (error?: Error | null) => void): void => {
      work.then(() => callback(), callback);
    };
    return new Writable({
      highWaterMark: CHUNK_BYTES,
      write: (chunk: Buffer, _encoding, callback) => done(this.write(chunk), callback),
      final: (callback) => done(this.close(), callback),
      destroy: (error, callback) => {
        done(this.isClosed ? Promise.resolve() : this.abandon(), () => callback(error));
      },
    });
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.turn.then(() => {
      if (this.isClosed) throw new StraitError("InvalidArgument", "the file is closed", this.path);
      if (this.failure !== undefined) throw this.failure;
      return work();
    });
    this.turn = result.catch(() => {});
    return result;
  }

  // -- Appends in flight

  private async sendAll(): Promise<void> {
    await this.sendPending();
    await this.settle(0);
  }

  /** Sends the pending bytes behind those in flight, or leaves them to the next step. */
  private async sendPending(): Promise<void> {
    if (this.pendingBytes === 0) return;
    const [first] = this.pending as [Buffer];
    const data = this.pending.length === 1 ? first : this.copied(this.pending, this.pendingBytes);
    const request = { requestId: newRequestId(), handle: this.handle, expectedOffset: this.sent, data };
    this.kept.push(request);
    this.sent += data.length;
    this.pending = [];
    this.pendingBytes = 0;
    if (this.inFlight.length + 1 < this.kept.length) return;
    const deadline = this.session.deadline();
    try {
      this.connection ??= await this.session.borrow(deadline);
    } catch (error) {
      if (!(error instanceof LostError)) this.orLater(this.failed(error));
      return;
    }
    const reply = this.connection.call(methods.appendData, request, deadline, this.path);
    reply.catch(() => {}); // `settle` looks at it
    this.inFlight.push(reply);
  }

  /** Takes replies until `leave` appends are in flight at most, and none is to be sent. */
  private async settle(leave: number): Promise<void> {
    let deadline = this.session.deadline();
    try {
      if (this.kept.length > this.inFlight.length) await this.repeatAll(deadline);
      while (this.inFlight.length > leave) {
        deadline = this.session.deadline();
        await this.takeReply();
      }
    } catch (error) {
      if (!(error instanceof LostError)) throw this.failed(error);
      try {
        await this.repeatAll(deadline);
      } catch (again) {
        throw this.failed(again);
      }
    }
    if (this.kept.length === 0) this.giveBack();
  }

  /** The first append's. */
  private async takeReply(): Promise<void> {
    const { data } = this.kept[0] as Append;
    try {
      const reply = await (this.inFlight[0] as Promise<AppendDataReply>);
      this.check(reply, this.kept[0] as Append);
    } catch (error) {
      if (this.mayGoOn(error)) {
        await this.drain();
        this.renew();
      }
      throw error;
    }
    this.inFlight.shift();
    this.tookFirst();
    // Not after a repetition: the first connection could still be sending from this memory.
    if (data.length === this.chunkBytes && this.spare.length < SPARE) this.spare.push(data);
  }

  /**
   * Takes the replies behind a refused append's: the gateway has refused those appends too. Unless
   * the store took the first one all the same; then the next one's reply says so.
   */
  private async drain(): Promise<void> {
    let taken = 0;
    for (let number = 1; number < this.inFlight.length; number++) {
      try {
        const reply = await (this.inFlight[number] as Promise<AppendDataReply>);
        if (isOf(reply, this.kept[number] as Append)) taken = number + 1;
      } catch (error) {
        if (error instanceof LostError || isKind(error, "TimedOut")) break;
      }
    }
    for (let number = 0; number < taken; number++) this.tookFirst();
  }

  /** Makes new requests of all appends: the gateway remembers that it refused the old ones. */
  private renew(): void {
    for (const request of this.kept) {
      request.requestId = newRequestId();
      request.isRetry = true; // the store may have taken it all the same
    }
    this.giveBack();
  }

  /** Repeats requests without a reply; the gateway recognises those that it has executed. */
  private async repeatAll(deadline: number): Promise<void> {
    this.giveBack();
    for (let by = deadline; this.kept.length > 0; by = this.session.deadline()) {
      const request = this.kept[0] as Append;
      request.isRetry = true;
      const operation = { method: methods.appendData.name, path: this.path, mutation: request };
      const reply = await this.session.attempt(operation, by, async (connection, until) => {
        try {
          return await connection.call(methods.appendData, request, until, this.path);
        } catch (error) {
          if (this.mayGoOn(error)) this.renew();
          throw error;
        }
      });
      this.check(reply, request);
      this.tookFirst();
    }
  }

  private check(reply: AppendDataReply, request: Append): void {
    if (!isOf(reply, request)) {
      throw new StraitError("Internal", "the gateway counts other bytes than were sent", this.path);
    }
  }

  private tookFirst(): void {
    this.kept.shift();
    this.refusal = undefined;
  }

  private giveBack(): void {
    this.inFlight = [];
    if (this.connection !== undefined) this.session.giveBack(this.connection);
    this.connection = undefined;
  }

  /** Whether the file is still open after this error. */
  private mayGoOn(error: unknown): boolean {
    return this.failure === undefined && isKind(error, "NoSpace", "Unavailable");
  }

  /** The caller's error of a step of the appends; kept, unless the file goes on. */
  private failed(error: unknown): unknown {
    const explained = this.explained(error);
    if (!this.mayGoOn(explained)) {
      // The append may have arrived; another one would double its bytes.
      if (isKind(explained, "TimedOut")) explained.retrySafe = false;
      this.failure = explained;
      this.kept = [];
    }
    this.giveBack();
    return explained;
  }

  /** An error for the caller, which doesn't know of handles; notes how the file goes on. */
  private explained(problem: unknown): unknown {
    const error = this.session.explained(problem);
    if (!(error instanceof StraitError) || error === this.failure) return error;
    const isUnknownHandle = error.kind === "InvalidArgument";
    const isNewSession = this.session.incarnation !== this.incarnation;
    if (error.kind === "Unauthenticated" || (isUnknownHandle && isNewSession)) {
      return new StraitError(
        "OutcomeUnknown",
        "the session that had the file open has ended; flushed bytes are in the file, later " +
          `ones may be (${error.reason})`,
        this.path,
      );
    }
    if (isUnknownHandle && this.refusal !== undefined) {
      // The store couldn't go on, and the gateway has closed the file.
      const why = `the file ended with an earlier error: ${this.refusal.reason} (${error.reason})`;
      this.failure = new StraitError(this.refusal.kind, why, this.path, false);
      return this.failure;
    }
    const named = error.at(this.path);
    if (this.mayGoOn(named)) this.refusal = named;
    return named;
  }
}

function isOf(reply: AppendDataReply, request: Append): boolean {
  return reply.position === request.expectedOffset + request.data.length;
}
