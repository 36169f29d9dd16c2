// Runs a case of clients/conformance/cases.json through the client; its README has the rules.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect, StraitError } from "../src/index.js";
import type { Client, ConnectOptions, FileReader, FileWriter } from "../src/index.js";
import type { Method } from "../src/codec.js";
import { methods } from "../src/messages.js";
import { REPOSITORY } from "./gateways.js";

type Json = Record<string, any>;
const document = JSON.parse(readFileSync(path.join(REPOSITORY, "clients/conformance/cases.json"), "utf8")) as {
  format: number;
  cases: { name: string; needs?: string[]; steps: Json[] }[];
  uris: Json[];
};
assert.equal(document.format, 1);
export const { cases, uris } = document;

const PATHS = ["path", "source", "target"];
const OPAQUE = new Set(["handle", "cursor", "incarnation"]);
const PATTERN_PERIOD = 251 * 64;
const camel = (name: string): string => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

export function pattern(seed: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at++) {
    const i = (offset + at) % PATTERN_PERIOD;
    bytes[at] = (seed + i + Math.floor(i / 251)) % 256;
  }
  return bytes;
}

export class Run {
  private readonly files = new Map<string, FileReader | FileWriter>();
  private readonly saved = new Map<string, unknown>();
  private readonly random = new Map<string, Buffer>();
  private readonly others = new Map<string, Client>();

  private constructor(
    private readonly client: Client,
    private readonly reconnect: () => Promise<Client>,
    private readonly directory: string,
  ) {}

  static async begin(address: string, options: ConnectOptions): Promise<Run> {
    const reconnect = (): Promise<Client> => connect(address, options);
    return new Run(await reconnect(), reconnect, `/strait-node-${randomBytes(6).toString("hex")}`);
  }

  lacking(needs: string[]): string[] {
    return needs.filter((name) => !this.client.store.capabilities.has(name));
  }

  async steps(steps: Json[]): Promise<void> {
    await this.client.mkdirs(this.directory);
    try {
      for (const step of steps) await this.step({ ...step });
    } finally {
      for (const file of this.files.values()) await file.close().catch(() => {});
      await this.client.remove(this.directory, { recursive: true });
    }
  }

  async close(): Promise<void> {
    for (const client of [this.client, ...this.others.values()]) await client.close();
  }

  private async step(step: Json): Promise<void> {
    const shown = JSON.stringify(step);
    const { op, error, absolute, ...keys } = step;
    if (!absolute) for (const key of PATHS) if (key in keys) keys[key] = this.path(keys[key]);
    try {
      await this.run(op as string, keys);
    } catch (failure) {
      if (!(failure instanceof StraitError)) throw new Error(shown, { cause: failure });
      assert.ok(error, `${shown}\n  failed: ${failure.message}`);
      assert.ok([error.kind].flat().includes(failure.kind), `${shown}\n  failed as ${failure.message}`);
      if (error.path !== undefined) assert.equal(failure.path, this.path(error.path), shown);
      return;
    }
    assert.ok(!error, `${shown}\n  succeeded`);
  }

  private path(inCase: string): string {
    return this.directory + inCase;
  }

  private bytes(spec: Json): Buffer {
    if ("hex" in spec) return Buffer.from(spec.hex, "hex");
    if ("text" in spec) return Buffer.from(spec.text);
    if ("pattern" in spec) return pattern(spec.pattern, spec.offset ?? 0, spec.length);
    if ("concat" in spec) return Buffer.concat(spec.concat.map((part: Json) => this.bytes(part)));
    if ("random" in spec) {
      const known = this.random.get(spec.random) ?? randomBytes(16);
      this.random.set(spec.random, known);
      return known;
    }
    throw new Error(`no bytes: ${JSON.stringify(spec)}`);
  }

  private same(got: Buffer, spec: Json): void {
    const expected = this.bytes(spec);
    assert.ok(got.equals(expected), `${got.length} bytes in place of ${expected.length}`);
  }

  private file<T extends FileReader | FileWriter>(name: string): T {
    const file = this.files.get(name);
    assert.ok(file, `no file ${name}`);
    return file as T;
  }

