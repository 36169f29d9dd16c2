// Thrift's binary and compact protocols, for the messages of messages.ts.
//
// Thrift's own runtime for Node has callbacks, no types, and copies each payload twice.

/** A field's type on the wire; `opaque` is an i64 that isn't a count. */
export type Kind =
  | { wire: "bool" | "i16" | "i32" | "i64" | "opaque" | "string" | "binary" }
  | { wire: "struct"; struct: Struct<unknown> }
  | { wire: "list"; element: Kind };

export interface Field {
  id: number;
  name: string;
  of: Kind;
}

/** A message's fields, in the order of their ids. */
export interface Struct<T> {
  name: string;
  fields: Field[];
  /** Never there: it carries the type. */
  type?: () => T;
}

export interface Method<Request, Reply> {
  name: string;
  request: Struct<Request>;
  reply: Struct<Reply>;
}

export type Protocol = "binary" | "compact";

/** Most bytes of one message from the gateway: its largest payload is 4 MiB. */
export const MAX_MESSAGE_BYTES = 16 << 20;
// Of all lists, sets and maps of a reply, and structs, together: an element of one byte can take hundreds of bytes of
// memory. A page of a listing has some thousand.
const MAX_ELEMENTS = 1 << 18;
// The deepest nesting in a skipped field. Messages of the interface nest at most four deep.
const MAX_DEPTH = 32;

/** More bytes are needed: at least this many from the message's begin. */
export class Underflow extends Error {
  constructor(readonly needed: number) {
    super("the message isn't there as a whole");
  }
}

export class MalformedError extends Error {}

/** Thrift's own error of a gateway that doesn't know the method, or can't read the request. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly isUnknownMethod: boolean,
  ) {
    super(message);
  }
}

const enum Type {
  Stop = 0,
  Bool = 2,
  Byte = 3,
  Double = 4,
  I16 = 6,
  I32 = 8,
  I64 = 10,
  String = 11,
  Struct = 12,
  Map = 13,
  Set = 14,
  List = 15,
  Uuid = 16,
}

const TYPES: Record<Kind["wire"], Type> = {
  bool: Type.Bool,
  i16: Type.I16,
  i32: Type.I32,
  i64: Type.I64,
  opaque: Type.I64,
  string: Type.String,
  binary: Type.String,
  struct: Type.Struct,
  list: Type.List,
};

const COMPACT_TRUE = 1;
const COMPACT_FALSE = 2;
// Index: the compact protocol's number.
const FROM_COMPACT = [
  Type.Stop, Type.Bool, Type.Bool, Type.Byte, Type.I16, Type.I32, Type.I64, Type.Double, Type.String,
  Type.List, Type.Set, Type.Map, Type.Struct, Type.Uuid,
];
const toCompact = (type: Type): number => FROM_COMPACT.indexOf(type);

const CALL = 1;
const REPLY = 2;
const EXCEPTION = 3;
const BINARY_VERSION = 0x8001;
const COMPACT_ID = 0x82;
const COMPACT_VERSION = 1;
const UNKNOWN_METHOD = 1;
/** Longer payloads are sent as they stand, not copied into the message. */
const ALONE_BYTES = 16 << 10;

// -- Writing

class Writer {
  private parts: Buffer[] = [];
  private buffer = Buffer.allocUnsafe(512);
  private length = 0;

  constructor(private readonly compact: boolean) {}

