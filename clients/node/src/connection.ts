import net from "node:net";
import tls from "node:tls";
import { decode, encode, MAX_MESSAGE_BYTES, Refusal, Underflow } from "./codec.js";
import type { Method, Protocol } from "./codec.js";
import { LostError, reported, StraitError } from "./errors.js";
import { DfsError } from "./messages.js";

/** A live gateway accepts a connection at once; only its replies may take long. */
export const CONNECT_TIMEOUT_MS = 10_000;
/** For this long after a reply, a connection counts as alive. */
const FRESH_MS = 50;
/** Of a timer, and in a request. */
const LONGEST_MS = 2 ** 31 - 1;

/** Bytes of one system call. They stay in the processor's caches until they are copied into their reply. */
const READ_BYTES = 128 * 1024;
/** Memory is taken for bytes that have arrived, but so much at once for an announced reply. A read's fits. */
const FIRST_BYTES = 2 * 1024 * 1024;
const FRAME_HEAD_BYTES = 4;

/** How messages are spelled. A gateway understands all of them. */
export type Wire = "framed-binary" | "binary" | "framed-compact" | "compact";

/** How many requests in a row, on any connection of a session, got no reply in time. */
export interface Silences {
  count: number;
}

interface Waiting {
  number: number;
  decode: (buffer: Buffer, number: number) => number;
  fail: (error: Error) => void;
}

/** Milliseconds by a clock that nobody sets. */
export const now = (): number => performance.now();

/** Requests of which several are in flight on one file. */
const STREAMED = new Set(["readRange", "appendData"]);

/** Milliseconds until the deadline, for a request. */
function leftMs(deadline: number): number {
  return Math.min(Math.max(Math.ceil(deadline - now()), 1), LONGEST_MS);
}

/** Runs `work` after the deadline, unless the result is called before. */
export function atDeadline(deadline: number, work: () => void): () => void {
  const timer = setTimeout(work, Math.min(Math.max(0, deadline - now()), LONGEST_MS));
  return () => clearTimeout(timer);
}

export function noAnswer(operation: string, gateway: string, timeoutMs: number, path?: string): StraitError {
  return new StraitError(
    "TimedOut",
    `${operation}: no complete answer from ${gateway} within ${timeoutMs / 1000} s; the gateway may be ` +
      "overloaded or gone: look at it, or allow a longer timeout",
    path,
  );
}

/** One socket. Replies come in the order of requests. */
export class Connection {
  /** The number of the session's login that it is attached by. */
  login = 0;
  private reason: Error | undefined;
  private requests = 0;
  private readonly waiting: Waiting[] = [];
  private received = Buffer.alloc(0); // of the next reply, which keeps this memory
  private receivedBytes = 0;
  private neededBytes: number;
  private readonly socket: net.Socket;
  private lastReply = 0;
  private readonly protocol: Protocol;
  private readonly framed: boolean;

  constructor(
    link: Link,
    wire: Wire,
    private readonly gateway: string,
    private readonly timeoutMs: number,
    private readonly silences: Silences,
  ) {
    this.protocol = wire.endsWith("compact") ? "compact" : "binary";
    this.framed = wire.startsWith("framed");
    this.neededBytes = this.leastBytes;
    const { socket } = link;
    this.socket = socket;
    link.take = (data, isInPlace) => this.receive(data, isInPlace);
    link.space = () => this.space();
    socket.setNoDelay(true);
    socket.on("error", (error) => this.lose(lost(error, true)));
    socket.on("end", () => this.lose(new LostError("the gateway closed the connection", true)));
    socket.on("close", () => this.lose(new LostError("the connection broke", true)));
  }

  get broken(): boolean {
    return this.reason !== undefined;
  }

  get inFlight(): number {
    return this.waiting.length;
  }

  /** Whether the other end is on this machine. */
  get isLocal(): boolean {
    const address = this.socket.remoteAddress ?? "";
    return address === "::1" || /^(::ffff:)?127\./.test(address);
  }

  /** Whether a reply has come over it. */
  get hasAnswered(): boolean {
    return this.lastReply !== 0;
  }

  isFresh(): boolean {
    return now() - this.lastReply < FRESH_MS;
  }

  /** Idle connections don't keep the process from its end. */
  idle(isIdle: boolean): void {
    if (isIdle) this.socket.unref();
    else this.socket.ref();
  }

