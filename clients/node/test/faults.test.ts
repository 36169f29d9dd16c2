// Connections that are cut, stall and end, gateways that restart, and streams.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { after, before, describe, test } from "node:test";
import { connect, StraitError } from "../src/index.js";
import type { Client } from "../src/index.js";
import { pauseAfter } from "../src/session.js";
import { pattern } from "./cases.js";
import { freePort, start } from "./gateways.js";
import type { Gateway } from "./gateways.js";
import { Proxy } from "./proxy.js";
import { eventually } from "./waits.js";

const of = (kind: string) => (error: unknown) => error instanceof StraitError && error.kind === kind;

describe("a gateway behind a faulty network", () => {
  let gateway: Gateway;
  let proxy: Proxy;
  let client: Client;

  before(async () => {
    gateway = await start("file");
    proxy = await Proxy.to(Number(gateway.address.split(":")[1]));
    client = await connect(proxy.address, { timeoutMs: 20_000 });
  });
  after(async () => {
    await client.close();
    proxy.close();
    await gateway.stop();
  });

  test("sixteen requests of a file are in flight", async () => {
    const data = pattern(2, 0, 60 << 20);
    const full = async (work: Promise<unknown>): Promise<void> => {
      await eventually("16 requests in flight", async () => {
        assert.ok(proxy.inFlight <= 16, `${proxy.inFlight} requests in flight`);
        return proxy.inFlight === 16;
      });
      // Replies were lost: only a new connection gets them.
      proxy.fault = undefined;
      await proxy.cutNow();
      await work;
    };
    const writer = await client.create("/flight");
    proxy.fault = "silent";
    await full(writer.write(data).then(() => writer.close()));
    const reader = await client.open("/flight");
    const parts: Buffer[] = [];
    for await (const part of reader) {
      parts.push(part);
      if (parts.length === 20) break; // each reply let another request ahead
    }
    proxy.fault = "silent";
    await full(reader.readAll().then((rest) => parts.push(rest)));
    assert.ok(Buffer.concat(parts).equals(data));
    await reader.close();
  });

  test("a silent gateway is reported within the deadline, with the path", async () => {
    const hasty = await connect(proxy.address, { timeoutMs: 400 });
    proxy.fault = "silent";
    const began = Date.now();
    await assert.rejects(hasty.stat("/silent"), (error: unknown) => {
      assert.ok(of("TimedOut")(error), String(error));
      assert.equal((error as StraitError).path, "/silent");
      const address = proxy.address.replace("strait://", "").replace(/\/$/, "");
      const wanted = `/silent: getFileInfo: no complete answer from ${address} within 0.4 s`;
      assert.ok((error as StraitError).message.includes(wanted), String(error));
      return (error as StraitError).retrySafe;
    });
    await assert.rejects(hasty.remove("/silent"), (error: unknown) => of("TimedOut")(error) && !(error as StraitError).retrySafe);
    assert.ok(Date.now() - began < 5_000);
    proxy.fault = undefined;
    assert.equal(await hasty.exists("/silent"), false, "the next request begins anew");
    await hasty.close();
  });

  test("only a connection that closes before its first answer suggests TLS", async () => {
    const server = net.createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    await assert.rejects(connect(`127.0.0.1:${port}`), /does it serve TLS only\?/);
    server.close();
    await client.writeFile("/amid", pattern(5, 0, 3_000_000));
    const own = await Proxy.to(Number(gateway.address.split(":")[1]));
    const other = await connect(own.address);
    const file = await other.open("/amid");
    await own.close();
    await assert.rejects(file.readAll(), (error: unknown) => {
      assert.ok(of("Unavailable")(error), String(error));
      return !(error as StraitError).message.includes("TLS");
    });
    await other.close();
  });

  test("an append without an answer is none to repeat, and ends its file", async () => {
    const hasty = await connect(proxy.address, { timeoutMs: 400 });
    const file = await hasty.create("/late");
    proxy.fault = "silent";
    await file.write("x");
    const isFinal = (error: unknown): boolean => of("TimedOut")(error) && !(error as StraitError).retrySafe;
    await assert.rejects(file.flush(), isFinal);
    assert.equal(file.closed, false);
    await assert.rejects(file.close(), isFinal);
    assert.equal(file.closed, true);
    await file.close();
    proxy.fault = undefined;
    await hasty.close();
  });

  test("a wrong offset or length is refused without a request", async () => {
    await client.writeFile("/counts", "text");
    const file = await client.open("/counts");
    await client.remove("/counts"); // opening it again would be NotFound
    for (const value of [-1, 0.5, NaN, 2 ** 53]) {
      await assert.rejects(file.readAt(value, 1), of("InvalidArgument"));
      await assert.rejects(file.readAt(0, value), of("InvalidArgument"));
      await assert.rejects(file.read(value), of("InvalidArgument"));
    }
    assert.equal((await file.readAt(1, 2)).toString(), "ex");
    await file.close();
  });

  test("get goes on after a write that took a part", async () => {
    const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
    const data = pattern(2, 0, 100_000);
    await client.writeFile("/part", data);
    const probe = await open(path.join(scratch, "probe"), "w");
    const handles = Object.getPrototypeOf(probe) as typeof probe;
    await probe.close();
    const { write } = handles;
    const writeBytes = write as (this: typeof probe, part: Uint8Array) => Promise<unknown>;
    handles.write = function (this: typeof probe, part: Uint8Array) {
      return writeBytes.call(this, part.subarray(0, part.length / 2));
    } as typeof write;
    try {
      await client.get("/part", path.join(scratch, "copy"));
    } finally {
      handles.write = write;
    }
    assert.ok((await readFile(path.join(scratch, "copy"))).equals(data));
    await rm(scratch, { recursive: true });
  });

  test("a thousand calls at once take turns on a few connections", async () => {
    await client.writeFile("/many", "x");
    const before = proxy.connections;
    const file = await client.open("/many");
    const found = await Promise.all(Array.from({ length: 1_000 }, (_, n) => client.exists(n % 2 ? "/many" : "/none")));
    assert.equal(found.filter(Boolean).length, 500);
    const bytes = await Promise.all(Array.from({ length: 200 }, () => file.readAt(0, 1)));
    assert.ok(bytes.every((one) => one.toString() === "x"));
    await file.close();
    assert.ok(proxy.connections - before <= 8, `${proxy.connections - before} connections`);
  });

  test("a missing file is an error as of node:fs", async () => {
    await assert.rejects(client.open("/missing"), { code: "ENOENT", errno: -2, path: "/missing", kind: "NotFound" });
  });

  test("streams carry a file both ways, and an aborted one leaves it open to others", async () => {
    const data = pattern(9, 0, 3_000_000);
    await pipeline([data.subarray(0, 1_234_567), data.subarray(1_234_567)], await client.createWriteStream("/stream"));
    const parts: Buffer[] = [];
    for await (const part of await client.createReadStream("/stream")) parts.push(part as Buffer);
    assert.ok(Buffer.concat(parts).equals(data));
    const stream = await client.createWriteStream("/stream");
    stream.destroy();
    await once(stream, "close");
    await client.writeFile("/stream", "again");
    assert.equal(await client.readFile("/stream", "utf8"), "again");
  });

  test("get and put copy whole files, and leave nothing behind a failure", async () => {
    const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
    const local = path.join(scratch, "local");
    await writeFile(local, pattern(1, 0, 2_500_000));
    await client.mkdirs("/whole");
    assert.equal(await client.put(local, "/whole"), 2_500_000);
    await assert.rejects(client.put(local, "/whole"), of("AlreadyExists"));
    await client.put(local, "/whole/local", { overwrite: true });
    await client.get("/whole/local", path.join(scratch, "copy"));
    assert.ok((await readFile(path.join(scratch, "copy"))).equals(await readFile(local)));
    await assert.rejects(client.get("/whole/local", local), of("AlreadyExists"));
    await assert.rejects(client.get("/whole", path.join(scratch, "directory")), of("IsADirectory"));
    assert.deepEqual((await readdir(scratch)).sort(), ["copy", "local"]);
    const names: string[] = [];
    for await (const { name } of client.list("/whole")) names.push(name);
    assert.deepEqual(names, ["local"]);
    await rm(scratch, { recursive: true });
  });
});

