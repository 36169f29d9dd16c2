// A session over HTTP, and the one place that retries, by the states and times of docs/client-protocol.md.
import { isKind, kindOfCode, StraitError } from "./errors.js";
import { BINARY, BOOL, I32, reply, request, WrongReply } from "./wire.js";
import { parseUri } from "./uri.js";

// With the pauses they span 1.6 to 3.1 s: a gateway's restart.
const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 100;
// For a request that only cleans up, once the gateway has left a request unanswered. After a second one, none.
const PARTING_MS = 2000;
const CONNECT_MS = 10000;
// The largest number that a request holds: 24 days.
const LONGEST_MS = 2 ** 31 - 1;
const VERSION = 1;
const REQUEST_ID = 2, IS_RETRY = 3, DEADLINE_MS = 15;

/** No reply came; a page can't tell whether the request was sent. */
class Lost extends Error {}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export const newId = () => crypto.getRandomValues(new Uint8Array(16));

export class Session {
  constructor(address, options) {
    const isHttp = /^https?:/.exec(address);
    const uri = parseUri(isHttp ? address.replace(/^https?:/, "strait:") : address);
    if (uri.path !== "/") {
      throw new StraitError("InvalidArgument", `an address ends with the gateway or its store, and has no path: ${address}`);
    }
    const host = uri.host.includes(":") ? `[${uri.host}]` : uri.host;
    this.address = `${host}:${uri.port}`;
    this.url = `${isHttp ? isHttp[0] : "http:"}//${this.address}/thrift`;
    this.options = { timeoutMs: 120000, store: uri.store, ...options };
    this.token = options.token;
    this.number = 0;
    this.silences = 0; // requests in a row without an answer in time
    this.closed = false;
  }

  /** A program's token is the program's to renew. */
  get canLogIn() {
    return !this.options.token;
  }

  /** A request; one that changes something gets an id, the same in all its attempts. */
  async call(method, fields, path, changes = false) {
    if (changes) fields[REQUEST_ID] = [BINARY, newId()];
    const deadline = performance.now() + this.options.timeoutMs;
    let connectBy;
    let renewed = false;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.exchange(method, fields, path, deadline);
      } catch (error) {
        if (error instanceof Lost) {
          connectBy ??= Math.min(deadline, performance.now() + CONNECT_MS);
          const wait = FIRST_PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
          if (attempt === ATTEMPTS || performance.now() + wait >= connectBy) {
            this.silences++;
            throw changes
              ? new StraitError("OutcomeUnknown", `${method} may have been executed: ${error.message}`, path)
              : new StraitError("Unavailable", error.message, path, true);
          }
          await pause(wait);
          if (changes) fields[IS_RETRY] = [BOOL, 1];
        } else if (isKind(error, "Unauthenticated") && !renewed && this.canLogIn) {
          renewed = true; // the session idled out, or its gateway was replaced
          await this.login(deadline);
        } else {
          if (isKind(error, "TimedOut")) {
            this.silences++;
            error.retrySafe = !changes;
          }
          throw error;
        }
      }
    }
  }

  /** Sent once, for a reply that can't be had a second time. */
  async once(method, fields, path, timeoutMs = this.options.timeoutMs) {
    try {
      return await this.exchange(method, fields, path, performance.now() + timeoutMs);
    } catch (error) {
      throw error instanceof Lost ? new StraitError("Unavailable", error.message, path, true) : error;
    }
  }

  /** A request that only cleans up: an earlier error is the one to report. */
  async tidy(method, fields, changes = false) {
    if (this.closed || this.silences > 1) return;
    if (changes) fields[REQUEST_ID] = [BINARY, newId()];
    const limit = this.silences ? Math.min(PARTING_MS, this.options.timeoutMs) : this.options.timeoutMs;
    await this.once(method, fields, undefined, limit).catch((error) => {
      if (isKind(error, "TimedOut")) this.silences++;
    });
  }

  async exchange(method, fields, path, deadline) {
    if (this.closed) throw new StraitError("InvalidArgument", "the client is closed", path);
    const number = ++this.number;
    const headers = { "Content-Type": "application/vnd.apache.thrift.binary" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const leftMs = Math.min(Math.max(1, Math.ceil(deadline - performance.now())), LONGEST_MS);
    const late = AbortSignal.timeout(leftMs);
    const timed = { ...fields, [DEADLINE_MS]: [I32, leftMs] };
    try {
      // No `cache: "no-store"`: it would keep browsers from remembering the preflight, which then goes before each request.
      const answer = await fetch(this.url, {
        method: "POST",
        body: request(method, number, timed),
        headers,
        signal: late,
        credentials: "omit",
      });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (answer.status !== 200) throw refusal(answer, bytes, path);
      const found = reply(bytes, method, number);
      this.silences = 0;
      const error = found.struct(1);
      if (!error) return found.struct(0);
      throw new StraitError(kindOfCode(error.number(1)), error.text(3) ?? "", error.text(4), error.number(5) !== 0);
    } catch (error) {
      if (error instanceof StraitError) throw error;
      if (late.aborted) {
        throw new StraitError("TimedOut", `${method}: the gateway ${this.address} gave no answer in time`, path, true);
      }
      if (error instanceof WrongReply) throw new StraitError("Internal", error.message, path);
      throw new Lost(`no answer from the gateway ${this.address}: it isn't there, or doesn't allow this page (--http-origin): ${error.message}`);
    }
  }

  /** Logs in at once and without retries, or takes up the token's session. */
  async login(deadline = performance.now() + this.options.timeoutMs) {
    const { store, user, password, token } = this.options;
    this.token = token;
    const session = { 1: [I32, VERSION], 2: [BINARY, token ? undefined : store], 3: [BINARY, user], 4: [BINARY, password], 5: [BINARY, token] };
    const found = await this.exchange("openSession", session, undefined, deadline).catch((error) => {
      throw error instanceof Lost ? new StraitError("Unavailable", error.message, undefined, true) : error;
    });
    this.token = found.text(1);
    this.user = found.text(3) ?? "";
    this.incarnation = found.get(7);
    const info = found.struct(4);
    const names = (info?.list(3) ?? []).map((name) => new TextDecoder().decode(name));
    this.store = { name: info?.text(1) ?? "", capabilities: new Set(names) };
    this.chunkBytes = Math.min(1 << 20, found.struct(6)?.number(1) || 1 << 20);
  }

  async close() {
    await this.tidy("closeSession", {});
    this.closed = true;
  }
}

/** The gateway's HTTP refused the request, before Thrift's part saw it. */
function refusal(answer, bytes, path) {
  let told;
  try {
    told = JSON.parse(new TextDecoder().decode(bytes)).error;
  } catch {
    // No body of ours.
  }
  const kind = { 401: "Unauthenticated", 403: "PermissionDenied", 408: "TimedOut", 503: "Busy" }[answer.status];
  return new StraitError(kind ?? told?.kind ?? "Internal", told?.message ?? `HTTP status ${answer.status}`, path);
}
