// A login at a gateway, a pool of connections, and the one place that retries. Its states and times
// are those of docs/client-protocol.md.
import { randomBytes } from "node:crypto";
import { setImmediate, setTimeout } from "node:timers/promises";
import type { Method } from "./codec.js";
import { addressOf } from "./uri.js";
import { atDeadline, connect, Connection, CONNECT_TIMEOUT_MS, noAnswer, now } from "./connection.js";
import type { Silences, TlsOptions, Wire } from "./connection.js";
import { isKind, LostError, StraitError } from "./errors.js";
import { methods } from "./messages.js";
import type { OpenSessionRequest } from "./messages.js";
import { storeInfo } from "./types.js";
import type { StoreInfo } from "./types.js";

// With the pauses they span 1.6 to 3.1 s: a gateway's restart.
const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 100;
// For a request that only cleans up, once the gateway has left a request unanswered. After a second
// one there is no time.
const PARTING_MS = 2_000;
// Few callers are concurrent, and each connection costs the gateway one.
const MAX_IDLE = 8;
// Requests at once, beside those of readers and writers of streams: as many as connections are kept.
// Promise.all over a thousand files would open a thousand connections.
const MAX_CALLS = MAX_IDLE;
// If the gateway doesn't report its limit.
const DEFAULT_CHUNK_BYTES = 4 << 20;
const REQUEST_ID_BYTES = 16;
const VERSION = 1;

/** Where and how to reach a gateway, and as whom. */
export interface Endpoint {
  host: string;
  port: number;
  wire: Wire;
  timeoutMs: number;
  tls: TlsOptions | undefined;
  store: string | undefined;
  user: string | undefined;
  password: string | undefined;
  token: string | undefined;
}

/** The fields of a request that changes something. */
interface Mutation {
  requestId?: Buffer | undefined;
  isRetry?: boolean | undefined;
}

/** A request, for its retries and errors. */
export interface Operation {
  method: string;
  path: string | undefined;
  /** Undefined for a request that changes nothing. */
  mutation: Mutation | undefined;
}

export const newRequestId = (): Buffer => randomBytes(REQUEST_ID_BYTES);

export class Session {
  /** If a handle has another one, the handle is gone. */
  incarnation: bigint | undefined;
  token: string | undefined;
  user = "";
  store: StoreInfo = storeInfo({});
  maxChunkBytes = DEFAULT_CHUNK_BYTES;
  closed = false;
  private idle: Connection[] = [];
  private readonly silences: Silences = { count: 0 };
  private login = 0; // counts logins: connections of an older one aren't pooled
  private loggingIn: Promise<void> | undefined;
  private calls = 0;
  private readonly queue: (() => void)[] = []; // calls that wait for their turn

  /** The gateway's, for messages. */
  private readonly address: string;

  private constructor(readonly endpoint: Endpoint) {
    this.address = addressOf(endpoint.host, endpoint.port);
    this.token = endpoint.token;
  }

  /** At once and without retries: a user who mistypes an address needs to know now. */
  static async open(endpoint: Endpoint): Promise<Session> {
    const session = new Session(endpoint);
    try {
      session.giveBack(await session.connect(session.deadline()));
    } catch (error) {
      throw session.explained(error);
    }
    return session;
  }

  /** When a request that begins now is given up, with all that belongs to it. */
  deadline(): number {
    return now() + this.endpoint.timeoutMs;
  }

  private parting(): number {
    const { count } = this.silences;
    const limit = count === 0 ? Infinity : count === 1 ? PARTING_MS : 0;
    return now() + Math.min(this.endpoint.timeoutMs, limit);
  }

  // -- Requests

  call<Request extends object, Reply>(
    method: Method<Request, Reply>,
    request: Request,
    path?: string,
    deadline?: number,
  ): Promise<Reply> {
    const mutation = "requestId" in request ? (request as Mutation) : undefined;
    return this.attempt({ method: method.name, path, mutation }, deadline ?? this.deadline(), (connection, by) =>
      connection.call(method, request, by, path),
    );
  }

  /** A request that changes something. */
  mutate<Request extends Mutation & object, Reply>(
    method: Method<Request, Reply>,
    request: Request,
    path?: string,
    deadline?: number,
  ): Promise<Reply> {
    request.requestId = newRequestId();
    return this.call(method, request, path, deadline);
  }

  /** Without another try, for a reply that can't be had a second time. */
  async callOnce<Request extends object, Reply>(
    method: Method<Request, Reply>,
    request: Request,
    path?: string,
    deadline = this.deadline(),
  ): Promise<Reply> {
    return this.inTurn(method.name, deadline, async () => {
      try {
        const connection = await this.borrow(deadline);
        try {
          return await connection.call(method, request, deadline, path);
        } finally {
          this.giveBack(connection);
        }
      } catch (error) {
        throw atPath(this.explained(error), path);
      }
    });
  }

