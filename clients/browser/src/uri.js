import { StraitError } from "./errors.js";

const SCHEME = "strait://";
const DEFAULT_PORT = 9090;
const MAX_PORT = 65535;
const MAX_NAME_BYTES = 255; // as POSIX's NAME_MAX
const AUTHORITY = /^(?:\[([^\]]+)\]|([^\s:?#[\]]+))(?::([0-9]{0,5}))?$/;

const wrong = (why) =>
  new StraitError("InvalidArgument", `not the address of a gateway, strait://host:port/@store: ${why}`);

/**
 * The parts of strait://host:port/@store/path; nothing is decoded. A first component @NAME names a store; one that
 * begins with @@ is a directory of the default store, whose name has one @ less.
 * @returns {{host: string, port: number, store: string | undefined, path: string}}
 */
export function parseUri(text) {
  if (!text.startsWith(SCHEME)) throw wrong(`${text.includes("@") ? "it" : text} doesn't begin with ${SCHEME}`);
  const [authority, ...rest] = text.slice(SCHEME.length).split("/");
  if (authority.includes("@")) throw wrong("an address names no user; the options take user and password");
  const parts = AUTHORITY.exec(authority);
  const port = Number(parts?.[3] || DEFAULT_PORT);
  if (!parts || port < 1 || port > MAX_PORT) throw wrong(`"${authority}" is no HOST:PORT`);
  const names = rest.filter((name) => name !== "");
  let store;
  if (names[0]?.startsWith("@@")) names[0] = names[0].slice(1);
  else if (names[0]?.startsWith("@")) store = names.shift().slice(1);
  if (store === "") throw wrong(`"${text}": a store's name follows the @, as in /@lab; a directory called @ is /@@`);
  for (const name of store === undefined ? names : [store, ...names]) {
    const isTooLong = new TextEncoder().encode(name).length > MAX_NAME_BYTES;
    if (name === "." || name === ".." || name.includes("\0") || isTooLong) {
      throw wrong(`"${text}" has a name that is . or .., holds a NUL byte, or is longer than ${MAX_NAME_BYTES} bytes`);
    }
  }
  return { host: parts[1] ?? parts[2], port, store, path: `/${names.join("/")}` };
}
