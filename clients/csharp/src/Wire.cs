using System;
using System.Collections.Generic;
using System.IO;
using System.Text;

namespace StraitFs
{
    /// <summary>Types of fields, as Thrift's binary protocol numbers them.</summary>
    internal enum Kind : byte
    {
        Stop = 0, Bool = 2, Byte = 3, Double = 4, I16 = 6, I32 = 8, I64 = 10, Binary = 11, Struct = 12, Map = 13, Set = 14, List = 15,
    }

    /// <summary>
    /// A message of idl/dfs.thrift: its fields by number. Integers and booleans are longs, strings bytes, lists
    /// List&lt;object&gt;. So no generated code is needed.
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

        internal Fields Text(short id, string value) => Put(id, Kind.Binary, value == null ? null : Encoding.UTF8.GetBytes(value));
        internal Fields Bytes(short id, byte[] value) => Put(id, Kind.Binary, value);
        internal Fields Bool(short id, bool value) => Put(id, Kind.Bool, value ? 1L : 0L);
        internal Fields I16(short id, int? value) => Put(id, Kind.I16, (long?)value);
        internal Fields I32(short id, int? value) => Put(id, Kind.I32, (long?)value);
        internal Fields I64(short id, long? value) => Put(id, Kind.I64, value);

        /// <summary>A field of another type than expected counts as absent, as in Thrift's own decoders.</summary>
        private T Get<T>(short id) where T : class =>
            fields.TryGetValue(id, out var field) ? field.Value as T : null;

        internal bool Has(short id) => fields.ContainsKey(id);
        internal long Long(short id) => fields.TryGetValue(id, out var field) && field.Value is long number ? number : 0;
        internal byte[] Bytes(short id) => Get<byte[]>(id);
        internal string Text(short id) => Bytes(id) is byte[] bytes ? Encoding.UTF8.GetString(bytes) : null;
        internal Fields Struct(short id) => Get<Fields>(id);
        internal List<object> List(short id) => Get<List<object>>(id) ?? new List<object>();
    }

    /// <summary>Thrift's binary protocol, strict, in frames.</summary>
    internal static class Wire
    {
        private const int Version = unchecked((int)0x80010000);
        private const int Call = 1, Exception = 3;
        private const int MaxDepth = 16;
        internal const int MaxFrame = 16 << 20;

        internal static byte[] Request(string method, int number, Fields request)
        {
            var frame = new MemoryStream();
            I32(frame, 0);
            I32(frame, Version | Call);
            Bytes(frame, Encoding.ASCII.GetBytes(method));
            I32(frame, number);
            Write(frame, new Fields().Put(1, Kind.Struct, request));
            var bytes = frame.ToArray();
            var length = new MemoryStream();
            I32(length, bytes.Length - 4);
            Array.Copy(length.ToArray(), bytes, 4);
            return bytes;
        }

        /// <summary>The reply's fields: 0 the result, 1 the error.</summary>
        internal static Fields Reply(byte[] frame, string method, int number)
        {
            var reader = new Reader(frame);
            var head = reader.I32();
            var name = Encoding.UTF8.GetString(reader.Bytes());
            if ((head & unchecked((int)0xffff0000)) != Version) throw new InvalidDataException("no reply of Thrift's");
            if (reader.I32() != number) throw new InvalidDataException("a reply to another request");
            var fields = reader.Struct(0);
            if (!reader.AtEnd) throw new InvalidDataException("a reply that doesn't end with its frame");
            if ((head & 0xff) == Exception)
                throw Errors.Of(ErrorKind.Internal, "the gateway refuses " + method + ": " + fields.Text(1));
            if (name != method) throw new InvalidDataException("a reply to another method");
            return fields;
        }

        private static void Write(MemoryStream target, Fields fields)
        {
            foreach (var field in fields.All)
            {
                target.WriteByte((byte)field.Value.Key);
                I16(target, field.Key);
                Value(target, field.Value.Key, field.Value.Value);
            }
            target.WriteByte((byte)Kind.Stop);
        }

        private static void Value(MemoryStream target, Kind kind, object value)
        {
            switch (kind)
            {
                case Kind.Bool: target.WriteByte((byte)(long)value); break;
                case Kind.I16: I16(target, (long)value); break;
                case Kind.I32: I32(target, (long)value); break;
                case Kind.I64: I64(target, (long)value); break;
                case Kind.Binary: Bytes(target, (byte[])value); break;
                case Kind.Struct: Write(target, (Fields)value); break;
                case Kind.List: // of strings: no request has others
                    var list = (IList<string>)value;
                    target.WriteByte((byte)Kind.Binary);
                    I32(target, list.Count);
                    foreach (var text in list) Bytes(target, Encoding.UTF8.GetBytes(text));
                    break;
                default: throw new InvalidOperationException(kind.ToString());
            }
        }

        private static void I16(MemoryStream target, long value)
        {
            target.WriteByte((byte)(value >> 8));
            target.WriteByte((byte)value);
        }

        private static void I32(MemoryStream target, long value)
        {
            I16(target, value >> 16);
            I16(target, value);
        }

        private static void I64(MemoryStream target, long value)
        {
            I32(target, value >> 32);
            I32(target, value);
        }

        private static void Bytes(MemoryStream target, byte[] bytes)
        {
            I32(target, bytes.Length);
            target.Write(bytes, 0, bytes.Length);
        }

        /// <summary>Reads within a frame; every length is checked against what is left of it.</summary>
        private sealed class Reader
        {
            private readonly byte[] frame;
            private int at;

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

            internal byte[] Bytes()
            {
                var length = I32();
                var start = Take(length); // checks it, before memory is taken for it
                var bytes = new byte[length];
                Buffer.BlockCopy(frame, start, bytes, 0, length);
                return bytes;
            }

            internal Fields Struct(int depth)
            {
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
                var items = new List<object>(); // grows with the bytes: an item takes one at least
                for (var item = 0; item < count; item++)
                    foreach (var kind in kinds) items.Add(Value(kind, depth + 1));
                return items;
            }
        }
    }
}
