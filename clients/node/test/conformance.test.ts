// The cases of every client language, over each wire of this client, on every store at hand.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { decode } from "../src/codec.js";
import { parseUri, StraitError } from "../src/index.js";
import type { Wire } from "../src/index.js";
import { DfsError, methods } from "../src/messages.js";
import { cases, pattern, Run, uris } from "./cases.js";
import { start, stores } from "./gateways.js";
import type { Gateway } from "./gateways.js";

const WIRES: Wire[] = ["framed-binary", "binary", "framed-compact", "compact"];

for (const [name, store] of Object.entries(stores())) {
  describe(`on ${name}`, () => {
    let gateway: Gateway;
    let ran = 0;
    const skipped = new Map<string, number>();
    before(async () => {
      gateway = await start(store);
    });
    after(async () => {
      const reasons = [...skipped].map(([what, count]) => `, ${count} skipped for lack of ${what}`);
      console.log(`conformance Node ${name}: ${ran} run${reasons.join("")}`);
      await gateway.stop();
    });
    for (const wire of WIRES) {
      for (const { name: title, needs, steps } of cases) {
        test(`${title}, ${wire}`, async (context) => {
          const run = await Run.begin(gateway.address, { wire });
          try {
            const [lacking] = run.lacking(needs ?? []);
            if (lacking !== undefined) {
              skipped.set(lacking, (skipped.get(lacking) ?? 0) + 1);
              return context.skip(`the store ${name} declares no ${lacking}`);
            }
            await run.steps(steps);
            ran++;
          } finally {
            await run.close();
          }
        });
      }
    }
  });
}

test("URIs have the parts that the cases say", () => {
  for (const { uri, error, says, ...parts } of uris) {
    if (error === undefined) {
      assert.deepEqual({ ...parseUri(uri) }, { ...parts, store: parts.store ?? undefined }, uri);
    } else {
      assert.throws(() => parseUri(uri), (failure) => {
        assert.ok(failure instanceof StraitError);
        assert.ok(!failure.message.replace("user and password", "").includes("password"), failure.message);
        assert.ok(failure.message.includes((says as string | undefined) ?? ""), failure.message);
        return failure.kind === error;
      }, uri);
    }
  }
});

test("a store of 2^53 bytes and more tells its size, rounded", () => {
  const name = Buffer.from("getStoreStatus");
  const reply = Buffer.alloc(8 + name.length + 4 + 3 + 11 + 2);
  let at = reply.writeUInt32BE(0x80010002);
  at = reply.writeUInt32BE(name.length, at);
  at += name.copy(reply, at);
  at = reply.writeUInt32BE(1, at);
  at = reply.writeInt16BE(0, reply.writeUInt8(12, at)); // the reply, a struct
  at = reply.writeInt16BE(2, reply.writeUInt8(10, at)); // its capacity, an i64
  reply.writeBigInt64BE(2n ** 53n + 1n, at);
  const decoded = decode("binary", reply, 1, methods.getStoreStatus, DfsError);
  assert.ok("reply" in decoded);
  assert.equal(decoded.reply.capacity, 2 ** 53);
});

test("the patterns of the cases are as documented", () => {
  assert.deepEqual([...pattern(7, 0, 3)], [7, 8, 9]);
  const i = 20_000;
  assert.equal(pattern(7, i, 1)[0], (7 + i + Math.floor(i / 251)) % 256);
});
