// A gateway whose replies make no sense: each is an error, and leads to nothing else.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { decode, MalformedError } from "../src/codec.js";
import { connect, StraitError } from "../src/index.js";
import { DfsError, methods } from "../src/messages.js";

const field = (type: number, id: number, ...value: Buffer[]): Buffer =>
  Buffer.concat([Buffer.of(type, id >> 8, id), ...value]);

const word = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};

const long = (id: number, value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return field(10, id, bytes);
};

const int = (id: number, value: number): Buffer => field(8, id, word(value));
const text = (id: number, value: string): Buffer => field(11, id, word(Buffer.byteLength(value)), Buffer.from(value));
const structure = (id: number, ...fields: Buffer[]): Buffer => field(12, id, ...fields, Buffer.of(0));
const list = (type: number, id: number, of: number, count: number, element: string): Buffer =>
  field(type, id, Buffer.of(of), word(count), Buffer.from(element.repeat(count)));

/** Answers a method, in framed binary, with the fields of a reply. It gets the request's bytes. */
type Answers = Record<string, (request: Buffer) => Buffer>;

async function fake(context: TestContext, answers: Answers, limit = { bytes: 1 << 20 }): Promise<string> {
  const server = net.createServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on("error", () => {}).on("data", (data) => {
      received = Buffer.concat([received, data]);
      while (received.length >= 4 && received.length >= 4 + received.readUInt32BE()) {
        const request = received.subarray(4, 4 + received.readUInt32BE());
        received = received.subarray(4 + request.length);
        const length = request.readUInt32BE(4);
        const method = request.toString("utf8", 8, 8 + length);
        const fields =
          method === "openSession"
            ? [text(1, "token"), structure(6, int(1, limit.bytes))]
            : [answers[method]?.(request) ?? Buffer.alloc(0)];
        const head = Buffer.from(request.subarray(0, 12 + length));
        head[3] = 2; // a reply
        const message = Buffer.concat([head, structure(0, ...fields), Buffer.of(0)]);
        socket.write(Buffer.concat([word(message.length), message]));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

/** The range of a readRange: the message ends with it. */
function rangeOf(request: Buffer): { offset: number; length: number } {
  const end = request.length - 2;
  return { offset: Number(request.readBigInt64BE(end - 15)), length: request.readInt32BE(end - 4) };
}

const of = (kind: string, words: string) => (error: unknown) =>
  error instanceof StraitError && error.kind === kind && error.message.includes(words);

test("a listing names only what is in its directory", async (context) => {
  let entries: Buffer;
  const client = await connect(await fake(context, { listDirectory: () => entries }));
  const entry = (name: string, type: number): Buffer =>
    field(15, 1, Buffer.of(12), word(1), text(1, name), int(2, type), Buffer.of(0));
  const names = async (listed: string): Promise<string[]> => {
    const found: string[] = [];
    for await (const { path: name } of client.list(listed)) found.push(name);
    return found;
  };
  const [file, directory] = [1, 2];
  for (const [listed, name, type] of [
    ["/d", "/d/a", file], ["//d//", "/d/..a", file], ["/", "/a", directory], ["/d", "/d", file],
    ["/\ud800", "/\ufffd/a", file],
  ] as const) {
    entries = entry(name, type);
    assert.deepEqual(await names(listed), [name]);
  }
  for (const [listed, name, type] of [
    ["/d", "/d", directory], ["/d", "", file], ["/d", "a", file], ["/d", "/d/", directory], ["/d", "/d/.", directory],
    ["/d", "/d/..", directory], ["/d", "/d/a\0", file], ["/d", "/d/a/b", file], ["/d", "/d/../a", file],
    ["/d", "/da/a", file], ["/", "/a/b", file],
  ] as const) {
    entries = entry(name, type);
    await assert.rejects(names(listed), of("Internal", "isn't in this directory"), `${name} in ${listed}`);
  }
  entries = long(2, 7n);
  await assert.rejects(names("/d"), of("Internal", "an empty page that isn't the last"));
  await client.close();
});

test("a limit of no bytes is Internal", async (context) => {
  for (const bytes of [0, -1]) {
    await assert.rejects(connect(await fake(context, {}, { bytes })), of("Internal", "bytes at most"));
  }
});

test("an open file keeps its limit when another connection gets a lower one", async (context) => {
  const limit = { bytes: 1 << 20 };
  const bytes = 4 << 20;
  const asked: number[] = [];
  const readRange = (request: Buffer): Buffer => {
    const { offset, length } = rangeOf(request);
    if (offset < bytes) asked.push(length);
    return text(1, offset < bytes ? "x".repeat(length) : "");
  };
  const openFile = (): Buffer => Buffer.concat([long(1, 9n), long(2, BigInt(bytes))]);
  const client = await connect(await fake(context, { openFile, readRange }, limit));
  const file = await client.create("/new");
  await file.write(new Uint8Array(600_000));
  const reader = await client.open("/f");
  await reader.read(1 << 20); // its connection is busy from here
  limit.bytes = 4096;
  await client.serverInfo();
  assert.equal(client.session.maxChunkBytes, 4096);
  await file.write(new Uint8Array(100_000));
  assert.equal(file.position, 700_000);
  assert.equal((await reader.readAll()).length, bytes - (1 << 20));
  assert.deepEqual(new Set(asked), new Set([1 << 20]));
  await Promise.all([file.abandon(), reader.close()]);
  await client.close();
});

test("get of a file that ends early is Busy, and leaves nothing", async (context) => {
  const client = await connect(
    await fake(context, {
      getFileInfo: () => structure(1),
      openFile: () => Buffer.concat([long(1, 9n), long(2, 100n)]),
      readRange: (request) => text(1, "x".repeat(Math.max(0, 10 - rangeOf(request).offset))),
    }),
  );
  const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
  await assert.rejects(client.get("/f", path.join(scratch, "copy")), of("Busy", "became shorter"));
  assert.deepEqual(await readdir(scratch), []);
  await rm(scratch, { recursive: true });
  await client.close();
});

test("a closed file has the length that was written", async (context) => {
  let told: Buffer;
  const client = await connect(await fake(context, { closeFile: () => told }));
  for (told of [Buffer.alloc(0), long(1, 0n), long(1, -1n)]) await (await client.create("/f")).close();
  told = long(1, 5n);
  await assert.rejects((await client.create("/f")).close(), of("Internal", "5 bytes instead of 0"));
  await client.close();
});

const begin = (name: string): Buffer =>
  Buffer.concat([word(0x80010002 | 0), word(name.length), Buffer.from(name), word(7)]);

function decodeReply(name: string, ...fields: Buffer[]): void {
  const message = Buffer.concat([begin(name), structure(0, ...fields), Buffer.of(0)]);
  assert.equal(decode("binary", message, 7, methods.listDirectory, DfsError).bytes, message.length);
}

test("a reply to another method is refused", () => {
  decodeReply("listDirectory");
  for (const name of ["openFile", "", "listDirectoryy"]) assert.throws(() => decodeReply(name), MalformedError);
});

test("one reply's elements are counted together", () => {
  const most = 1 << 18;
  decodeReply("listDirectory", list(15, 1, 12, most / 2 - 2, "\0"));
  decodeReply("listDirectory", list(14, 99, 3, most - 2, "x"));
  for (const [what, fields] of [
    ["structs", list(15, 1, 12, most / 2, "\0")],
    ["a skipped set", list(14, 99, 3, most, "x")],
    ["two skipped lists", Buffer.concat([list(15, 99, 3, most / 2, "x"), list(15, 99, 3, most / 2, "x")])],
    ["a skipped map", field(13, 99, Buffer.of(3), list(0, 0, 3, most, "xx").subarray(3))],
    ["skipped structs", Buffer.concat(Array.from({ length: most }, () => structure(99)))],
  ] as const) {
    assert.throws(() => decodeReply("listDirectory", fields), MalformedError, what);
  }
});
