// A gateway that fails in each state of a client: the error has the right kind, and comes in time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { connect, StraitError } from "../src/index.js";
import type { Client, FileReader } from "../src/index.js";
import { pattern } from "./cases.js";
import { start } from "./gateways.js";
import type { Gateway } from "./gateways.js";
import { Proxy, stutter } from "./proxy.js";
import type { Fault } from "./proxy.js";
import { eventually } from "./waits.js";

const IMPATIENCE_MS = 500;
/** The timeout, three seconds of attempts, the clean-up after them, and time for a busy machine. */
const LIMIT_MS = 10_000;
/** Reading ahead doesn't have all of it when the fault begins. */
const FILE_BYTES = 4 << 20;
/** More than may be in flight. */
const APPENDS = 20;
const FAULTS: Fault[] = ["silent", "half", "stutter", "gone"];

interface Place {
  client: Client;
  /** It has `file` and `other`. */
  directory: string;
  strike: () => void;
}

/** Each calls `strike`, and gives the error that follows. */
const states: Record<string, (place: Place) => Promise<void>> = {
  attach: ({ client, directory, strike }) =>
    reading(client, `${directory}/file`, async (file) => {
      // Reading ahead occupies the one connection, so the next request needs another.
      await file.read(1);
      await file.read(1);
      strike();
      await client.stat(directory);
    }),
  look: async ({ client, directory, strike }) => {
    strike();
    await client.stat(directory);
  },
  "open to read": async ({ client, directory, strike }) => {
    strike();
    await client.open(`${directory}/file`);
  },
  create: async ({ client, directory, strike }) => {
    strike();
    await client.create(`${directory}/new`);
  },
  read: ({ client, directory, strike }) =>
    reading(client, `${directory}/file`, async (file) => {
      await file.read(1);
      strike();
      await file.readAll();
    }),
  "read somewhere": ({ client, directory, strike }) =>
    reading(client, `${directory}/file`, async (file) => {
      strike();
      await file.readAt(7, 100);
    }),
  "read much somewhere": ({ client, directory, strike }) =>
    reading(client, `${directory}/file`, async (file) => {
      strike();
      await file.readAt(7, 3 << 20);
    }),
  append: async ({ client, directory, strike }) => {
    const file = await client.create(`${directory}/new`);
    try {
      strike();
      for (let n = 0; n < APPENDS; n++) await file.write(new Uint8Array(1 << 20));
      await file.close();
    } finally {
      await file.abandon();
    }
  },
  flush: async ({ client, directory, strike }) => {
    const file = await client.create(`${directory}/new`);
    try {
      strike();
      await file.flush();
    } finally {
      await file.abandon();
    }
  },
  close: async ({ client, directory, strike }) => {
    const file = await client.create(`${directory}/new`);
    strike();
    await file.close();
  },
  list: async ({ client, directory, strike }) => {
    for await (const entry of client.list(directory, 1)) {
      assert.ok(entry.name);
      strike();
    }
  },
  change: async ({ client, directory, strike }) => {
    strike();
    await client.rename(`${directory}/file`, `${directory}/renamed`);
  },
  get: async ({ client, directory, strike }) => {
    await scratch(async (local) => {
      strike();
      await client.get(`${directory}/file`, path.join(local, "copy"));
    });
  },
  put: async ({ client, directory, strike }) => {
    await scratch(async (local) => {
      await writeFile(path.join(local, "new"), "");
      strike();
      await client.put(path.join(local, "new"), `${directory}/new`);
    });
  },
};

async function reading(client: Client, name: string, work: (file: FileReader) => Promise<void>): Promise<void> {
  const file = await client.open(name);
  try {
    await work(file);
  } finally {
    await file.close();
  }
}

async function scratch(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "strait-node-"));
  try {
    await work(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function failure(work: Promise<unknown>): Promise<StraitError> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof StraitError, String(error));
    return error;
  }
  assert.fail("it succeeded");
}