  private opened(to: string, mode: string, permission?: string): Promise<FileReader | FileWriter> {
    const options = permission === undefined ? {} : { permission: parseInt(permission, 8) };
    if (mode === "read") return this.client.open(to);
    if (mode === "append") return this.client.append(to);
    assert.ok(["create", "overwrite"].includes(mode), mode);
    return this.client.create(to, { overwrite: mode === "overwrite", ...options });
  }

  private async run(op: string, { ...keys }: Json): Promise<void> {
    const { client } = this;
    switch (op) {
      case "write": {
        only(keys, "path", "mode", "bytes", "piece", "permission");
        const data = this.bytes(keys.bytes);
        const file = (await this.opened(keys.path, keys.mode, keys.permission)) as FileWriter;
        const piece = keys.piece ?? (data.length || 1);
        for (let at = 0; at < data.length; at += piece) await file.write(data.subarray(at, at + piece));
        return file.close();
      }
      case "read":
        only(keys, "path", "expect");
        return this.same(await client.readFile(keys.path), keys.expect);
      case "open":
        only(keys, "file", "path", "mode");
        this.files.set(keys.file, await this.opened(keys.path, keys.mode));
        return;
      case "read_next": {
        only(keys, "file", "length", "expect");
        const parts: Buffer[] = [];
        for (let left = keys.length as number; left > 0; ) {
          const part = await this.file<FileReader>(keys.file).read(left);
          if (part.length === 0) break;
          parts.push(part);
          left -= part.length;
        }
        return this.same(Buffer.concat(parts), keys.expect);
      }
      case "read_at":
        only(keys, "file", "offset", "length", "expect");
        return this.same(await this.file<FileReader>(keys.file).readAt(keys.offset, keys.length), keys.expect);
      case "append":
        only(keys, "file", "bytes");
        return this.file<FileWriter>(keys.file).write(this.bytes(keys.bytes));
      case "position":
        only(keys, "file", "expect");
        return assert.equal(this.file<FileWriter>(keys.file).position, keys.expect);
      case "flush":
        only(keys, "file", "mode");
        return this.file<FileWriter>(keys.file)[keys.mode as "flush" | "sync"]();
      case "close": {
        only(keys, "file");
        const file = this.file(keys.file);
        this.files.delete(keys.file);
        return file.close();
      }
      case "stat":
        return this.stat(keys);
      case "exists":
        only(keys, "path", "expect");
        return assert.equal(await client.exists(keys.path), keys.expect);
      case "list": {
        only(keys, "path", "page", "expect");
        const names: string[] = [];
        for await (const entry of client.list(keys.path, keys.page)) names.push(entry.name);
        const { prefix, count } = keys.expect ?? {};
        const expected: string[] =
          prefix === undefined ? (keys.expect ?? []) : Array.from({ length: count }, (_, n) => `${prefix}${n}`);
        return assert.deepEqual(names.sort(), [...expected].sort());
      }
      case "mkdirs": {
        only(keys, "path", "permission", "count");
        const permission = keys.permission === undefined ? undefined : parseInt(keys.permission, 8);
        if (keys.count === undefined) return client.mkdirs(keys.path, permission);
        for (let n = 0; n < keys.count; n++) await client.mkdirs(`${keys.path}${n}`, permission);
        return;
      }
      case "rename":
        only(keys, "source", "target", "replace");
        return client.rename(keys.source, keys.target, { replace: keys.replace });
      case "remove":
        only(keys, "path", "recursive");
        return client.remove(keys.path, { recursive: keys.recursive });
      case "set_attributes":
        only(keys, "path", "permission", "replication", "modified_ms", "accessed_ms");
        return client.setAttributes(keys.path, {
          ...(keys.permission === undefined ? {} : { permission: parseInt(keys.permission, 8) }),
          ...(keys.replication === undefined ? {} : { replication: keys.replication }),
          ...(keys.modified_ms === undefined
            ? {}
            : { modified: new Date(keys.modified_ms), accessed: new Date(keys.accessed_ms) }),
        });
      case "truncate":
        only(keys, "path", "length");
        return client.truncate(keys.path, keys.length);
      case "concat":
        only(keys, "path", "sources");
        return client.concat(
          keys.path,
          keys.sources.map((source: string) => this.path(source)),
        );
      case "put":
        return this.put(keys);
      case "locate":
        return this.locate(keys);
      case "checksum": {
        only(keys, "path", "other", "expect");
        const [one, other] = [await client.checksum(keys.path), await client.checksum(this.path(keys.other))];
        return assert.equal(one.algorithm === other.algorithm && one.value.equals(other.value), keys.expect);
      }
      case "status": {
        only(keys);
        const { capacity, used, remaining } = await client.status();
        return assert.ok(0 <= used && used <= capacity && 0 <= remaining && remaining <= capacity);
      }
      case "request":
        return this.request(keys);
      default:
        throw new Error(`an unknown step: ${op}`);
    }
  }

