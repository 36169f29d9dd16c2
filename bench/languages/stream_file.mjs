// stream_file.mjs read|write HOST:PORT PATH MIB [CA]: as stream_file.cpp, with the client for Node.
import { readFileSync } from "node:fs";
import { once } from "node:events";
import { connect } from "../../clients/node/dist/index.js";

const [action, gateway, path, mib, authority] = process.argv.slice(2);

async function read(client) {
  const reader = await client.open(path);
  let bytes = 0;
  for await (const part of reader) bytes += part.length;
  await reader.close();
  if (bytes !== mib * 2 ** 20) throw new Error(`another length: ${bytes}`);
}

async function write(client) {
  const writer = await client.create(path);
  const piece = Buffer.alloc(1 << 20, 7);
  for (let n = 0; n < Number(mib); n++) await writer.write(piece);
  await writer.close();
}

const client = await connect(gateway, authority ? { tls: { ca: readFileSync(authority) } } : {});
console.log("ready");
await once(process.stdin, "data");
process.stdin.pause();
await (action === "read" ? read : write)(client);
console.log("done");
await client.close();