describe("a gateway that fails", { concurrency: 16 }, () => {
  let gateway: Gateway;
  let setup: Client;
  let directories = 0;
  const proxies: Proxy[] = [];

  const proxied = async (): Promise<Proxy> => {
    const proxy = await Proxy.to(Number(gateway.address.split(":")[1]));
    proxies.push(proxy);
    return proxy;
  };

  before(async () => {
    gateway = await start("file");
    setup = await connect(gateway.address);
  });
  after(async () => {
    await setup.close();
    proxies.forEach((proxy) => proxy.close());
    await gateway.stop();
  });

  /** The error of an operation; `struck` is undefined if it came before the fault. */
  const strikeDuring = async (
    act: (place: Place) => Promise<void>,
    proxy: Proxy,
    fault: Fault,
    directory: string,
  ): Promise<{ error: StraitError; struck: number | undefined }> => {
    let struck: number | undefined;
    const strike = (): void => {
      struck ??= performance.now();
      proxy.strike(fault);
    };
    // The client detects that a gateway is gone itself, and mustn't mistake it for a silence.
    const timeoutMs = fault === "gone" ? 6 * IMPATIENCE_MS : IMPATIENCE_MS;
    const error = await failure(
      connect(proxy.address, { timeoutMs }).then(async (client) => {
        try {
          await act({ client, directory, strike });
        } finally {
          await client.close();
        }
      }),
    );
    return { error, struck };
  };

  for (const [name, act] of Object.entries(states)) {
    for (const fault of FAULTS) {
      test(`${name}, ${fault}`, async () => {
        // A busy machine may exceed the timeout before the fault.
        for (let tries = 0; tries < 10; tries++) {
          const directory = `/failing-${++directories}`;
          await setup.writeFile(`${directory}/file`, pattern(0, 0, FILE_BYTES));
          await setup.writeFile(`${directory}/other`, "x");
          const proxy = await proxied();
          const { error, struck } = await strikeDuring(act, proxy, fault, directory);
          if (struck === undefined) continue;
          const took = performance.now() - struck;
          assert.ok(took < LIMIT_MS, `${took} ms`);
          if (fault === "gone") {
            assert.ok(["Unavailable", "OutcomeUnknown"].includes(error.kind), String(error));
          } else {
            assert.equal(error.kind, "TimedOut", String(error));
            const told = `: \\w+: no complete answer from ${proxy.address} within 0\\.5 s`;
            assert.match(error.message, new RegExp(`^TimedOut: ${directory}\\S*${told}`));
          }
          return;
        }
        assert.fail("the fault never struck");
      });
    }
  }
});

// The header of a handshake's record, which announces 16 KiB.
const RECORD = Buffer.of(22, 3, 3, 64, 0);

for (const [fault, answer] of [
  ["silent", () => {}],
  ["half", (socket: net.Socket) => socket.write(RECORD)],
  ["stutter", (socket: net.Socket) => stutter(Buffer.concat([RECORD, Buffer.alloc(1 << 14)]), socket)],
] as const) {
  test(`a TLS handshake, ${fault}`, async () => {
    const server = net.createServer((socket) => {
      socket.on("error", () => {}).once("data", () => void answer(socket));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    const began = performance.now();
    const error = await failure(connect(`127.0.0.1:${port}`, { tls: true, timeoutMs: IMPATIENCE_MS }));
    assert.equal(error.kind, "TimedOut", String(error));
    assert.ok(performance.now() - began < LIMIT_MS);
    server.close();
  });
}

test("a gateway that takes no connection", async () => {
  // A stopped process, whose backlog fills up.
  const program = `require("net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, function () {
    console.log(this.address().port);
    process.kill(process.pid, "SIGSTOP");
  })`;
  const child = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const port = Number(String(line));
  const waiting: net.Socket[] = [];
  await eventually("a full backlog", async () => {
    const socket = net.connect({ port, host: "127.0.0.1", timeout: 300 }).on("error", () => {});
    waiting.push(socket);
    const events = ["connect", "timeout"].map((event) => once(socket, event).then(() => event));
    return (await Promise.race(events)) === "timeout";
  });
  const began = performance.now();
  const error = await failure(connect(`127.0.0.1:${port}`, { timeoutMs: IMPATIENCE_MS }));
  assert.equal(error.kind, "Unavailable", String(error));
  assert.ok(performance.now() - began < LIMIT_MS);
  waiting.forEach((socket) => socket.destroy());
  child.kill("SIGKILL");
});
