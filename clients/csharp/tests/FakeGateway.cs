using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;

namespace StraitFs
{
    /// <summary>A gateway in this process, for what a real one does seldom. One file is at each path that is opened.</summary>
    internal sealed class FakeGateway : IDisposable
    {
        private readonly TcpListener listener = new TcpListener(IPAddress.Loopback, 0);
        private readonly object gate = new object();
        private readonly List<Socket> connections = new List<Socket>();
        private readonly List<string> requests = new List<string>();
        private readonly HashSet<long> handles = new HashSet<long>();
        private long incarnation = 1, lastHandle;

        internal FakeGateway()
        {
            listener.Start();
            new Thread(Accept) { IsBackground = true }.Start();
        }

        internal string Address => "127.0.0.1:" + ((IPEndPoint)listener.LocalEndpoint).Port;

        /// <summary>The bytes of every file. Others have another identity.</summary>
        internal string Content { get; set; } = "content";

        /// <summary>Requests of this method get no answer.</summary>
        internal string Silent { get; set; }

        /// <summary>Answers to getFileInfo have these encoded fields in place of a result or an error.</summary>
        internal byte[] Reply { get; set; }

        /// <summary>Answers to readRange go to the end of the file.</summary>
        internal bool SendsTooMuch { get; set; }

        internal int Count(string method)
        {
            lock (gate) return requests.Count(one => one == method);
        }

        /// <summary>Ends all connections, sessions and handles.</summary>
        internal void Restart()
        {
            lock (gate)
            {
                EndSessions();
                foreach (var connection in connections) End(connection);
                connections.Clear();
            }
        }

        /// <summary>As after an idle time: the connections stay.</summary>
        internal void EndSessions()
        {
            lock (gate)
            {
                incarnation++;
                handles.Clear();
            }
        }

        private static void End(Socket connection)
        {
            try
            {
                connection.Shutdown(SocketShutdown.Both);
            }
            catch (SocketException)
            {
                // The client has ended it.
            }
        }

        /// <summary>Ends all handles. The session stays.</summary>
        internal void DropHandles()
        {
            lock (gate) handles.Clear();
        }

        private void Accept()
        {
            try
            {
                for (;;)
                {
                    var connection = listener.AcceptSocket();
                    lock (gate) connections.Add(connection);
                    new Thread(() => Serve(connection)) { IsBackground = true }.Start();
                }
            }
            catch (Exception failure) when (failure is SocketException || failure is InvalidOperationException)
            {
                // The listener has stopped: the test is over.
            }
        }

        private void Serve(Socket connection)
        {
            var attached = 0L;
            try
            {
                for (;;)
                {
                    var frame = Receive(connection, Number(Receive(connection, 4), 0));
                    var nameBytes = Number(frame, 4);
                    var method = Encoding.ASCII.GetString(frame, 8, nameBytes);
                    var number = Number(frame, 8 + nameBytes);
                    var request = Wire.Reply(frame, method, number).Struct(1);
                    byte[] answer;
                    lock (gate)
                    {
                        requests.Add(method);
                        if (method == Silent) continue;
                        if (method == "openSession") attached = incarnation;
                        answer = Framed(method, number, request, attached);
                    }
                    connection.Send(answer);
                }
            }
            catch (Exception failure) when (failure is SocketException || failure is EndOfStreamException)
            {
                lock (gate) connections.Remove(connection);
                connection.Close();
            }
        }

        /// <summary>A request's encoding, with the type of a reply, and the field for a result.</summary>
        private byte[] Framed(string method, int number, Fields request, long attached)
        {
            const int LengthAt = 3, TypeAt = 7, FieldsAt = 16, FieldAt = 18;
            var isError = false;
            Fields reply;
            try
            {
                if (attached != incarnation) throw Errors.Of(ErrorKind.Unauthenticated, "the session has ended");
                reply = Answer(method, request);
            }
            catch (StraitArgumentException failure)
            {
                isError = true;
                reply = new Fields().I32(1, (int)failure.Kind).Text(3, failure.Message);
            }
            catch (StraitAccessException failure)
            {
                isError = true;
                reply = new Fields().I32(1, (int)failure.Kind).Text(3, failure.Message);
            }
            var frame = Wire.Request(method, number, reply).SelectMany(part => part).ToArray();
            frame[TypeAt] = 2;
            if (isError) return frame;
            if (method == "getFileInfo" && Reply != null)
            {
                frame = frame.Take(FieldsAt + method.Length).Concat(Reply).ToArray();
                frame[LengthAt] = (byte)(frame.Length - 4);
                return frame;
            }
            var at = FieldAt + method.Length;
            frame[at++] = 0;
            if (method != "listDirectory") return frame;
            // Field 1, which Wire doesn't encode: a list of one struct, whose field 1 is the path.
            var entries = new byte[] { (byte)Kind.List, 0, 1, (byte)Kind.Struct, 0, 0, 0, 1, (byte)Kind.Binary, 0, 1, 0, 0, 0, 12 }
                .Concat(Encoding.ASCII.GetBytes("/directory/a")).Concat(new byte[] { 0 }).ToArray();
            frame[LengthAt] += (byte)entries.Length;
            return frame.Take(at).Concat(entries).Concat(frame.Skip(at)).ToArray();
        }

        private Fields Answer(string method, Fields request)
        {
            var token = "token " + incarnation;
            switch (method)
            {
                case "openSession":
                    if (request.Text(5) != null && request.Text(5) != token) throw Errors.Of(ErrorKind.Unauthenticated, "the session ended");
                    return new Fields().Text(1, token).I64(7, incarnation);
                case "openFile":
                    handles.Add(++lastHandle);
                    return new Fields().I64(1, lastHandle).I64(2, Content.Length).Text(3, Content);
                case "readRange":
                    Check(request.Long(2));
                    var rest = Content.Substring((int)Math.Min(Content.Length, request.Long(3)));
                    return new Fields().Text(1, SendsTooMuch ? rest : rest.Substring(0, (int)Math.Min(rest.Length, request.Long(4))));
                case "listDirectory": // pages without an end
                    if (request.Has(3)) Check(request.Long(3));
                    else handles.Add(++lastHandle);
                    return new Fields().I64(2, request.Has(3) ? request.Long(3) : lastHandle);
                case "getFileInfo": return new Fields().Put(1, Kind.Struct, request);
                default: return new Fields();
            }
        }

        private void Check(long handle)
        {
            if (!handles.Contains(handle)) throw Errors.Of(ErrorKind.InvalidArgument, "no such open handle in this session");
        }

        private static int Number(byte[] bytes, int at) => bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];

        private static byte[] Receive(Socket connection, int length)
        {
            var bytes = new byte[length];
            for (var at = 0; at < length;)
            {
                var count = connection.Receive(bytes, at, length - at, SocketFlags.None);
                if (count == 0) throw new EndOfStreamException();
                at += count;
            }
            return bytes;
        }

        public void Dispose()
        {
            listener.Stop();
            Restart();
        }
    }
}
