// The requests of tests/languages/driver.py, which the page's server hands on: GET /next, POST /answer.
import { connect, parseUri, StraitError } from "../src/strait.js";

const clients = new Map();
const files = new Map();
let client;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

function decoded(buffer) {
  const view = new DataView(buffer);
  const parts = [];
  for (let left = view.getUint32(0), at = 4; left > 0; left--) {
    const length = view.getUint32(at);
    parts.push(new Uint8Array(buffer, at + 4, length));
    at += 4 + length;
  }
  return parts;
}

function encoded(answer) {
  const number = (value) => {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, value);
    return view.buffer;
  };
  const parts = answer.map((part) => (part instanceof Uint8Array ? part : encoder.encode(String(part))));
  return new Blob([number(parts.length), ...parts.flatMap((part) => [number(part.length), part])]);
}

async function opened(path, mode, permission) {
  if (mode === "read") return client.open(path);
  if (mode === "append") return client.append(path);
  return client.create(path, { overwrite: mode === "overwrite", permission });
}

async function all(reader) {
  const parts = [];
  for await (const part of reader) parts.push(part);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const operations = {
  async connect(name, address, timeoutMs) {
    client = await connect(`http://${address}`, { timeoutMs: Number(timeoutMs) });
    clients.set(name, client);
    return [[...client.store.capabilities].join(",")];
  },
  use: (name) => void (client = clients.get(name)),
  disconnect: (name) => clients.get(name).close(),
  open: async (name, path, mode, permission) => void files.set(name, await opened(path, mode, number(permission))),
  read: async (name, length) => [await (length === "-1" ? all(files.get(name)) : files.get(name).read(Number(length)))],
  pread: async (name, offset, length) => [await files.get(name).readAt(Number(offset), Number(length))],
  write: (name, bytes) => files.get(name).write(bytes),
  position: (name) => [files.get(name).position],
  flush: (name) => files.get(name).flush(),
  sync: (name) => files.get(name).sync(),
  close: (name) => files.get(name).close(),
  async stat(path) {
    const info = await client.stat(path);
    const times = [info.modified.getTime(), info.accessed.getTime()];
    return [info.isDirectory ? "directory" : "file", info.length, info.permission, info.replication, ...times];
  },
  exists: async (path) => [(await client.exists(path)) ? 1 : 0],
  async list(path, page) {
    const names = [];
    for await (const entry of client.list(path, number(page))) names.push(entry.name);
    return names;
  },
  mkdirs: (path, permission) => client.mkdirs(path, number(permission)),
  rename: (source, target, replace) => client.rename(source, target, { replace: replace === "1" }),
  remove: (path, recursive) => client.remove(path, { recursive: recursive === "1" }),
  attributes: (path, permission, replication, modified, accessed) =>
    client.setAttributes(path, {
      permission: number(permission),
      replication: number(replication),
      modified: modified === "" ? undefined : new Date(Number(modified)),
      accessed: accessed === "" ? undefined : new Date(Number(accessed)),
    }),
  truncate: (path, length) => client.truncate(path, Number(length)),
  concat: (path, ...sources) => client.concat(path, sources),
  async put(local, path, overwrite) {
    // A page has no path of the host: its server gives the bytes.
    const bytes = await (await fetch(`/local?${encodeURIComponent(local)}`)).arrayBuffer();
    await client.put(new File([bytes], local.split("/").pop()), path, { overwrite: overwrite === "1" });
  },
  async locate(path, offset, length) {
    const blocks = await client.locate(path, Number(offset), number(length));
    return blocks.flatMap((block) => [block.offset, block.length, block.hosts.length]);
  },
  async checksum(path) {
    const { algorithm, value } = await client.checksum(path);
    return [algorithm, value];
  },
  async status() {
    const { capacity, used, remaining } = await client.status();
    return [capacity, used, remaining];
  },
  uri(text) {
    const { host, port, store, path } = parseUri(text);
    return [host, port, store ?? "", path];
  },
  async request(name, method, ...fields) {
    const sent = {};
    for (let at = 0; at < fields.length; at += 3) {
      const [id, type, value] = fields.slice(at, at + 3);
      sent[id] = [Number(type), type === "11" ? value : BigInt(value)];
    }
    const reply = await clients.get(name).session.once(method, sent);
    const plain = [...reply.all].filter(([, [, value]]) => typeof value === "bigint" || value instanceof Uint8Array);
    return plain.flatMap(([id, [, value]]) => [id, value]);
  },
};

const number = (digits) => (digits === "" ? undefined : Number(digits));

/** Which arguments are bytes; all others are text. */
const isBytes = (operation, index, type) => (operation === "write" && index === 1) || (operation === "request" && type === "11");

async function answerTo([operation, ...parts]) {
  const name = decoder.decode(operation);
  const given = parts.map((part) => decoder.decode(part));
  const mixed = given.map((text, index) => {
    const type = index >= 4 && (index - 2) % 3 === 2 ? given[index - 1] : "";
    return isBytes(name, index, type) ? parts[index] : text;
  });
  try {
    return ["ok", ...((await operations[name](...mixed)) ?? [])];
  } catch (error) {
    if (!(error instanceof StraitError)) return ["fatal", error.stack];
    return ["error", error.kind, error.path ?? "", error.message, `DOMException ${error.name}`];
  }
}

for (;;) {
  const asked = await fetch("/next");
  if (asked.status !== 200) break;
  await fetch("/answer", { method: "POST", body: encoded(await answerTo(decoded(await asked.arrayBuffer()))) });
}