  private room(bytes: number): number {
    const at = this.length;
    if (at + bytes > this.buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.buffer.length, at + bytes));
      this.buffer.copy(larger, 0, 0, at);
      this.buffer = larger;
    }
    this.length += bytes;
    return at;
  }

  private byte(value: number): void {
    const at = this.room(1); // which may replace the buffer
    this.buffer[at] = value;
  }

  private word(value: number): void {
    const at = this.room(4);
    this.buffer.writeInt32BE(value, at);
  }

  private varint(value: bigint | number): void {
    let rest = BigInt.asUintN(64, BigInt(value));
    while (rest > 0x7fn) {
      this.byte(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.byte(Number(rest));
  }

  private integer(value: bigint, bytes: 2 | 4 | 8): void {
    if (this.compact) return this.varint((value << 1n) ^ (value >> 63n));
    const at = this.room(bytes);
    if (bytes === 2) this.buffer.writeInt16BE(Number(value), at);
    else if (bytes === 4) this.buffer.writeInt32BE(Number(value), at);
    else this.buffer.writeBigInt64BE(value, at);
  }

  private bytes(data: Uint8Array): void {
    if (this.compact) this.varint(data.length);
    else this.word(data.length);
    if (data.length < ALONE_BYTES) {
      const at = this.room(data.length);
      this.buffer.set(data, at);
      return;
    }
    this.parts.push(this.buffer.subarray(0, this.length), Buffer.from(data.buffer, data.byteOffset, data.length));
    this.buffer = Buffer.allocUnsafe(64);
    this.length = 0;
  }

  message(name: string, number: number): void {
    if (this.compact) {
      this.byte(COMPACT_ID);
      this.byte(COMPACT_VERSION | (CALL << 5));
      this.varint(number);
      this.bytes(Buffer.from(name));
      return;
    }
    this.word((BINARY_VERSION << 16) | CALL);
    this.bytes(Buffer.from(name));
    this.word(number);
  }

  private field(id: number, type: number, before: number): void {
    if (!this.compact) {
      this.byte(type);
      const at = this.room(2);
      this.buffer.writeInt16BE(id, at);
    } else if (id - before <= 15) {
      this.byte(((id - before) << 4) | type);
    } else {
      this.byte(type);
      this.integer(BigInt(id), 2);
    }
  }

  /** The arguments of a call: its request as field 1. */
  request(struct: Struct<unknown>, value: object): void {
    this.field(1, this.compact ? toCompact(Type.Struct) : Type.Struct, 0);
    this.struct(struct, value);
    this.byte(Type.Stop);
  }

  private struct(struct: Struct<unknown>, value: object): void {
    let before = 0;
    for (const { id, name, of } of struct.fields) {
      const member = (value as Record<string, unknown>)[name];
      if (member === undefined || member === null) continue;
      if (this.compact && of.wire === "bool") {
        this.field(id, member ? COMPACT_TRUE : COMPACT_FALSE, before);
      } else {
        const type = TYPES[of.wire];
        this.field(id, this.compact ? toCompact(type) : type, before);
        this.value(of, member, `${struct.name}.${name}`);
      }
      before = id;
    }
    this.byte(Type.Stop);
  }

  private value(of: Kind, value: unknown, name: string): void {
    switch (of.wire) {
      case "bool":
        return this.byte(value ? 1 : 0);
      case "i16":
        return this.integer(inRange(value, 16, name), 2);
      case "i32":
        return this.integer(inRange(value, 32, name), 4);
      case "i64":
      case "opaque":
        return this.integer(inRange(value, 64, name), 8);
      case "string":
        return this.bytes(Buffer.from(value as string));
      case "binary":
        return this.bytes(value as Uint8Array);
      case "struct":
        return this.struct(of.struct, value as object);
      case "list":
        return this.list(of.element, value as unknown[], name);
    }
  }

  private list(element: Kind, values: unknown[], name: string): void {
    const type = TYPES[element.wire];
    if (!this.compact) {
      this.byte(type);
      this.word(values.length);
    } else if (values.length < 15) {
      this.byte((values.length << 4) | toCompact(type));
    } else {
      this.byte(0xf0 | toCompact(type));
      this.varint(values.length);
    }
    for (const value of values) this.value(element, value, name);
  }

  finish(framed: boolean): Buffer[] {
    this.parts.push(this.buffer.subarray(0, this.length));
    if (!framed) return this.parts;
    const head = Buffer.allocUnsafe(4);
    head.writeUInt32BE(this.parts.reduce((sum, part) => sum + part.length, 0));
    return [head, ...this.parts];
  }
}

function inRange(value: unknown, bits: number, name: string): bigint {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${name} isn't a whole number below 2^53: ${value}`);
  }
  const whole = BigInt(value as number | bigint);
  if (BigInt.asIntN(bits, whole) !== whole) throw new RangeError(`${name} is too large: ${whole}`);
  return whole;
}

/** A call's bytes, in parts. */
export function encode<Request extends object>(
  protocol: Protocol,
  framed: boolean,
  method: Method<Request, unknown>,
  number: number,
  request: Request,
): Buffer[] {
  const writer = new Writer(protocol === "compact");
  writer.message(method.name, number);
  writer.request(method.request, request);
  return writer.finish(framed);
}

// -- Reading

