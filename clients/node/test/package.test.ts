// The package as users get it: packed, installed into an empty directory, its page's code run.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { access, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { PACKAGE, start } from "./gateways.js";

const run = promisify(execFile);

test("the packed package installs into an empty directory, and the README's code runs there", async () => {
  const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
  const gateway = await start("file");
  try {
    const packed = await run("npm", ["pack", "--ignore-scripts", "--pack-destination", scratch], { cwd: PACKAGE });
    const tarball = path.join(scratch, packed.stdout.trim());
    await writeFile(path.join(scratch, "package.json"), '{ "type": "module" }');
    await run("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], { cwd: scratch });
    await access(path.join(scratch, "node_modules/strait-fs/LICENSE"));
    const page = await readFile(path.join(PACKAGE, "README.md"), "utf8");
    const code = [...page.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1]).join("");
    assert.ok(code.includes("127.0.0.1:9090"));
    await writeFile(path.join(scratch, "readme.js"), code.replaceAll("127.0.0.1:9090", gateway.address));
    await run(process.execPath, ["readme.js"], { cwd: scratch });
    // Its types are checked types.
    await writeFile(path.join(scratch, "typed.ts"), TYPED);
    const tsc = path.join(PACKAGE, "node_modules/typescript/bin/tsc");
    const types = path.join(PACKAGE, "node_modules/@types");
    const options = ["--noEmit", "--strict", "--target", "es2023", "--module", "nodenext", "--typeRoots", types];
    await run(process.execPath, [tsc, ...options, "typed.ts"], { cwd: scratch });
  } finally {
    await gateway.stop();
    await rm(scratch, { recursive: true });
  }
});

const TYPED = `
import { connect, type FileInfo, StraitError } from "strait-fs";
const client = await connect("strait://gateway/@lab", { timeoutMs: 1000 });
for await (const entry of client.list("/")) {
  const info: FileInfo = entry;
  // @ts-expect-error: a number
  const text: string = info.length;
}
// @ts-expect-error: there is no such option
await connect("gateway", { pasword: "x" });
export { StraitError };
`;

test("messages.ts is what the generator writes", async (context) => {
  const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
  try {
    const fresh = path.join(scratch, "messages.ts");
    await run(process.execPath, [path.join(PACKAGE, "generate.mjs"), fresh]);
    assert.equal(await readFile(fresh, "utf8"), await readFile(path.join(PACKAGE, "src/messages.ts"), "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || process.env.CI === "true") throw error;
    context.skip("this machine has no Thrift compiler");
  } finally {
    await rm(scratch, { recursive: true });
  }
});
