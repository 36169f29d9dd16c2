// The cases of every client language, over every wire, on every store at hand.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { parseUri, StraitError } from "../src/index.js";
import type { Wire } from "../src/index.js";
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
      console.log(`conformance ${name}: ${ran} run${reasons.join("")}`);
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
  for (const { uri, error, ...parts } of uris) {
    if (error === undefined) {
      assert.deepEqual({ ...parseUri(uri) }, { ...parts, store: parts.store ?? undefined }, uri);
    } else {
      assert.throws(() => parseUri(uri), (failure) => failure instanceof StraitError && failure.kind === error, uri);
    }
  }
});

test("the patterns of the cases are as documented", () => {
  assert.deepEqual([...pattern(7, 0, 3)], [7, 8, 9]);
  const i = 20_000;
  assert.equal(pattern(7, i, 1)[0], (7 + i + Math.floor(i / 251)) % 256);
});
