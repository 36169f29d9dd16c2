// States of docs/client-protocol.md that the shared cases don't reach, in Node: a function takes the place of `fetch`.
import assert from "node:assert/strict";
import test from "node:test";
import { connect } from "../src/strait.js";
import { BINARY, I32, I64, reply, request, STRUCT } from "../src/wire.js";

/** A gateway with one file at each path, and directories of pages without an end. */
class FakeGateway {
  content = "content";
  silent = undefined;
  requests = [];
  handles = new Set();
  incarnation = 1n;
  last = 0n;

  /** Ends all sessions and handles. */
  restart() {
    this.incarnation++;
    this.handles.clear();
  }

  count(method) {
    return this.requests.filter((one) => one === method).length;
  }

  async fetch(url, { body, headers, signal }) {
    const length = new DataView(body.buffer).getUint32(4);
    const method = new TextDecoder().decode(body.subarray(8, 8 + length));
    const number = new DataView(body.buffer).getUint32(8 + length);
    this.requests.push(method);
    if (method === this.silent) return silence(signal);
    const [result, error] = this.answer(method, reply(body, method, number).struct(1), headers.Authorization);
    // A request's encoding, with the type of a reply, and the field for a result.
    const bytes = request(method, number, result ?? error);
    bytes[3] = 2;
    if (result) bytes[14 + length] = 0;
    return new Response(method === "listDirectory" && result ? withEntry(bytes, 15 + length) : bytes);
  }

  answer(method, fields, authorization) {
    const token = `token ${this.incarnation}`;
    const fails = (code, message) => [undefined, { 1: [I32, code], 3: [BINARY, message] }];
    const unknown = fails(8, "no such open handle in this session");
    const open = () => {
      this.handles.add(++this.last);
      return this.last;
    };
    if (method === "openSession") return [{ 1: [BINARY, token], 7: [I64, this.incarnation] }];
    if (authorization !== `Bearer ${token}`) return fails(7, "the session ended");
    switch (method) {
      case "openFile": return [{ 1: [I64, open()], 2: [I64, this.content.length], 3: [BINARY, this.content] }];
      case "readRange": return this.handles.has(fields.get(2)) ? [{ 1: [BINARY, this.content] }] : unknown;
      case "listDirectory":
        if (!fields.has(3)) return [{ 2: [I64, open()] }];
        return this.handles.has(fields.get(3)) ? [{ 2: [I64, fields.get(3)] }] : unknown;
      case "getFileInfo": return [{ 1: [STRUCT, {}] }];
      default: return [{}];
    }
  }
}

function silence(signal) {
  const held = setInterval(() => {}, 1000); // Node ends if nothing but the signal's timer is left
  return new Promise((_, fail) => {
    signal.addEventListener("abort", () => {
      clearInterval(held);
      fail(signal.reason);
    });
  });
}

/** Adds field 1, which `request` doesn't encode: a list of one struct, whose field 1 is the path. */
function withEntry(bytes, at) {
  const entries = [15, 0, 1, 12, 0, 0, 0, 1, 11, 0, 1, 0, 0, 0, 12, ...new TextEncoder().encode("/directory/a"), 0];
  return Uint8Array.from([...bytes.subarray(0, at), ...entries, ...bytes.subarray(at)]);
}

async function begin(t, options) {
  const gateway = new FakeGateway();
  t.mock.method(globalThis, "fetch", (url, given) => gateway.fetch(url, given));
  return { gateway, client: await connect("http://127.0.0.1:9", options) };
}

const isKind = (kind, says) => (error) => error.kind === kind && error.message.includes(says);

test("a reply with more structs and items than 2^18 is refused", () => {
  const head = request("stat", 1, {}).slice(0, -5); // without its struct
  const listOf = (type, count, byte) => {
    const bytes = new Uint8Array(head.length + 9 + count);
    bytes.set([...head, 15, 0, 0, type, count >> 24, count >> 16, count >> 8, count]);
    return bytes.fill(byte, head.length + 8, -1);
  };
  assert.equal(reply(listOf(3, 1 << 17, 1), "stat", 1).list(0).length, 1 << 17);
  for (const bytes of [listOf(3, 1 << 18, 1), listOf(12, 1 << 17, 0)]) {
    assert.throws(() => reply(bytes, "stat", 1), /too many values/);
  }
});

test("a reader never gets bytes of the file that replaced its own", async (t) => {
  const { gateway, client } = await begin(t);
  const file = await client.open("/file");
  gateway.content = "another";
  gateway.restart();
  for (let attempt = 0; attempt < 3; attempt++) await assert.rejects(file.readAt(0, 7), isKind("Unavailable", "replaced"));
  gateway.content = "content";
  assert.equal(new TextDecoder().decode(await file.readAt(0, 7)), "content");
});

test("a listing that outlives its session says to list anew", async (t) => {
  const { gateway, client } = await begin(t);
  for (const isKnown of [false, true]) {
    const entries = client.list("/directory");
    await entries.next();
    await entries.next();
    gateway.restart();
    if (isKnown) await client.stat("/file"); // which logs in anew
    await assert.rejects(entries.next(), isKind("Unavailable", "/directory: the gateway's session ended"));
  }
  const anew = client.list("/directory");
  assert.equal((await anew.next()).value.path, "/directory/a");
});

test("a token that ends in a listing is the program's to renew", async (t) => {
  const { gateway, client } = await begin(t, { token: "token 1" });
  const entries = client.list("/directory");
  await entries.next();
  gateway.restart();
  await assert.rejects(entries.next(), isKind("Unauthenticated", "the session ended"));
});

test("a cursor that the same session doesn't know is the gateway's error", async (t) => {
  const { gateway, client } = await begin(t);
  const entries = client.list("/directory");
  await entries.next();
  gateway.handles.clear();
  await assert.rejects(entries.next(), isKind("InvalidArgument", "no such open handle"));
});

test("an answer ends the silence in which a client doesn't clean up", async (t) => {
  const { gateway, client } = await begin(t, { timeoutMs: 300 });
  const [before, after] = [await client.open("/before"), await client.open("/after")];
  gateway.silent = "getFileInfo";
  for (let request = 0; request < 2; request++) await assert.rejects(client.stat("/file"), isKind("TimedOut", "/file"));
  await before.close();
  assert.equal(gateway.count("closeFile"), 0);

  gateway.silent = undefined;
  await client.stat("/file");
  await after.close();
  assert.equal(gateway.count("closeFile"), 1);
  await client.close();
  assert.equal(gateway.count("closeSession"), 1);
});