  /** One request and its reply; any number may be under way at once. */
  call<Request extends object, Reply>(
    method: Method<Request, Reply>,
    request: Request,
    deadline: number,
    path?: string,
  ): Promise<Reply> {
    if (this.reason !== undefined) return Promise.reject(this.reason);
    const number = this.requests + 1;
    let parts: Buffer[];
    try {
      // Not in those of a stream: the time of each begins with the reply before it.
      const timed = STREAMED.has(method.name) ? request : { ...request, deadlineMs: leftMs(deadline) };
      parts = encode(this.protocol, this.framed, method, number, timed);
    } catch (error) {
      return Promise.reject(new StraitError("InvalidArgument", `${method.name}: ${String(error)}`, path));
    }
    this.requests = number;
    return new Promise((resolve, reject) => {
      const stop = atDeadline(deadline, () => {
        this.silences.count++;
        this.lose(noAnswer(method.name, this.gateway, this.timeoutMs, path));
      });
      this.waiting.push({
        number,
        decode: (buffer, expected) => {
          const { bytes, outcome } = this.outcome(method, buffer, expected, path);
          stop();
          if (outcome instanceof Error) reject(outcome);
          else resolve(outcome);
          return bytes;
        },
        fail: (error) => {
          stop();
          reject(error);
        },
      });
      this.socket.cork();
      for (const part of parts) this.socket.write(part);
      this.socket.uncork();
    });
  }

  private outcome<Request, Reply>(
    method: Method<Request, Reply>,
    buffer: Buffer,
    number: number,
    path?: string,
  ): { bytes: number; outcome: Reply | Error } {
    try {
      const decoded = decode(
        this.protocol, buffer, number, method, DfsError,
      );
      if ("reply" in decoded) return { bytes: decoded.bytes, outcome: decoded.reply };
      return { bytes: decoded.bytes, outcome: reported(decoded.error).at(path) };
    } catch (error) {
      if (!(error instanceof Refusal) || !this.framed) throw error;
      const kind = error.isUnknownMethod ? "Unsupported" : "Internal";
      const outcome = new StraitError(kind, `${method.name}: ${error.message}`, path);
      return { bytes: buffer.length, outcome };
    }
  }

  private get leastBytes(): number {
    return this.framed ? FRAME_HEAD_BYTES : 1;
  }

  /** Where the next bytes go: most of a large reply into its own memory. Undefined: anywhere. */
  private space(): Buffer | undefined {
    const end = Math.min(this.neededBytes, this.received.length);
    return end - this.receivedBytes >= READ_BYTES ? this.received.subarray(this.receivedBytes, end) : undefined;
  }

  /** Bytes that aren't in their `space` are copied: they are valid during the call only. */
  private receive(data: Buffer, isInPlace: boolean): void {
    try {
      if (isInPlace) {
        this.receivedBytes += data.length;
        while (this.receivedBytes >= this.neededBytes && this.decodeNext());
        return;
      }
      for (let at = 0; at < data.length && this.reason === undefined; ) {
        // Of a frame not more than its own bytes, so that no reply keeps those of the next one.
        const most = this.framed ? this.neededBytes - this.receivedBytes : data.length;
        const part = data.subarray(at, at + most);
        this.append(part);
        at += part.length;
        while (this.receivedBytes >= this.neededBytes && this.decodeNext());
      }
    } catch (error) {
      this.lose(new LostError(error instanceof Error ? error.message : String(error), true));
    }
  }

  private append(part: Buffer): void {
    const bytes = this.receivedBytes + part.length;
    if (bytes > this.received.length) {
      const wanted = Math.min(this.neededBytes, Math.max(FIRST_BYTES, 2 * this.receivedBytes));
      const larger = Buffer.allocUnsafe(Math.max(bytes, wanted));
      this.received.copy(larger, 0, 0, this.receivedBytes);
      this.received = larger;
    }
    part.copy(this.received, this.receivedBytes);
    this.receivedBytes = bytes;
  }

