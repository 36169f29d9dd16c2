// Gateways of our own. STRAIT_BIN names the command; STRAIT_TEST_HDFS, a store to test over too.
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { connect, StraitError } from "../src/index.js";
import type { ConnectOptions } from "../src/index.js";
import { eventually } from "./waits.js";

export const PACKAGE = path.join(import.meta.dirname, "../..");
export const REPOSITORY = path.join(PACKAGE, "../..");

export interface Gateway {
  address: string;
  process: ChildProcess;
  stop: () => Promise<void>;
}

export function command(): string {
  const target = process.env.CARGO_TARGET_DIR ?? path.join(REPOSITORY, "target");
  const built = ["debug", "release"].map((profile) => path.join(target, profile, "strait"));
  const found = process.env.STRAIT_BIN ?? built.find((file) => existsSync(file));
  if (found === undefined) throw new Error("no gateway: cargo build -p strait, or set STRAIT_BIN");
  return found;
}

/** A port that is free now, below Linux's range for outgoing connections. */
export function freePort(): Promise<number> {
  const port = 10_000 + Math.floor(Math.random() * 22_000);
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(freePort()));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(port)));
  });
}

/** `strait serve` over a store, or `strait up`, which brings one: Kadoop. */
export async function start(store: string, port?: number, directory?: string): Promise<Gateway> {
  const scratch = directory ?? (await mkdtemp(path.join(tmpdir(), "strait-node-")));
  const address = `127.0.0.1:${port ?? (await freePort())}`;
  const what =
    store === "kadoop"
      ? ["up", "--data", path.join(scratch, "data")]
      : ["serve", "--store", store === "file" ? pathToFileURL(scratch).href : store];
  const child = spawn(command(), [...what, "--listen", address], { stdio: "ignore" });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
    if (directory === undefined) await rm(scratch, { recursive: true, force: true });
  };
  await answers(child, address);
  return { address, process: child, stop };
}

/** Waits until the gateway of this process answers; `options` are for the client that asks. */
export async function answers(child: ChildProcess, address: string, options?: ConnectOptions): Promise<void> {
  await eventually(`a gateway at ${address}`, async () => {
    try {
      await (await connect(address, options)).close();
      return true;
    } catch (error) {
      if (child.exitCode !== null || !(error instanceof StraitError && error.kind === "Unavailable")) throw error;
      return false;
    }
  });
}

/** `file` and `kadoop` always, and HDFS where there is one. */
export function stores(): Record<string, string> {
  const hdfs = process.env.STRAIT_TEST_HDFS;
  return { file: "file", kadoop: "kadoop", ...(hdfs === undefined ? {} : { hdfs }) };
}
