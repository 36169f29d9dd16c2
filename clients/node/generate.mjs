// Writes src/messages.ts from idl/dfs.thrift, by way of Thrift's compiler: node generate.mjs [TARGET]
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const here = import.meta.dirname;
const idl = path.join(here, "../../idl/dfs.thrift");
const target = process.argv[2] ?? path.join(here, "src/messages.ts");
// 64 bits that aren't counts: beyond the integers of a number.
const OPAQUE = new Set(["handle", "cursor", "incarnation"]);

const scratch = mkdtempSync(path.join(tmpdir(), "strait-node-"));
execFileSync("thrift", ["--gen", "json", "-out", scratch, idl]);
const { structs, services } = JSON.parse(readFileSync(path.join(scratch, "dfs.json"), "utf8"));
rmSync(scratch, { recursive: true });

const functions = services.find((service) => service.name === "DfsV2").functions;
const byName = new Map(structs.map((struct) => [struct.name, struct]));
const used = new Set();

function use(name) {
  if (used.has(name)) return;
  for (const field of byName.get(name).fields) {
    const type = field.type?.elemType ?? field.type;
    if (type?.class && byName.has(type.class)) use(type.class);
  }
  used.add(name); // after those that it needs
}

use("DfsError");
for (const call of functions) {
  use(call.arguments[0].type.class);
  use(call.returnType.class);
}

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

function kind(field) {
  const id = field.typeId;
  if (id === "list") return { wire: "list", element: elementKind(field.type) };
  if (id === "struct") return { wire: "struct", struct: field.type.class };
  if (id === "enum") return { wire: "i32" };
  if (id === "i64" && OPAQUE.has(field.name)) return { wire: "opaque" };
  if (id === "string" && field.type?.typeId === "binary") return { wire: "binary" };
  return { wire: id };
}

function elementKind(type) {
  return type.elemTypeId === "struct"
    ? { wire: "struct", struct: type.elemType.class }
    : { wire: type.elemTypeId };
}

const TYPES = {
  bool: "boolean", i16: "number", i32: "number", i64: "number", opaque: "bigint",
  string: "string", binary: "Buffer",
};

const typeOf = (of) =>
  of.wire === "struct" ? of.struct : of.wire === "list" ? `${typeOf(of.element)}[]` : TYPES[of.wire];

const shown = (of) =>
  of.wire === "struct"
    ? `{ wire: "struct", struct: ${of.struct} }`
    : of.wire === "list"
      ? `{ wire: "list", element: ${shown(of.element)} }`
      : `{ wire: "${of.wire}" }`;

let text = `// Generated from idl/dfs.thrift by generate.mjs; \`make gen\` rewrites it.
import type { Method, Struct } from "./codec.js";
`;
for (const name of used) {
  const fields = byName.get(name).fields.map((field) => ({ ...field, of: kind(field) }));
  text += `\nexport interface ${name} {\n`;
  for (const field of fields) text += `  ${camel(field.name)}?: ${typeOf(field.of)} | undefined;\n`;
  text += `}\n\nexport const ${name}: Struct<${name}> = {\n  name: "${name}",\n  fields: [\n`;
  for (const field of fields) {
    text += `    { id: ${field.key}, name: "${camel(field.name)}", of: ${shown(field.of)} },\n`;
  }
  text += "  ],\n};\n";
}
text += "\nexport const methods = {\n";
for (const call of functions) {
  const [request, reply] = [call.arguments[0].type.class, call.returnType.class];
  text += `  ${call.name}: { name: "${call.name}", request: ${request}, reply: ${reply} }`;
  text += ` satisfies Method<${request}, ${reply}>,\n`;
}
text += "};\n";
writeFileSync(target, text.replace(/export interface (\w+) \{\n\}/g, "export type $1 = Record<string, never>;"));