  private async inTurn<T>(operation: string, deadline: number, work: () => Promise<T>): Promise<T> {
    if (this.calls < MAX_CALLS) this.calls++;
    else await this.waitForTurn(operation, deadline);
    try {
      return await work();
    } finally {
      const next = this.queue.shift();
      if (next === undefined) this.calls--;
      else next(); // it takes this one's place
    }
  }

  private waitForTurn(operation: string, deadline: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        stop();
        resolve();
      };
      const stop = atDeadline(deadline, () => {
        this.queue.splice(this.queue.indexOf(begin), 1);
        const waited = `within ${this.endpoint.timeoutMs / 1000} s`;
        const why = `${MAX_CALLS} earlier requests still run: make fewer at once, or allow a longer timeout`;
        reject(new StraitError("TimedOut", `${operation}: not sent ${waited}, since ${why}`));
      });
      this.queue.push(begin);
    });
  }

  /**
   * An exchange, tried again while the connection breaks. Every request may be repeated: it either
   * changes nothing, or carries the id by which the gateway recognises the repetition.
   */
  attempt<T>(
    of: Operation,
    deadline: number,
    exchange: (connection: Connection, deadline: number) => Promise<T>,
  ): Promise<T> {
    return this.inTurn(of.method, deadline, () => this.attemptNow(of, deadline, exchange)).catch((error) => {
      throw atPath(error, of.path);
    });
  }

  private async attemptNow<T>(
    of: Operation,
    deadline: number,
    exchange: (connection: Connection, deadline: number) => Promise<T>,
  ): Promise<T> {
    const began = now();
    let connectBy: number | undefined;
    let sent = false;
    let renewed = false;
    for (let attempt = 1; ; attempt++) {
      let connecting = true;
      try {
        const connection = await this.borrow(deadline, connectBy, of.mutation === undefined);
        connecting = false;
        try {
          return await exchange(connection, deadline);
        } finally {
          this.giveBack(connection);
        }
      } catch (error) {
        if (error instanceof LostError) {
          // If a gateway doesn't accept connections now, wait for it once.
          connectBy ??= Math.min(deadline, (error.sent ? now() : began) + CONNECT_TIMEOUT_MS);
          sent ||= error.sent;
          this.dropIdle();
          const pause = pauseAfter(attempt);
          if (attempt === ATTEMPTS || now() + pause >= connectBy) {
            this.silences.count++;
            throw sent && of.mutation ? unknown(of, error) : atPath(this.explained(error), of.path);
          }
          await setTimeout(pause);
          if (of.mutation) of.mutation.isRetry = sent || of.mutation.isRetry;
        } else if (isKind(error, "Unauthenticated") && !renewed) {
          // The session idled out, or its gateway was replaced.
          renewed = true;
          this.dropIdle();
        } else if (connecting && sent && of.mutation && error instanceof StraitError) {
          throw unknown(of, error);
        } else {
          if (isKind(error, "TimedOut")) error.retrySafe = of.mutation === undefined;
          throw atPath(error, of.path);
        }
      }
    }
  }

  /** Closes an open file or listing that needs no answer; with `abandon`, without its bytes. */
  async release(handle: bigint, abandon = false): Promise<void> {
    const request = abandon ? { handle, abandon, requestId: newRequestId() } : { handle };
    try {
      if (!this.closed) await this.callOnce(methods.closeFile, request, undefined, this.parting());
    } catch {
      // The gateway forgets the handle with the session.
    }
  }

  /** A change that only cleans up, such as the removal of a temporary file. */
  async tidy<Request extends Mutation & object>(method: Method<Request, unknown>, request: Request): Promise<void> {
    try {
      await this.mutate(method, request, undefined, this.parting());
    } catch {
      // An earlier error is the one to report.
    }
  }

  // -- Connections

  /** A connection for the caller alone, who gives it back. */
  async borrow(deadline: number, connectBy?: number, trusting = false): Promise<Connection> {
    for (;;) {
      if (this.closed) throw new StraitError("InvalidArgument", "the client is closed");
      const connection = this.idle.pop();
      if (connection === undefined) return this.connect(deadline, connectBy);
      connection.idle(false);
      if (!(trusting && connection.isFresh())) {
        // Lets the end of the connection arrive, if it is there: the loop looks at sockets between.
        await setImmediate();
        await setImmediate();
      }
      if (!connection.broken) return connection;
    }
  }

  giveBack(connection: Connection): void {
    const isUsable = !connection.broken && connection.inFlight === 0 && connection.login === this.login;
    if (isUsable && !this.closed && this.idle.length < MAX_IDLE) {
      connection.idle(true);
      this.idle.push(connection);
    } else {
      connection.close();
    }
  }

  private dropIdle(): void {
    for (const connection of this.idle.splice(0)) connection.close();
  }

  /** A new connection, attached to the session. */
  private async connect(deadline: number, connectBy?: number): Promise<Connection> {
    const { host, port, wire, timeoutMs, tls } = this.endpoint;
    const link = await connect(host, port, tls, Math.min(deadline, connectBy ?? deadline));
    const connection = new Connection(link, wire, this.address, timeoutMs, this.silences);
    try {
      this.checkSecrecy(connection);
      await this.attach(connection, deadline);
      return connection;
    } catch (error) {
      connection.close();
      // The caller's own request wasn't sent yet.
      if (!(error instanceof LostError)) throw error;
      throw new LostError(error.message, false, error.tls, !connection.hasAnswered);
    }
  }

  /** Refuses to send secrets where others could read them. */
  private checkSecrecy(connection: Connection): void {
    const isSecret = this.endpoint.password !== undefined || this.endpoint.token !== undefined;
    if (isSecret && this.endpoint.tls === undefined && !connection.isLocal) {
      throw new StraitError(
        "Unauthenticated",
        "a password or token isn't sent to another machine in the clear; use TLS (the option tls)",
      );
    }
  }

  /** By the session's token, side by side with others; by a login that serves all. */
  private async attach(connection: Connection, deadline: number): Promise<void> {
    let refused = -1; // the login whose token isn't good any more
    for (;;) {
      const { token, login } = this;
      if (token !== undefined && login !== refused) {
        try {
          return await this.openSession(connection, { token }, login, deadline);
        } catch (error) {
          const isExpired = isKind(error, "Unauthenticated") && this.endpoint.token === undefined;
          if (!isExpired || connection.broken) throw error;
          refused = login;
        }
      }
      if (this.loggingIn === undefined) {
        const { store, user, password } = this.endpoint;
        this.loggingIn = this.openSession(connection, { store, user, password }, login + 1, deadline);
        try {
          return await this.loggingIn;
        } finally {
          this.loggingIn = undefined;
        }
      }
      // Another caller logs in; its token, or its error, serves this one too.
      await this.otherLogin(this.loggingIn, deadline);
    }
  }

  private otherLogin(login: Promise<void>, deadline: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = atDeadline(deadline, () => reject(noAnswer("openSession", this.address, this.endpoint.timeoutMs)));
      login.then(resolve, reject).finally(stop);
    });
  }

  private async openSession(
    connection: Connection,
    credentials: OpenSessionRequest,
    login: number,
    deadline: number,
  ): Promise<void> {
    const request = { version: VERSION, ...credentials };
    const reply = await connection.call(methods.openSession, request, deadline);
    const most = reply.limits?.maxChunkBytes;
    if (most !== undefined && most <= 0) {
      throw new StraitError("Internal", `openSession: the gateway takes ${most} bytes at most`);
    }
    connection.login = login;
    if (login < this.login) return; // of a session that another login has replaced meanwhile
    this.login = login;
    this.token = reply.token;
    this.incarnation = reply.incarnation;
    this.user = reply.user ?? "";
    if (reply.store !== undefined) this.store = storeInfo(reply.store);
    if (most !== undefined) this.maxChunkBytes = most;
  }

  /** A lost connection as the caller's error. */
  explained(error: unknown): unknown {
    if (!(error instanceof LostError)) return error;
    if (error.tls) return new StraitError("Unavailable", `TLS with ${this.address}: ${error.message}`);
    const question =
      error.unanswered && this.endpoint.tls === undefined
        ? "is it running, is the address right, and does it serve TLS only?"
        : "is it running, and is the address right?";
    return new StraitError("Unavailable", `no gateway at ${this.address} (${error.message}); ${question}`);
  }

  /** Ends the session, unless its token was given; close its files first. */
  async close(): Promise<void> {
    if (this.closed) return;
    try {
      if (this.endpoint.token === undefined) {
        await this.callOnce(methods.closeSession, {}, undefined, this.parting());
      }
    } catch (error) {
      // It is gone already; but a file that fails to close is an error.
      if (!isKind(error, "Unavailable", "TimedOut", "Unauthenticated")) throw error;
    } finally {
      this.closed = true;
      this.dropIdle();
    }
  }
}

/** Half of a pause is random, so that the clients of one gateway don't return at once. */
export function pauseAfter(attempt: number): number {
  return FIRST_PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
}

function unknown(of: Operation, why: Error): StraitError {
  return new StraitError(
    "OutcomeUnknown",
    `${of.method}: the connection broke, and no gateway tells whether it was done (${why.message})`,
    of.path,
    false,
    why,
  );
}

export function atPath(error: unknown, path: string | undefined): unknown {
  return error instanceof StraitError ? error.at(path) : error;
}
