using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace StraitFs
{
    /// <summary>Answers the requests of tests/languages/driver.py. It is compiled with the library's sources.</summary>
    internal static class Driver
    {
        private static readonly Dictionary<string, StraitClient> Clients = new Dictionary<string, StraitClient>();
        private static readonly Dictionary<string, Stream> Files = new Dictionary<string, Stream>();
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);
        private static StraitClient client;

        private static void Main()
        {
            var source = new BinaryReader(Console.OpenStandardInput());
            var target = new BufferedStream(Console.OpenStandardOutput());
            for (;;)
            {
                List<byte[]> parts;
                try
                {
                    parts = Enumerable.Range(0, Number(source)).Select(_ => source.ReadBytes(Number(source))).ToList();
                }
                catch (EndOfStreamException)
                {
                    break;
                }
                var answer = new List<object> { "ok" };
                try
                {
                    answer.AddRange(Answer(Encoding.UTF8.GetString(parts[0]), new Arguments(parts.Skip(1).ToList())));
                }
                catch (Exception failure) when (failure is IStraitFailure)
                {
                    var told = (IStraitFailure)failure;
                    answer = new List<object> { "error", told.Kind, told.Path ?? "", failure.Message, failure.GetType().FullName };
                }
                Number(target, answer.Count);
                foreach (var part in answer.Select(part => part as byte[] ?? Encoding.UTF8.GetBytes(part.ToString())))
                {
                    Number(target, part.Length);
                    target.Write(part, 0, part.Length);
                }
                target.Flush();
            }
            foreach (var one in Clients.Values) one.Dispose();
        }

        private static int Number(BinaryReader source)
        {
            var bytes = source.ReadBytes(4);
            if (bytes.Length < 4) throw new EndOfStreamException();
            return bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
        }

        private static void Number(Stream target, int number)
        {
            for (var shift = 24; shift >= 0; shift -= 8) target.WriteByte((byte)(number >> shift));
        }

        private sealed class Arguments
        {
            private readonly List<byte[]> parts;

            internal Arguments(List<byte[]> parts) { this.parts = parts; }

            internal int Count => parts.Count;
            internal byte[] Bytes(int index) => parts[index];
            internal string Text(int index) => Encoding.UTF8.GetString(parts[index]);
            internal bool Flag(int index) => Text(index) == "1";
            internal long? Long(int index) => Text(index) == "" ? (long?)null : long.Parse(Text(index));
            internal int? Int(int index) => (int?)Long(index);
        }

        private static IEnumerable<object> Answer(string operation, Arguments given)
        {
            var none = new object[0];
            switch (operation)
            {
                case "connect":
                    client = StraitClient.Connect(given.Text(1), new StraitOptions { TimeoutMs = given.Int(2).Value });
                    Clients[given.Text(0)] = client;
                    return new[] { string.Join(",", client.Store.Capabilities) };
                case "use": client = Clients[given.Text(0)]; return none;
                case "disconnect":
                    Clients[given.Text(0)].Dispose();
                    Clients.Remove(given.Text(0));
                    return none;
                case "open": Files[given.Text(0)] = Open(given); return none;
                case "read": return new[] { Read((StraitReader)Files[given.Text(0)], given.Int(1).Value) };
                case "pread": return new[] { ((StraitReader)Files[given.Text(0)]).ReadAt(given.Long(1).Value, given.Int(2).Value) };
                case "write": Files[given.Text(0)].Write(given.Bytes(1), 0, given.Bytes(1).Length); return none;
                case "position": return new object[] { Files[given.Text(0)].Position };
                case "flush": Files[given.Text(0)].Flush(); return none;
                case "sync": ((StraitWriter)Files[given.Text(0)]).Sync(); return none;
                case "close":
                    Files[given.Text(0)].Dispose();
                    Files.Remove(given.Text(0));
                    return none;
                case "stat":
                    var info = client.Stat(given.Text(0));
                    return new object[]
                    {
                        info.IsDirectory ? "directory" : "file", info.Length, info.Permission, info.Replication,
                        Milliseconds(info.Modified), Milliseconds(info.Accessed),
                    };
                case "exists": return new[] { client.Exists(given.Text(0)) ? "1" : "0" };
                case "list": return client.List(given.Text(0), given.Int(1)).Select(entry => entry.Name).ToList();
                case "mkdirs": client.CreateDirectory(given.Text(0), given.Int(1)); return none;
                case "rename": client.Move(given.Text(0), given.Text(1), given.Flag(2)); return none;
                case "remove": client.Delete(given.Text(0), given.Flag(1)); return none;
                case "attributes":
                    client.SetAttributes(given.Text(0), new StraitAttributes
                    {
                        Permission = given.Int(1), Replication = given.Int(2), Modified = Time(given.Long(3)), Accessed = Time(given.Long(4)),
                    });
                    return none;
                case "truncate": client.Truncate(given.Text(0), given.Long(1).Value); return none;
                case "concat":
                    client.Concat(given.Text(0), Enumerable.Range(1, given.Count - 1).Select(given.Text));
                    return none;
                case "put": client.Put(given.Text(0), given.Text(1), given.Flag(2)); return none;
                case "locate":
                    return client.Locate(given.Text(0), given.Long(1).Value, given.Long(2))
                        .SelectMany(block => new object[] { block.Offset, block.Length, block.Hosts.Count }).ToList();
                case "checksum":
                    var sum = client.Checksum(given.Text(0));
                    return new object[] { sum.Algorithm, sum.Value };
                case "status":
                    var status = client.Status();
                    return new object[] { status.Capacity, status.Used, status.Remaining };
                case "uri":
                    var uri = StraitUri.Parse(given.Text(0));
                    return new object[] { uri.Host, uri.Port, uri.Store ?? "", uri.Path };
                case "request": return Request(given);
                default: throw new InvalidOperationException(operation);
            }
        }

        private static Stream Open(Arguments given)
        {
            switch (given.Text(2))
            {
                case "read": return client.OpenRead(given.Text(1));
                case "append": return client.Append(given.Text(1));
                default: return client.Create(given.Text(1), given.Text(2) == "overwrite", given.Int(3));
            }
        }

        private static byte[] Read(StraitReader file, int length)
        {
            var bytes = new MemoryStream();
            if (length < 0) file.CopyTo(bytes);
            var buffer = new byte[Math.Max(length, 0)];
            for (int left = buffer.Length, taken; left > 0 && (taken = file.Read(buffer, 0, left)) > 0; left -= taken)
                bytes.Write(buffer, 0, taken);
            return bytes.ToArray();
        }

        private static IEnumerable<object> Request(Arguments given)
        {
            var request = new Fields();
            for (var at = 2; at < given.Count; at += 3)
            {
                var kind = (Kind)given.Int(at + 1).Value;
                request.Put((short)given.Int(at).Value, kind, kind == Kind.Binary ? (object)new ArraySegment<byte>(given.Bytes(at + 2)) : given.Long(at + 2));
            }
            var reply = Clients[given.Text(0)].Request(given.Text(1), request);
            return reply.All.Where(field => field.Value.Value is long || field.Value.Value is ArraySegment<byte>)
                .SelectMany(field => new[] { field.Key, field.Value.Value is long number ? (object)number : reply.Bytes(field.Key) }).ToList();
        }

        private static long Milliseconds(DateTime time) => (long)(time - Epoch).TotalMilliseconds;
        private static DateTime? Time(long? milliseconds) => milliseconds == null ? (DateTime?)null : Epoch.AddMilliseconds(milliseconds.Value);
    }
}