  /** Decodes a reply if it is there as a whole. */
  private decodeNext(): boolean {
    const next = this.waiting[0];
    if (next === undefined) throw new Error("bytes that nobody asked for");
    const buffer = this.received.subarray(0, this.receivedBytes);
    let end = buffer.length;
    let begin = 0;
    if (this.framed) {
      const length = buffer.readUInt32BE(0);
      if (length > MAX_MESSAGE_BYTES) throw new Error("an over-long frame");
      [begin, end] = [FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + length];
      if (buffer.length < end) return this.wait(end);
    }
    try {
      const message = buffer.subarray(begin, end);
      const used = next.decode(message, next.number);
      if (this.framed && used !== message.length) throw new Error("a frame and its message differ in length");
      end = begin + used;
    } catch (error) {
      if (error instanceof Underflow && !this.framed) return this.wait(error.needed);
      throw error;
    }
    this.waiting.shift();
    this.lastReply = now();
    this.silences.count = 0;
    this.received = Buffer.from(buffer.subarray(end)); // a copy
    this.receivedBytes = this.received.length;
    this.neededBytes = this.leastBytes;
    return true;
  }

  private wait(bytes: number): false {
    this.neededBytes = bytes;
    return false;
  }

  private lose(reason: Error): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.socket.destroy();
    for (const { fail } of this.waiting.splice(0)) fail(reason);
  }

  close(): void {
    this.lose(new LostError("the connection was closed", true));
  }
}

/** The options of TLS: those of `node:tls`, such as `ca`, `cert` and `key`. */
export type TlsOptions = tls.ConnectionOptions;

/** A connected socket. `take` gets its bytes: in memory from `space`, or in memory that is used again afterwards. */
export interface Link {
  readonly socket: net.Socket;
  take: (data: Buffer, isInPlace: boolean) => void;
  space: () => Buffer | undefined;
}

function open(host: string, port: number, options: TlsOptions | undefined): Link {
  const ignore = (): void => {}; // no gateway speaks first
  const space = (): undefined => undefined;
  if (options !== undefined) {
    const servername = net.isIP(host) === 0 ? { servername: host } : {};
    const link: Link = { socket: tls.connect({ ...servername, ...options, host, port }), take: ignore, space };
    return link;
  }
  const common = Buffer.allocUnsafeSlow(READ_BYTES);
  let next: Buffer = common;
  const callback = (bytes: number): boolean => {
    link?.take(next.subarray(0, bytes), next !== common);
    return true;
  };
  let link: Link | undefined;
  const buffer = (): Buffer => (next = link?.space() ?? common);
  link = { socket: net.connect({ host, port, onread: { buffer, callback } }), take: ignore, space };
  return link;
}

/** A connected socket, encrypted where `options` is given, by `deadline` and in ten seconds at most. */
export function connect(
  host: string,
  port: number,
  options: TlsOptions | undefined,
  deadline: number,
): Promise<Link> {
  const where = `${host}:${port}`;
  return new Promise((resolve, reject) => {
    const link = open(host, port, options);
    const { socket } = link;
    let isConnected = false;
    const give = (error: Error | undefined): void => {
      stop();
      socket.removeAllListeners();
      if (error === undefined) {
        // A plain socket doesn't tell this event.
        if (options !== undefined) socket.on("data", (data) => link.take(data, false));
        return resolve(link);
      }
      socket.on("error", () => {}); // what else it may say
      socket.destroy();
      reject(error);
    };
    const stop = atDeadline(Math.min(deadline, now() + CONNECT_TIMEOUT_MS), () =>
      give(
        isConnected
          ? new StraitError("TimedOut", `TLS with ${where}: no answer; does it speak TLS on this port?`)
          : new LostError("timed out", false),
      ),
    );
    socket.once("connect", () => {
      isConnected = true;
    });
    socket.once(options === undefined ? "connect" : "secureConnect", () => give(undefined));
    socket.once("error", (error) =>
      give(options !== undefined && isConnected ? tlsError(where, error) : lost(error, false)),
    );
    socket.once("end", () => give(new LostError("the gateway closed the connection", false, isConnected)));
  });
}

/** A bad certificate isn't tried again. */
function tlsError(where: string, error: Error & { code?: string }): Error {
  if (/CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(error.code ?? "")) {
    return new StraitError(
      "Unauthenticated",
      `TLS with ${where}: ${error.message}; name the certificate of its authority by tls.ca`,
    );
  }
  return new LostError(`${error.message}; does it speak TLS on this port?`, false, true);
}

function lost(error: Error & { code?: string }, sent: boolean): Error {
  if (error.code?.startsWith("ERR_SSL_TLSV13_ALERT") || error.code?.includes("ALERT_CERTIFICATE")) {
    return new StraitError(
      "Unauthenticated",
      `TLS with the gateway: it rejects the client's certificate, or asks for one (${error.message})`,
    );
  }
  return new LostError(error.message || error.code || "the connection broke", sent);
}
