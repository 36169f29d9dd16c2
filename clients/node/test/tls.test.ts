// TLS, with certificates made for the occasion, and logins over it.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { connect, StraitError } from "../src/index.js";
import { pattern } from "./cases.js";
import { answers, command, freePort } from "./gateways.js";

const of = (kind: string) => (error: unknown) => error instanceof StraitError && error.kind === kind;

describe("a gateway with TLS", () => {
  const scratch = mkdtempSync(path.join(tmpdir(), "strait-node-"));
  const [cert, key] = [path.join(scratch, "cert.pem"), path.join(scratch, "key.pem")];
  let address: string;
  let child: ReturnType<typeof spawn>;
  let ca: Buffer;

  before(async () => {
    execFileSync("openssl", [
      "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
      "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert,
    ], { stdio: "ignore" });
    chmodSync(key, 0o600);
    ca = readFileSync(cert);
    const [port, store] = [await freePort(), path.join(scratch, "store")];
    mkdirSync(store);
    const passwords = path.join(scratch, "passwords");
    execFileSync(command(), ["passwd", "--file", passwords, "alice"], { input: "secret\n" });
    address = `localhost:${port}`;
    child = spawn(
      command(),
      ["serve", "--listen", `127.0.0.1:${port}`, "--store", pathToFileURL(store).href, "--tls-cert", cert, "--tls-key", key,
        "--passwords", passwords],
      { stdio: "ignore" },
    );
    await answers(child, address, { tls: { ca }, user: "alice", password: "secret" });
  });
  after(() => {
    child.kill();
    rmSync(scratch, { recursive: true });
  });

  test("bytes come back over TLS, and a token stands for the login", async () => {
    const client = await connect(address, { tls: { ca }, user: "alice", password: "secret" });
    assert.equal(client.user, "alice");
    const data = pattern(2, 0, 3_000_001);
    await client.writeFile("/x", data);
    assert.ok((await client.readFile("/x")).equals(data));
    const other = await connect(address, { tls: { ca }, token: client.token as string });
    assert.equal((await other.stat("/x")).length, data.length);
    await other.close();
    assert.ok(await client.exists("/x"), "a session of a given token stays open");
    await client.close();
  });

  test("a wrong password is Unauthenticated, and isn't repeated in a message", async () => {
    const login = connect(address, { tls: { ca }, user: "alice", password: "guessed" });
    await assert.rejects(login, (error: unknown) => of("Unauthenticated")(error) && !String(error).includes("guessed"));
  });

  test("a certificate that nobody vouches for is Unauthenticated", async () => {
    await assert.rejects(connect(address, { tls: true }), of("Unauthenticated"));
    const wrongName = address.replace("localhost", "127.0.0.1");
    await assert.rejects(connect(wrongName, { tls: { ca } }), of("Unauthenticated"));
  });
});

test("a password isn't sent to another machine in the clear", async (context) => {
  const addresses = Object.values(networkInterfaces()).flat();
  const host = addresses.find((one) => one?.family === "IPv4" && !one.internal)?.address;
  if (host === undefined) {
    assert.notEqual(process.env.CI, "true", "CI may skip nothing; it lacks an address beside loopback's");
    return context.skip("this machine has no address but loopback's");
  }
  let received = 0;
  const server = net.createServer((socket) => socket.on("data", (data) => (received += data.length)).on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as net.AddressInfo;
  await assert.rejects(connect(`${host}:${port}`, { user: "u", password: "p" }), of("Unauthenticated"));
  assert.equal(received, 0);
  server.close();
});
