// The faults that every client language runs: clients/conformance/README.md has their rules.
import { execFile } from "node:child_process";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { command, REPOSITORY } from "./gateways.js";

test("the shared faults end as their file says", { timeout: 300_000 }, async () => {
  const runner = path.join(REPOSITORY, "tests/languages/shared_faults.py");
  const driver = [process.execPath, path.join(import.meta.dirname, "driver.js"), "drive"];
  const { stdout } = await promisify(execFile)(path.join(REPOSITORY, ".venv/bin/python"), [runner, ...driver], {
    env: { ...process.env, STRAIT_BIN: command() },
  });
  console.log(stdout.trim().split("\n").at(-1));
});