/** A bool of the compact protocol is in it. */
interface FieldHead {
  type: Type;
  id: number;
  bool: boolean;
}

class Reader {
  at = 0;
  private elements = MAX_ELEMENTS; // that the message may still have

  constructor(
    private readonly buffer: Buffer,
    private readonly compact: boolean,
  ) {}

  private take(bytes: number): number {
    const from = this.at;
    if (bytes > MAX_MESSAGE_BYTES - from) throw new MalformedError("a message that is too long");
    if (from + bytes > this.buffer.length) throw new Underflow(from + bytes);
    this.at += bytes;
    return from;
  }

  byte(): number {
    return this.buffer[this.take(1)] as number;
  }

  private varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const next = this.byte();
      value |= BigInt(next & 0x7f) << shift;
      if (next < 0x80) return BigInt.asUintN(64, value);
    }
    throw new MalformedError("a number without an end");
  }

  private integer(bytes: 2 | 4 | 8): bigint {
    if (this.compact) {
      const value = this.varint();
      return (value >> 1n) ^ -(value & 1n);
    }
    const at = this.take(bytes);
    if (bytes === 8) return this.buffer.readBigInt64BE(at);
    return BigInt(bytes === 2 ? this.buffer.readInt16BE(at) : this.buffer.readInt32BE(at));
  }

  private bytes(): Buffer {
    const length = this.compact ? Number(this.varint()) : this.buffer.readInt32BE(this.take(4));
    if (length < 0) throw new MalformedError("a negative length");
    const at = this.take(length);
    return this.buffer.subarray(at, at + length);
  }

  /** Takes elements from those that the message may still have. */
  private spend(count: number): void {
    if (!(count >= 0 && count <= this.elements)) throw new MalformedError("a message of too many elements");
    this.elements -= count;
  }

  message(): { kind: number; name: Buffer; number: number } {
    if (this.compact) {
      const id = this.byte();
      const second = this.byte();
      if (id !== COMPACT_ID || (second & 0x1f) !== COMPACT_VERSION) {
        throw new MalformedError("bytes that are no reply");
      }
      const number = Number(this.varint());
      return { kind: second >> 5, name: this.bytes(), number };
    }
    const begin = this.buffer.readUInt32BE(this.take(4));
    if (begin >>> 16 !== BINARY_VERSION) throw new MalformedError("bytes that are no reply");
    return { kind: begin & 0xff, name: this.bytes(), number: this.buffer.readInt32BE(this.take(4)) };
  }

  /** The next field's type and id; undefined at the end. */
  private field(before: number): FieldHead | undefined {
    const first = this.byte();
    if (first === Type.Stop) return undefined;
    if (!this.compact) {
      return { type: first, id: this.buffer.readInt16BE(this.take(2)), bool: false };
    }
    const id = first >> 4 ? before + (first >> 4) : Number(this.integer(2));
    const type = FROM_COMPACT[first & 15];
    if (type === undefined) throw new MalformedError("a field of no type");
    return { type, id, bool: (first & 15) === COMPACT_TRUE };
  }

  /** A message, whose known fields are in `struct`. */
  struct(struct: Struct<unknown>, depth = 0): Record<string, unknown> {
    this.spend(1);
    const value: Record<string, unknown> = {};
    let next: FieldHead | undefined;
    for (let before = 0; (next = this.field(before)) !== undefined; before = next.id) {
      const id = next.id;
      const known = struct.fields.find((field) => field.id === id);
      if (known === undefined || TYPES[known.of.wire] !== next.type) {
        this.skip(next.type, depth, true);
      } else if (this.compact && known.of.wire === "bool") {
        value[known.name] = next.bool;
      } else {
        value[known.name] = this.value(known.of, known.name, depth);
      }
    }
    return value;
  }

  private value(of: Kind, name: string, depth: number): unknown {
    switch (of.wire) {
      case "bool":
        return this.byte() === 1;
      case "i16":
        return Number(this.integer(2));
      case "i32":
        return Number(this.integer(4));
      case "i64":
        // Rounded from 2^53 on, as the bytes of a large store. No request takes such a number back.
        return Number(this.integer(8));
      case "opaque":
        return this.integer(8);
      case "string":
        return this.bytes().toString();
      case "binary":
        return this.bytes();
      case "struct":
        return this.struct(of.struct, depth + 1);
      case "list": {
        const { type, count } = this.list();
        if (type !== TYPES[of.element.wire] && count > 0) {
          throw new MalformedError(`a list of another type: ${name}`);
        }
        return Array.from({ length: count }, () => this.value(of.element, name, depth + 1));
      }
    }
  }

  private list(): { type: Type; count: number } {
    let type: Type | undefined = this.byte();
    let count: number;
    if (this.compact) {
      count = type >> 4;
      if (count === 15) count = Number(this.varint());
      type = FROM_COMPACT[type & 15];
    } else {
      count = this.buffer.readInt32BE(this.take(4));
    }
    if (type === undefined) throw new MalformedError("a list of no type");
    this.spend(count);
    // Each element has a byte at least: no memory for what can't be there.
    if (this.at + count > this.buffer.length) throw new Underflow(this.at + count);
    return { type, count };
  }

  private skip(type: Type, depth: number, isField: boolean): void {
    if (depth > MAX_DEPTH) throw new MalformedError("structures within structures");
    switch (type) {
      case Type.Bool:
        if (!this.compact || !isField) this.byte();
        return;
      case Type.Byte:
        this.byte();
        return;
      case Type.I16:
        this.integer(2);
        return;
      case Type.I32:
        this.integer(4);
        return;
      case Type.I64:
        this.integer(8);
        return;
      case Type.Double:
        this.take(8);
        return;
      case Type.Uuid:
        this.take(16);
        return;
      case Type.String:
        this.bytes();
        return;
      case Type.Struct: {
        this.spend(1);
        let next: FieldHead | undefined;
        for (let before = 0; (next = this.field(before)) !== undefined; before = next.id) {
          this.skip(next.type, depth + 1, true);
        }
        return;
      }
      case Type.List:
      case Type.Set: {
        const { type: element, count } = this.list();
        for (let number = 0; number < count; number++) this.skip(element, depth + 1, false);
        return;
      }
      case Type.Map:
        return this.skipMap(depth);
      default:
        throw new MalformedError(`a field of type ${type}`);
    }
  }

  private skipMap(depth: number): void {
    let count: number;
    let key: Type | undefined;
    let value: Type | undefined;
    if (this.compact) {
      count = Number(this.varint());
      if (count === 0) return;
      const types = this.byte();
      [key, value] = [FROM_COMPACT[types >> 4], FROM_COMPACT[types & 15]];
    } else {
      [key, value] = [this.byte(), this.byte()];
      count = this.buffer.readInt32BE(this.take(4));
    }
    if (key === undefined || value === undefined) throw new MalformedError("a map of no type");
    this.spend(count);
    for (let number = 0; number < count; number++) {
      this.skip(key, depth + 1, false);
      this.skip(value, depth + 1, false);
    }
  }
}