test("a client survives its gateway's restart", async () => {
  const [directory, port] = [await mkdtemp(path.join(tmpdir(), "strait-node-")), await freePort()];
  const first = await start("file", port, directory);
  const client = await connect(first.address);
  await client.writeFile("/x", "before");
  const file = await client.open("/x");
  await first.stop();
  const second = await start("file", port, directory);
  assert.equal(await client.readFile("/x", "utf8"), "before");
  assert.equal((await file.readAll()).toString(), "before", "the reader opens its file again");
  await file.close();
  await client.close();
  await second.stop();
  await rm(directory, { recursive: true });
});

test("pauses double, and half of each is random", () => {
  for (const [attempt, longest] of [100, 200, 400, 800, 1600].entries()) {
    const pauses = Array.from({ length: 1_000 }, () => pauseAfter(attempt + 1));
    const [least, most] = [Math.min(...pauses), Math.max(...pauses)];
    assert.ok(least >= longest / 2 && most <= longest && most - least > longest / 4, `${least} to ${most} ms`);
  }
});

test("nothing at the address is Unavailable at once", async () => {
  const began = Date.now();
  await assert.rejects(connect(`127.0.0.1:${await freePort()}`), of("Unavailable"));
  assert.ok(Date.now() - began < 1_000);
});

for (const [what, bytes] of [
  ["an over-long frame", Buffer.from("7fffffff", "hex")],
  ["bytes of HTTP", Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")],
  ["nothing but an end", Buffer.alloc(0)],
] as const) {
  test(`a peer that answers with ${what} is Unavailable`, async () => {
    const server = net.createServer((socket) => {
      socket.on("error", () => {}).once("data", () => socket.end(bytes));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    await assert.rejects(connect(`127.0.0.1:${port}`, { timeoutMs: 2_000 }), of("Unavailable"));
    server.close();
  });
}

test("requests say how long the client waits", async () => {
  let sent = Buffer.alloc(0);
  const server = net.createServer((socket) => {
    socket.on("error", () => {}).once("data", (data) => {
      sent = data;
      socket.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as net.AddressInfo;
  await assert.rejects(connect(`127.0.0.1:${port}`, { timeoutMs: 50_000 }), of("Unavailable"));
  server.close();
  // An i32 with the number 15.
  const at = sent.indexOf(Buffer.of(8, 0, 15));
  assert.ok(at >= 0, "the request has no deadline");
  const ms = sent.readInt32BE(at + 3);
  assert.ok(ms > 40_000 && ms <= 50_000, `${ms} ms`);
});

test("an address with a user is InvalidArgument", async () => {
  await assert.rejects(connect("strait://user@gateway/"), of("InvalidArgument"));
});
