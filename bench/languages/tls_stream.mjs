// tls_stream.mjs HOST:PORT MIB CA: as tls_stream.cpp, with node:tls.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:tls";

const [address, mib, authority] = process.argv.slice(2);
const [host, port] = address.split(":");
const stream = connect({ host, port: Number(port), ca: readFileSync(authority) });
await once(stream, "secureConnect");
console.log("ready");
await once(process.stdin, "data");
process.stdin.pause();
let left = mib * 2 ** 20;
const ended = new Promise((resolve, reject) => {
  stream.on("error", reject);
  stream.on("end", () => left > 0 && reject(new Error("the stream ended early")));
  stream.on("data", (part) => {
    left -= part.length;
    if (left <= 0) resolve();
  });
});
stream.write("!");
await ended;
console.log("done");
stream.destroy();
