using System;
using System.Diagnostics;
using System.IO;
using System.Net;
using System.Net.Sockets;

namespace StraitFs
{
    /// <summary>The connection broke. If Sent, the request may have arrived.</summary>
    internal sealed class LostException : Exception
    {
        internal LostException(string message, bool sent) : base(message) { Sent = sent; }

        internal bool Sent { get; }
    }

    /// <summary>When a request is given up, with all that belongs to it.</summary>
    internal struct Deadline
    {
        private static readonly Stopwatch Clock = Stopwatch.StartNew();
        private readonly long at;

        private Deadline(long at) { this.at = at; }

        internal static Deadline In(double milliseconds) => new Deadline(Clock.ElapsedMilliseconds + (long)milliseconds);
        internal Deadline OrIn(double milliseconds) => new Deadline(Math.Min(at, In(milliseconds).at));
        internal int LeftMs => (int)Math.Max(0, Math.Min(at - Clock.ElapsedMilliseconds, int.MaxValue));
    }

    /// <summary>
    /// A socket's bytes until a deadline, which bounds all waits together. So a gateway that sends a byte at a time
    /// gains no time, under TLS neither.
    /// </summary>
    internal sealed class SocketStream : Stream
    {
        private readonly Socket socket;

        internal SocketStream(Socket socket) { this.socket = socket; }

        internal Deadline Until { get; set; }

        /// <summary>The deadline passed during a wait.</summary>
        internal bool IsLate { get; private set; }

        public override int Read(byte[] buffer, int offset, int count) => InTime(() =>
        {
            socket.ReceiveTimeout = Left();
            return socket.Receive(buffer, offset, count, SocketFlags.None);
        });

        public override void Write(byte[] buffer, int offset, int count)
        {
            for (var end = offset + count; offset < end;)
            {
                offset += InTime(() =>
                {
                    socket.SendTimeout = Left();
                    return socket.Send(buffer, offset, end - offset, SocketFlags.None);
                });
            }
        }

        private int InTime(Func<int> exchange)
        {
            try
            {
                return exchange();
            }
            catch (SocketException failure) when (failure.SocketErrorCode == SocketError.TimedOut || failure.SocketErrorCode == SocketError.WouldBlock)
            {
                IsLate = true;
                throw;
            }
        }

        /// <summary>0 would be no limit.</summary>
        private int Left()
        {
            var left = Until.LeftMs;
            if (left == 0) throw new SocketException((int)SocketError.TimedOut);
            return left;
        }

        public override bool CanRead => true;
        public override bool CanWrite => true;
        public override bool CanSeek => false;
        public override long Length => throw new NotSupportedException();
        public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }
        public override void Flush() { }
        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
        public override void SetLength(long value) => throw new NotSupportedException();
    }

    /// <summary>A connection, for one caller at a time.</summary>
    internal sealed class Connection : IDisposable
    {
        /// <summary>Number of the field deadline_ms, which each request has.</summary>
        private const short DeadlineField = 15;
        private const int FirstBytes = 2 << 20;

        private readonly Socket socket;
        private readonly SocketStream plain;
        private readonly Stream stream;
        private readonly string address;
        private int number;

        private Connection(Socket socket, string host, string address, Tls tls, Deadline deadline)
        {
            this.socket = socket;
            this.address = address;
            plain = new SocketStream(socket) { Until = deadline };
            stream = tls == null ? plain : tls.Secure(plain, host, address);
        }

        internal bool IsEncrypted => stream != plain;

        /// <summary>Not fit for another request.</summary>
        internal bool Broken { get; private set; }

        /// <summary>Which login it was attached by.</summary>
        internal int Login { get; set; }

        /// <summary>If the name has several addresses, each gets a share of the time.</summary>
        internal static Connection Open(string host, int port, string address, Tls tls, Deadline deadline)
        {
            var why = "the host name " + host + " has no address; check the name, or the resolver";
            try
            {
                var found = Dns.GetHostAddresses(host);
                for (var index = 0; index < found.Length; index++)
                {
                    var socket = new Socket(found[index].AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
                    try
                    {
                        var connecting = socket.BeginConnect(found[index], port, null, null);
                        if (connecting.AsyncWaitHandle.WaitOne(deadline.LeftMs / (found.Length - index)))
                        {
                            socket.EndConnect(connecting);
                            return new Connection(socket, host, address, tls, deadline);
                        }
                        why = "it doesn't accept the connection";
                        socket.Close();
                    }
                    catch (SocketException failure)
                    {
                        why = failure.Message;
                        socket.Close();
                    }
                    catch
                    {
                        socket.Close();
                        throw;
                    }
                }
            }
            catch (SocketException failure)
            {
                why = failure.Message;
            }
            throw new LostException("no gateway at " + address + ": " + why, false);
        }

        internal bool IsLocal => IPAddress.IsLoopback(((IPEndPoint)socket.RemoteEndPoint).Address);

        /// <summary>Whether the gateway has closed it while it was idle.</summary>
        internal bool IsStale()
        {
            try
            {
                return socket.Poll(0, SelectMode.SelectRead);
            }
            catch (SocketException)
            {
                return true;
            }
        }

        /// <summary>One request and its reply.</summary>
        internal Fields Call(string method, Fields request, string path, Deadline deadline)
        {
            Broken = true; // until the whole reply is here
            plain.Until = deadline;
            try
            {
                request.I32(DeadlineField, Math.Max(1, deadline.LeftMs));
                foreach (var part in Wire.Request(method, ++number, request)) stream.Write(part.Array, part.Offset, part.Count);
                stream.Flush();
                var length = Receive(4);
                var size = length[0] << 24 | length[1] << 16 | length[2] << 8 | length[3];
                if (size < 0 || size > Wire.MaxFrame) throw new InvalidDataException("a reply of " + (uint)size + " bytes");
                var reply = Wire.Reply(Receive(size), method, number);
                Broken = false;
                Fields result = reply.Struct(0), error = reply.Struct(1);
                if (!reply.Has(1) && result != null) return result;
                if (error == null)
                {
                    const string missing = ": the gateway's reply has neither a result nor an error (a defect of the gateway)";
                    throw Errors.Of(ErrorKind.Internal, method + missing, path);
                }
                throw Errors.Of(Errors.OfCode(error.Long(1)), error.Text(3) ?? "", error.Text(4), error.Long(5) != 0);
            }
            catch (Exception failure) when (plain.IsLate && !(failure is IStraitFailure))
            {
                throw Errors.Of(ErrorKind.TimedOut, method + ": the gateway " + address + " gave no answer in time", path, true);
            }
            catch (Exception failure) when (failure is SocketException || failure is InvalidDataException || IsEncrypted && !(failure is IStraitFailure))
            {
                // TLS wraps the socket's exceptions in its own, of several classes.
                var why = failure.GetBaseException().Message;
                var advice = number == 1 && !IsEncrypted ? "; if it speaks TLS, set StraitOptions.Tls" : "";
                throw new LostException("the connection to " + address + " broke: " + why + advice, true);
            }
        }

        private byte[] Receive(int length)
        {
            // Not more memory than bytes arrived, twice over, after the first: an answer to a read fits in these.
            var bytes = new byte[Math.Min(length, FirstBytes)];
            for (var at = 0; at < length;)
            {
                if (at == bytes.Length) Array.Resize(ref bytes, (int)Math.Min(length, bytes.Length * 2L));
                var count = stream.Read(bytes, at, bytes.Length - at);
                if (count == 0) throw new InvalidDataException("it ended");
                at += count;
            }
            return bytes;
        }

        public void Dispose() => socket.Close();
    }
}