  private async stat(keys: Json): Promise<void> {
    only(keys, "path", "expect");
    const info = await this.client.stat(keys.path);
    for (const [key, value] of Object.entries((keys.expect ?? {}) as Json)) {
      const got = {
        type: info.isDirectory ? "directory" : "file",
        length: info.length,
        permission: info.permission.toString(8),
        replication: info.replication,
        modified_ms: info.modified.getTime(),
        accessed_ms: info.accessed.getTime(),
      }[key];
      assert.equal(got, key === "permission" ? parseInt(value, 8).toString(8) : value, key);
    }
  }

  private async put(keys: Json): Promise<void> {
    only(keys, "path", "name", "bytes", "replace");
    const scratch = await mkdtemp(path.join(tmpdir(), "strait-node-"));
    try {
      const local = path.join(scratch, keys.name);
      await writeFile(local, this.bytes(keys.bytes));
      await this.client.put(local, keys.path, { overwrite: keys.replace ?? false });
    } finally {
      await rm(scratch, { recursive: true });
    }
  }

  private async locate(keys: Json): Promise<void> {
    only(keys, "path", "offset", "length", "expect");
    const blocks = await this.client.locate(keys.path, keys.offset, keys.length);
    if (keys.expect.none) return assert.deepEqual(blocks, []);
    let end = blocks[0]?.offset ?? Infinity;
    assert.ok(end <= keys.expect.from);
    for (const block of blocks) {
      assert.equal(block.offset, end);
      assert.ok(block.length > 0 && block.hosts.length > 0);
      end += block.length;
    }
    assert.ok(end >= keys.expect.to);
  }

  private async request(keys: Json): Promise<void> {
    only(keys, "method", "args", "expect", "save", "client");
    let { client } = this;
    if (keys.client !== undefined) {
      client = this.others.get(keys.client) ?? (await this.reconnect());
      this.others.set(keys.client, client);
    }
    const request = Object.fromEntries(
      Object.entries(keys.args as Json).map(([key, value]) => [camel(key), this.value(key, value)]),
    );
    const method = (methods as unknown as Record<string, Method<object, Record<string, unknown>>>)[keys.method];
    assert.ok(method, keys.method);
    const reply = await client.session.callOnce(method, request);
    for (const [field, value] of Object.entries((keys.expect ?? {}) as Json)) {
      if (field === "data") this.same((reply.data as Buffer | undefined) ?? Buffer.alloc(0), value);
      else assert.equal(reply[camel(field)], this.value(field, value), field);
    }
    for (const [field, name] of Object.entries((keys.save ?? {}) as Json)) {
      this.saved.set(name as string, reply[camel(field)]);
    }
  }

  private value(key: string, value: unknown): unknown {
    if (PATHS.includes(key)) return this.path(value as string);
    if (typeof value === "object" && value !== null) return this.bytes(value);
    if (typeof value === "string" && value.startsWith("$")) return this.saved.get(value.slice(1));
    return OPAQUE.has(key) && typeof value === "number" ? BigInt(value) : value;
  }
}

function only(keys: Json, ...known: string[]): void {
  for (const key of Object.keys(keys)) assert.ok(known.includes(key), `an unknown key: ${key}`);
}
