import { StraitError } from "./errors.js";

const SCHEME = "strait://";
const DEFAULT_PORT = 9090;
const MAX_PORT = 65_535;
// The longest name that stores take, as in POSIX (NAME_MAX).
const MAX_NAME_BYTES = 255;
const AUTHORITY = /^(?:\[([^\]]+)\]|([^\s:?#[\]]+))(?::([0-9]{0,5}))?$/;

/** The parts of `strait://host:port/@store/path`. Nothing is decoded. */
export interface StraitUri {
  host: string;
  port: number;
  /** Undefined for the gateway's default store. */
  store: string | undefined;
  /** Absolute in the store. */
  path: string;
}

/**
 * The parts of a URI. A first component `@NAME` names a store; one that begins with `@@` is a
 * directory of the default store, whose name has one `@` less.
 */
export function parseUri(text: string): StraitUri {
  if (!text.startsWith(SCHEME)) {
    // With an @, it may hold a password.
    throw wrong(`${text.includes("@") ? "it" : text} doesn't begin with ${SCHEME}`);
  }
  const [authority, ...rest] = text.slice(SCHEME.length).split("/");
  const { host, port } = hostAndPort(authority ?? "");
  const names = rest.filter((name) => name !== "");
  let store: string | undefined;
  if (names[0]?.startsWith("@@")) names[0] = names[0].slice(1);
  else if (names[0]?.startsWith("@")) store = names.shift()?.slice(1);
  if (store === "") {
    throw wrong(`"${text}": a store's name follows the @, as in /@lab; a directory called @ is /@@`);
  }
  for (const name of store === undefined ? names : [store, ...names]) checkName(name, text);
  return { host, port, store, path: `/${names.join("/")}` };
}

/** The parts of a gateway's address, whose scheme may be left out and which has no path. */
export function parseAddress(address: string): StraitUri {
  const uri = parseUri(address.includes("://") ? address : SCHEME + address);
  if (uri.path !== "/") {
    throw wrong(`an address ends with the gateway or its store, and has no path: ${address}`);
  }
  return uri;
}

/** Host and port, for messages. */
export function addressOf(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function hostAndPort(authority: string): { host: string; port: number } {
  if (authority.includes("@")) {
    // The message doesn't repeat it: it may hold a password.
    throw new StraitError("InvalidArgument", "an address names no user; connect takes user and password");
  }
  const parts = AUTHORITY.exec(authority);
  const port = Number(parts?.[3] || DEFAULT_PORT);
  const host = parts?.[1] ?? parts?.[2];
  if (host === undefined || port < 1 || port > MAX_PORT) throw wrong(`"${authority}" is no HOST:PORT`);
  return { host, port };
}

function checkName(name: string, text: string): void {
  const isTooLong = Buffer.byteLength(name) > MAX_NAME_BYTES;
  if (name === "." || name === ".." || name.includes("\0") || isTooLong) {
    throw wrong(
      `"${text}" has a name that is . or .., holds a NUL byte, ` +
        `or is longer than ${MAX_NAME_BYTES} bytes`,
    );
  }
}

function wrong(why: string): StraitError {
  return new StraitError("InvalidArgument", `not the address of a gateway, strait://host:port/@store: ${why}`);
}
