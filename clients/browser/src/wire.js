// Thrift's binary protocol, strict. A message is its fields by number: {id: [type, value]}; no code is generated.

export const BOOL = 2, I16 = 6, I32 = 8, I64 = 10, BINARY = 11, STRUCT = 12, LIST = 15;
const STOP = 0, BYTE = 3, DOUBLE = 4, MAP = 13, SET = 14;
const CALL = 1, EXCEPTION = 3;
const VERSION = 0x8001;
const MAX_DEPTH = 16;
const MAX_VALUES = 1 << 18; // structs and items of a reply, each of which takes far more memory than bytes
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The peer's bytes are no answer to the request. */
export class WrongReply extends Error {}

/** Fields with a value, by short forms: {4: [I64, 1n]}. An undefined value isn't sent. */
export function request(method, number, fields) {
  const parts = [];
  let length = 0;
  const add = (bytes) => {
    parts.push(bytes);
    length += bytes.length;
  };
  const number_ = (size, value) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigInt64(0, BigInt(value));
    add(new Uint8Array(view.buffer, 8 - size));
  };
  const binary = (value) => {
    const bytes = typeof value === "string" ? encoder.encode(value) : value;
    number_(4, bytes.length);
    add(bytes);
  };
  const struct = (from) => {
    for (const [id, [type, value]] of Object.entries(from)) {
      if (value === undefined || value === null) continue;
      number_(1, type);
      number_(2, id);
      item(type, value);
    }
    number_(1, STOP);
  };
  const item = (type, value) => {
    if (type === BINARY) return binary(value);
    if (type === STRUCT) return struct(value);
    if (type === LIST) { // of strings: no request has others
      number_(1, BINARY);
      number_(4, value.length);
      return value.forEach(binary);
    }
    number_({ [BOOL]: 1, [I16]: 2, [I32]: 4, [I64]: 8 }[type], value);
  };
  number_(2, VERSION);
  number_(2, CALL);
  binary(method);
  number_(4, number);
  struct({ 1: [STRUCT, fields] });
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A message received. Integers are BigInts, strings bytes. */
export class Fields {
  constructor() {
    this.all = new Map();
  }
  get(id) {
    return this.all.get(id)?.[1];
  }
  has(id) {
    return this.all.has(id);
  }
  number(id) {
    const value = this.get(id);
    return typeof value === "bigint" ? Number(value) : 0;
  }
  bytes(id) {
    const value = this.get(id);
    return value instanceof Uint8Array ? value : undefined;
  }
  text(id) {
    const bytes = this.bytes(id);
    return bytes && decoder.decode(bytes);
  }
  struct(id) {
    const value = this.get(id);
    return value instanceof Fields ? value : undefined;
  }
  list(id) {
    const value = this.get(id);
    return Array.isArray(value) ? value : [];
  }
}

/** A reply's fields: 0 the result, 1 the error. */
export function reply(bytes, method, number) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let values = 0;
  const countOf = (more) => {
    values += more;
    if (values > MAX_VALUES) throw new WrongReply("a reply with too many values");
  };
  const take = (length) => {
    if (length < 0 || length > bytes.length - at) throw new WrongReply("a reply with a wrong length");
    at += length;
    return at - length;
  };
  const integer = {
    1: () => BigInt(view.getInt8(take(1))),
    2: () => BigInt(view.getInt16(take(2))),
    4: () => BigInt(view.getInt32(take(4))),
    8: () => view.getBigInt64(take(8)),
  };
  const count = () => Number(integer[4]());
  const binary = () => {
    const length = count();
    const from = take(length);
    return bytes.subarray(from, from + length);
  };
  const struct = (depth) => {
    countOf(1);
    const fields = new Fields();
    for (;;) {
      const type = Number(integer[1]());
      if (type === STOP) return fields;
      const id = Number(integer[2]());
      fields.all.set(id, [type, item(type, depth + 1)]);
    }
  };
  const items = (each, depth) => {
    const types = Array.from({ length: each }, () => Number(integer[1]()));
    const left = count();
    if (left < 0) throw new WrongReply("a reply with a wrong length");
    countOf(left * each);
    const found = []; // grows with the bytes: an item takes one at least
    for (let one = 0; one < left; one++) for (const type of types) found.push(item(type, depth + 1));
    return found;
  };
  const item = (type, depth) => {
    if (depth > MAX_DEPTH) throw new WrongReply("a reply that is too deep");
    switch (type) {
      case BOOL:
      case BYTE: return integer[1]();
      case I16: return integer[2]();
      case I32: return integer[4]();
      case DOUBLE:
      case I64: return integer[8]();
      case BINARY: return binary();
      case STRUCT: return struct(depth);
      case LIST:
      case SET: return items(1, depth);
      case MAP: return items(2, depth);
      default: throw new WrongReply("a reply with a field of an unknown type");
    }
  };
  const version = view.getUint16(take(2));
  const type = view.getUint16(take(2));
  const name = decoder.decode(binary());
  if (version !== VERSION || count() !== number) throw new WrongReply("no reply to this request");
  const fields = struct(0);
  if (at !== bytes.length) throw new WrongReply("a reply that doesn't end with its message");
  if (type === EXCEPTION) throw new WrongReply(`the gateway refuses ${method}: ${fields.text(1)}`);
  if (name !== method) throw new WrongReply("a reply to another method");
  return fields;
}
