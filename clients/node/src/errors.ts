// One class of error, whose `kind` is the same in every client language.
import os from "node:os";
import type { DfsError } from "./messages.js";

// In the order of ErrorCode in idl/dfs.thrift, which begins at 1; with the code that Node's own
// file system gives such errors.
const CODES = {
  NotFound: "ENOENT",
  AlreadyExists: "EEXIST",
  NotADirectory: "ENOTDIR",
  IsADirectory: "EISDIR",
  NotEmpty: "ENOTEMPTY",
  PermissionDenied: "EACCES",
  Unauthenticated: "ENOKEY",
  InvalidArgument: "EINVAL",
  Unsupported: "EOPNOTSUPP",
  Busy: "EBUSY",
  NoSpace: "ENOSPC",
  TimedOut: "ETIMEDOUT",
  Unavailable: "EHOSTUNREACH",
  Corrupt: "EBADMSG",
  OutcomeUnknown: "ECONNABORTED",
  Internal: "EIO",
} as const;

/** The kind of an error. */
export type ErrorKind = keyof typeof CODES;

const KINDS = Object.keys(CODES) as ErrorKind[];
const RETRY_SAFE = new Set<string>(["Busy", "TimedOut", "Unavailable"] satisfies ErrorKind[]);
const ENOKEY = 126; // Linux's, which Node doesn't list
const NUMBERS: Record<string, number | undefined> = { ...os.constants.errno, ENOKEY };

/** A failed operation, with the fields that errors of `node:fs` have. */
export class StraitError extends Error {
  override readonly name = "StraitError";
  /** The kind of error; a newer gateway may send another name. */
  readonly kind: ErrorKind | (string & {});
  /** As `node:fs` names it: `ENOENT` for `NotFound`. */
  readonly code: string;
  /** As `node:fs`: negative. */
  readonly errno: number | undefined;
  /** Repeating the same request may help and can do no harm. */
  retrySafe: boolean;
  /** The path that the request named. */
  path: string | undefined;
  /** The message without kind and path. */
  readonly reason: string;

  constructor(kind: string, reason: string, path?: string, retrySafe?: boolean, cause?: unknown) {
    super(`${kind}: ${path === undefined ? "" : `${path}: `}${reason}`, cause === undefined ? {} : { cause });
    this.kind = kind;
    this.reason = reason;
    this.code = CODES[kind as ErrorKind] ?? "EIO";
    const number = NUMBERS[this.code];
    this.errno = number === undefined ? undefined : -number;
    this.retrySafe = retrySafe ?? RETRY_SAFE.has(kind);
    this.path = path;
  }

  /** The same error with a path, if it has none. */
  at(path: string | undefined): StraitError {
    if (this.path !== undefined || path === undefined) return this;
    return new StraitError(this.kind, this.reason, path, this.retrySafe, this);
  }
}

/** The connection broke; `sent` says whether a request may have arrived, `unanswered` whether no reply ever came. */
export class LostError extends Error {
  constructor(
    reason: string,
    readonly sent: boolean,
    readonly tls = false,
    readonly unanswered = false,
  ) {
    super(reason);
  }
}

/** The error that a gateway reported. */
export function reported(error: DfsError): StraitError {
  const kind = KINDS[(error.code ?? 0) - 1] ?? error.kind ?? "Internal";
  return new StraitError(kind, error.message ?? kind, error.path || undefined, error.retrySafe);
}

export function isKind(error: unknown, ...kinds: ErrorKind[]): error is StraitError {
  return error instanceof StraitError && (kinds as string[]).includes(error.kind);
}
