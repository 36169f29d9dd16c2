using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace StraitFs
{
    /// <summary>Types of fields, as Thrift's binary protocol numbers them.</summary>
    internal enum Kind : byte
    {
        Stop = 0, Bool = 2, Byte = 3, Double = 4, I16 = 6, I32 = 8, I64 = 10, Binary = 11, Struct = 12, Map = 13, Set = 14, List = 15,
    }

    /// <summary>
    /// A message of idl/dfs.thrift: its fields by number. Integers and booleans are longs, strings are
    /// ArraySegment&lt;byte&gt;, and lists List&lt;object&gt;. So no generated code is needed.
    /// </summary>
    internal sealed class Fields
    {
        private readonly SortedDictionary<short, KeyValuePair<Kind, object>> fields =
            new SortedDictionary<short, KeyValuePair<Kind, object>>();

        internal IEnumerable<KeyValuePair<short, KeyValuePair<Kind, object>>> All => fields;

        /// <summary>A null isn't sent.</summary>
        internal Fields Put(short id, Kind kind, object value)
        {
            if (value == null) fields.Remove(id);
            else fields[id] = new KeyValuePair<Kind, object>(kind, value);
            return this;
        }

        internal Fields Text(short id, string value) => Bytes(id, value == null ? null : Encoding.UTF8.GetBytes(value));
        internal Fields Bytes(short id, byte[] value) => value == null ? Put(id, Kind.Binary, null) : Slice(id, new ArraySegment<byte>(value));
        /// <summary>The bytes aren't copied: they mustn't change before they are sent.</summary>
        internal Fields Slice(short id, ArraySegment<byte> value) => Put(id, Kind.Binary, value);
        internal Fields Bool(short id, bool value) => Put(id, Kind.Bool, value ? 1L : 0L);
        internal Fields I16(short id, int? value) => Put(id, Kind.I16, (long?)value);
        internal Fields I32(short id, int? value) => Put(id, Kind.I32, (long?)value);
        internal Fields I64(short id, long? value) => Put(id, Kind.I64, value);

        /// <summary>A field of another type than expected counts as absent, as in Thrift's own decoders.</summary>
        private T Get<T>(short id) where T : class =>
            fields.TryGetValue(id, out var field) ? field.Value as T : null;

        internal bool Has(short id) => fields.ContainsKey(id);
        internal long Long(short id) => fields.TryGetValue(id, out var field) && field.Value is long number ? number : 0;
        /// <summary>A part of the reply's frame; without an array if the field is absent.</summary>
        internal ArraySegment<byte> Slice(short id) =>
            fields.TryGetValue(id, out var field) && field.Value is ArraySegment<byte> bytes ? bytes : default(ArraySegment<byte>);
        internal byte[] Bytes(short id) => Slice(id).Array == null ? null : Slice(id).ToArray();
        internal string Text(short id) => Slice(id).Array == null ? null : Wire.Text(Slice(id));
        internal IEnumerable<string> Texts(short id) => List(id).OfType<ArraySegment<byte>>().Select(Wire.Text);
        internal Fields Struct(short id) => Get<Fields>(id);
        internal List<object> List(short id) => Get<List<object>>(id) ?? new List<object>();
    }

    /// <summary>Thrift's binary protocol, strict, in frames.</summary>
    internal static class Wire
    {
        private const int Version = unchecked((int)0x80010000);
        private const int Call = 1, Exception = 3;
        private const int MaxDepth = 16;
        /// <summary>Of a reply's structs and items, which take far more memory than bytes.</summary>
        private const int MaxValues = 1 << 18;
        internal const int MaxFrame = 16 << 20;

        internal static string Text(ArraySegment<byte> bytes) => Encoding.UTF8.GetString(bytes.Array, bytes.Offset, bytes.Count);

        /// <summary>A frame, in parts to be sent one after the other.</summary>
        internal static List<ArraySegment<byte>> Request(string method, int number, Fields request)
        {
            var message = new Parts();
            I32(message, Version | Call);
            Bytes(message, new ArraySegment<byte>(Encoding.ASCII.GetBytes(method)));
            I32(message, number);
            Write(message, new Fields().Put(1, Kind.Struct, request));
            return message.Framed();
        }

        /// <summary>Bytes to send. A file's bytes are a part of their own, which isn't copied.</summary>
        private sealed class Parts
        {
            private const int LengthBytes = 4, CopiedBytes = 16 << 10;

            private readonly List<ArraySegment<byte>> done = new List<ArraySegment<byte>>();
            private MemoryStream last = new MemoryStream(256);

            internal Parts() { last.Position = LengthBytes; }

            internal void WriteByte(byte value) => last.WriteByte(value);

            internal void Write(ArraySegment<byte> bytes)
            {
                if (bytes.Count <= CopiedBytes)
                {
                    last.Write(bytes.Array, bytes.Offset, bytes.Count);
                    return;
                }
                End();
                done.Add(bytes);
            }

            private void End()
            {
                done.Add(new ArraySegment<byte>(last.GetBuffer(), 0, (int)last.Length));
                last = new MemoryStream(256);
            }

            /// <summary>With the length of what follows it in front.</summary>
            internal List<ArraySegment<byte>> Framed()
            {
                End();
                var length = done.Sum(part => part.Count) - LengthBytes;
                for (var at = 0; at < LengthBytes; at++) done[0].Array[at] = (byte)(length >> 8 * (LengthBytes - 1 - at));
                return done;
            }
        }

        /// <summary>The reply's fields: 0 the result, 1 the error.</summary>
        internal static Fields Reply(byte[] frame, string method, int number)
        {
            var reader = new Reader(frame);
            var head = reader.I32();
            var name = Text(reader.Bytes());
            if ((head & unchecked((int)0xffff0000)) != Version) throw new InvalidDataException("no reply of Thrift's");
            if (reader.I32() != number) throw new InvalidDataException("a reply to another request");
            var fields = reader.Struct(0);
            if (!reader.AtEnd) throw new InvalidDataException("a reply that doesn't end with its frame");
            if ((head & 0xff) == Exception)
                throw Errors.Of(ErrorKind.Internal, "the gateway refuses " + method + ": " + fields.Text(1));
            if (name != method) throw new InvalidDataException("a reply to another method");
            return fields;
        }

        private static void Write(Parts target, Fields fields)
        {
            foreach (var field in fields.All)
            {
                target.WriteByte((byte)field.Value.Key);
                I16(target, field.Key);
                Value(target, field.Value.Key, field.Value.Value);
            }
            target.WriteByte((byte)Kind.Stop);
        }

        private static void Value(Parts target, Kind kind, object value)
        {
            switch (kind)
            {
                case Kind.Bool: target.WriteByte((byte)(long)value); break;
                case Kind.I16: I16(target, (long)value); break;
                case Kind.I32: I32(target, (long)value); break;
                case Kind.I64: I64(target, (long)value); break;
                case Kind.Binary: Bytes(target, (ArraySegment<byte>)value); break;
                case Kind.Struct: Write(target, (Fields)value); break;
                case Kind.List: // of strings: no request has others
                    var list = (IList<string>)value;
                    target.WriteByte((byte)Kind.Binary);
                    I32(target, list.Count);
                    foreach (var text in list) Bytes(target, new ArraySegment<byte>(Encoding.UTF8.GetBytes(text)));
                    break;
                default: throw new InvalidOperationException(kind.ToString());
            }
        }

        private static void I16(Parts target, long value)
        {
            target.WriteByte((byte)(value >> 8));
            target.WriteByte((byte)value);
        }

        private static void I32(Parts target, long value)
        {
            I16(target, value >> 16);
            I16(target, value);
        }

        private static void I64(Parts target, long value)
        {
            I32(target, value >> 32);
            I32(target, value);
        }

        private static void Bytes(Parts target, ArraySegment<byte> bytes)
        {
            I32(target, bytes.Count);
            target.Write(bytes);
        }

        /// <summary>Reads within a frame; every length is checked against what is left of it.</summary>
        private sealed class Reader
        {
            private readonly byte[] frame;
            private int at, values;

            internal Reader(byte[] frame) { this.frame = frame; }

            internal bool AtEnd => at == frame.Length;

            private int Take(int length)
            {
                if (length < 0 || length > frame.Length - at) throw new InvalidDataException("a reply with a wrong length");
                at += length;
                return at - length;
            }

            internal long Number(int bytes)
            {
                long value = (sbyte)frame[Take(1)];
                for (var left = bytes - 1; left > 0; left--) value = value << 8 | frame[Take(1)];
                return value;
            }

            internal int I32() => (int)Number(4);

            internal ArraySegment<byte> Bytes()
            {
                var length = I32();
                return new ArraySegment<byte>(frame, Take(length), length);
            }

            private void Count(long more)
            {
                if (more > MaxValues - values) throw new InvalidDataException("a reply with too many values");
                values += (int)more;
            }

            internal Fields Struct(int depth)
            {
                Count(1);
                var fields = new Fields();
                for (;;)
                {
                    var kind = (Kind)Number(1);
                    if (kind == Kind.Stop) return fields;
                    var id = (short)Number(2);
                    fields.Put(id, kind, Value(kind, depth + 1));
                }
            }

            private object Value(Kind kind, int depth)
            {
                if (depth > MaxDepth) throw new InvalidDataException("a reply that is too deep");
                switch (kind)
                {
                    case Kind.Bool:
                    case Kind.Byte: return Number(1);
                    case Kind.I16: return Number(2);
                    case Kind.I32: return Number(4);
                    case Kind.Double:
                    case Kind.I64: return Number(8);
                    case Kind.Binary: return Bytes();
                    case Kind.Struct: return Struct(depth);
                    case Kind.List:
                    case Kind.Set: return Items(1, depth);
                    case Kind.Map: return Items(2, depth);
                    default: throw new InvalidDataException("a reply with a field of an unknown type");
                }
            }

            /// <summary>No message has maps: a newer gateway's are read over.</summary>
            private List<object> Items(int each, int depth)
            {
                var kinds = new Kind[each];
                for (var one = 0; one < each; one++) kinds[one] = (Kind)Number(1);
                var count = I32();
                if (count < 0) throw new InvalidDataException("a reply with a wrong length");
                Count((long)count * each);
                var items = new List<object>(); // grows with the bytes: an item takes one at least
                for (var item = 0; item < count; item++)
                    foreach (var kind in kinds) items.Add(Value(kind, depth + 1));
                return items;
            }
        }
    }
}
