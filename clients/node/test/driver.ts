// Answers the requests of tests/languages/driver.py that faults consist of.
import { connect, StraitError } from "../src/index.js";
import type { Client, FileReader, FileWriter } from "../src/index.js";

const clients = new Map<string, Client>();
const files = new Map<string, FileReader | FileWriter>();
let client: Client;

const operations: Record<string, (...given: Buffer[]) => Promise<(Buffer | string | number)[] | void>> = {
  async connect(name, address, timeoutMs) {
    client = await connect(String(address), { timeoutMs: Number(timeoutMs) });
    clients.set(String(name), client);
    return [[...client.store.capabilities].join(",")];
  },
  async use(name) {
    client = clients.get(String(name))!;
  },
  async disconnect(name) {
    await clients.get(String(name))!.close();
  },
  async open(name, path, mode) {
    files.set(String(name), await opened(String(path), String(mode)));
  },
  async read(name, length) {
    const file = files.get(String(name)) as FileReader;
    if (Number(length) < 0) return [await file.readAll()];
    const parts: Buffer[] = [];
    for (let left = Number(length); left > 0; ) {
      const part = await file.read(left);
      if (part.length === 0) break;
      parts.push(part);
      left -= part.length;
    }
    return [Buffer.concat(parts)];
  },
  async pread(name, offset, length) {
    return [await (files.get(String(name)) as FileReader).readAt(Number(offset), Number(length))];
  },
  async write(name, data) {
    await (files.get(String(name)) as FileWriter).write(data!);
  },
  async flush(name) {
    await (files.get(String(name)) as FileWriter).flush();
  },
  async close(name) {
    await files.get(String(name))!.close();
  },
  async stat(path) {
    const info = await client.stat(String(path));
    const kind = info.isDirectory ? "directory" : "file";
    return [kind, info.length, info.permission, info.replication, info.modified.getTime(), info.accessed.getTime()];
  },
  async exists(path) {
    return [Number(await client.exists(String(path)))];
  },
  async list(path, page) {
    const names: string[] = [];
    for await (const { name } of client.list(String(path), Number(page) || undefined)) names.push(name);
    return names;
  },
  async mkdirs(path) {
    await client.mkdirs(String(path));
  },
  async rename(source, target, replace) {
    await client.rename(String(source), String(target), { replace: String(replace) === "1" });
  },
  async remove(path, recursive) {
    await client.remove(String(path), { recursive: String(recursive) === "1" });
  },
};

function opened(path: string, mode: string): Promise<FileReader | FileWriter> {
  if (mode === "read") return client.open(path);
  return mode === "append" ? client.append(path) : client.create(path, { overwrite: mode === "overwrite" });
}

async function answer([operation, ...given]: Buffer[]): Promise<(Buffer | string | number)[]> {
  try {
    return ["ok", ...((await operations[String(operation)]!(...given)) ?? [])];
  } catch (failure) {
    if (!(failure instanceof StraitError)) throw failure;
    return ["error", failure.kind, failure.path ?? "", failure.message, `${failure.name} ${failure.code}`];
  }
}

async function* requests(): AsyncGenerator<Buffer[]> {
  let bytes: Buffer = Buffer.alloc(0);
  const source = process.stdin[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const exactly = async (length: number): Promise<Buffer | undefined> => {
    const pieces: Buffer[] = [bytes];
    let had = bytes.length;
    while (had < length) {
      const { done, value } = await source.next();
      if (done) return undefined;
      pieces.push(value);
      had += value.length;
    }
    const all = Buffer.concat(pieces);
    bytes = all.subarray(length);
    return all.subarray(0, length);
  };
  for (let head; (head = await exactly(4)) !== undefined; ) {
    const parts: Buffer[] = [];
    for (let left = head.readUInt32BE(); left > 0; left--) {
      parts.push((await exactly((await exactly(4))!.readUInt32BE()))!);
    }
    yield parts;
  }
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

// The test runner runs each file of this directory, too.
if (process.argv[2] === "drive") {
  for await (const request of requests()) {
    const parts = (await answer(request)).map((part) => (part instanceof Buffer ? part : Buffer.from(String(part))));
    process.stdout.write(Buffer.concat([number(parts.length), ...parts.flatMap((part) => [number(part.length), part])]));
  }
}
