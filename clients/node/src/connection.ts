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
  private received: Buffer[] = [];
  private receivedBytes = 0;
  private neededBytes = 1;
  private lastReply = 0;
  private readonly protocol: Protocol;
  private readonly framed: boolean;

  constructor(
    private readonly socket: net.Socket,
    wire: Wire,
    private readonly gateway: string,
    private readonly timeoutMs: number,
    private readonly silences: Silences,
  ) {
    this.protocol = wire.endsWith("compact") ? "compact" : "binary";
    this.framed = wire.startsWith("framed");
    socket.setNoDelay(true);
    socket.on("data", (data) => this.receive(data));
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
        this.protocol, buffer, number, method.reply, DfsError,
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

  private receive(data: Buffer): void {
    this.received.push(data);
    this.receivedBytes += data.length;
    try {
      while (this.receivedBytes >= this.neededBytes && this.receivedBytes > 0) {
        if (!this.decodeNext()) return;
      }
    } catch (error) {
      this.lose(new LostError(error instanceof Error ? error.message : String(error), true));
    }
  }

  /** Decodes a reply if it is there as a whole. */
  private decodeNext(): boolean {
    const next = this.waiting[0];
    if (next === undefined) throw new Error("bytes that nobody asked for");
    let buffer = this.received.length === 1 ? (this.received[0] as Buffer) : Buffer.concat(this.received);
    this.received = [buffer];
    let end = buffer.length;
    let begin = 0;
    if (this.framed) {
      if (buffer.length < 4) return this.wait(4);
      const length = buffer.readUInt32BE(0);
      if (length > MAX_MESSAGE_BYTES) throw new Error("an over-long frame");
      [begin, end] = [4, 4 + length];
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
    buffer = buffer.subarray(end);
    this.received = buffer.length === 0 ? [] : [buffer];
    this.receivedBytes = buffer.length;
    this.neededBytes = 1;
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

/** A connected socket, encrypted where `options` is given, by `deadline` and in ten seconds at most. */
export function connect(
  host: string,
  port: number,
  options: TlsOptions | undefined,
  deadline: number,
): Promise<net.Socket> {
  const where = `${host}:${port}`;
  return new Promise((resolve, reject) => {
    const isName = net.isIP(host) === 0;
    const socket =
      options === undefined
        ? net.connect({ host, port })
        : tls.connect({ ...(isName ? { servername: host } : {}), ...options, host, port });
    let isConnected = false;
    const give = (error: Error | undefined): void => {
      stop();
      socket.removeAllListeners();
      if (error === undefined) return resolve(socket);
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
      `TLS with the gateway: it refuses the client's certificate, or asks for one (${error.message})`,
    );
  }
  return new LostError(error.message || error.code || "the connection broke", sent);
}