/** Thrift's TApplicationException. */
const APPLICATION: Struct<unknown> = {
  name: "TApplicationException",
  fields: [
    { id: 1, name: "message", of: { wire: "string" } },
    { id: 2, name: "type", of: { wire: "i32" } },
  ],
};

/** A reply: what the method gives, or the gateway's error. */
export type Decoded<Reply> = { bytes: number } & ({ reply: Reply } | { error: object });

/** The reply at the begin of `buffer`; throws `Underflow` where it isn't there as a whole. */
export function decode<Reply>(
  protocol: Protocol,
  buffer: Buffer,
  number: number,
  { name, reply }: Method<unknown, Reply>,
  error: Struct<object>,
): Decoded<Reply> {
  const reader = new Reader(buffer, protocol === "compact");
  const begin = reader.message();
  const isExpected = begin.number === number && begin.name.equals(Buffer.from(name));
  if (!isExpected) throw new MalformedError("a reply to another request");
  if (begin.kind === EXCEPTION) {
    const told = reader.struct(APPLICATION);
    throw new Refusal(String(told.message ?? ""), told.type === UNKNOWN_METHOD);
  }
  if (begin.kind !== REPLY) throw new MalformedError("bytes that are no reply");
  const result = reader.struct({
    name: "result",
    fields: [
      { id: 0, name: "reply", of: { wire: "struct", struct: reply } },
      { id: 1, name: "error", of: { wire: "struct", struct: error } },
    ],
  });
  if (result.error !== undefined) return { bytes: reader.at, error: result.error as object };
  if (result.reply === undefined) throw new MalformedError("a reply without a result");
  return { bytes: reader.at, reply: result.reply as Reply };
}
