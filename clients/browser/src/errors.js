// Errors are DOMExceptions, with the names that the browser's own File System API gives them.

/** By the codes of idl/dfs.thrift, which begin at 1. */
const KINDS = [
  ["NotFound", "NotFoundError"],
  ["AlreadyExists", "InvalidModificationError"],
  ["NotADirectory", "TypeMismatchError"],
  ["IsADirectory", "TypeMismatchError"],
  ["NotEmpty", "InvalidModificationError"],
  ["PermissionDenied", "NotAllowedError"],
  ["Unauthenticated", "NotAllowedError"],
  ["InvalidArgument", "SyntaxError"],
  ["Unsupported", "NotSupportedError"],
  ["Busy", "NoModificationAllowedError"],
  ["NoSpace", "QuotaExceededError"],
  ["TimedOut", "TimeoutError"],
  ["Unavailable", "NetworkError"],
  ["Corrupt", "DataError"],
  ["OutcomeUnknown", "NetworkError"],
  ["Internal", "OperationError"],
];
const NAMES = new Map(KINDS);

export class StraitError extends DOMException {
  /**
   * @param {string} kind the same in every client language
   * @param {string} message
   * @param {string} [path] the remote path
   * @param {boolean} [retrySafe] repeating the same request can help, and can do no harm
   */
  constructor(kind, message, path, retrySafe = false) {
    super(path && !message.includes(path) ? `${path}: ${message}` : message, NAMES.get(kind));
    this.kind = kind;
    this.path = path;
    this.retrySafe = retrySafe;
  }
}

/** A newer gateway's code is Internal. */
export const kindOfCode = (code) => (KINDS[code - 1] ?? ["Internal"])[0];

export const isKind = (error, ...kinds) => error instanceof StraitError && kinds.includes(error.kind);
