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

    /// <summary>A socket, for one caller at a time.</summary>
    internal sealed class Connection : IDisposable
    {
        /// <summary>Number of the field deadline_ms, which each request has.</summary>
        private const short DeadlineField = 15;

        private readonly Socket socket;
        private readonly string address;
        private int number;

        private Connection(Socket socket, string address)
        {
            this.socket = socket;
            this.address = address;
        }

        /// <summary>Not fit for another request.</summary>
        internal bool Broken { get; private set; }

        /// <summary>Which login it was attached by.</summary>
        internal int Login { get; set; }

        /// <summary>If the name has several addresses, each gets a share of the time.</summary>
        internal static Connection Open(string host, int port, string address, Deadline deadline)
        {
            var why = "its name has no address";
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
                            return new Connection(socket, address);
                        }
                        why = "it doesn't accept the connection";
                    }
                    catch (SocketException failure)
                    {
                        why = failure.Message;
                    }
                    socket.Close();
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
            try
            {
                request.I32(DeadlineField, Math.Max(1, deadline.LeftMs));
                Send(Wire.Request(method, ++number, request), deadline);
                var length = Receive(4, deadline);
                var size = length[0] << 24 | length[1] << 16 | length[2] << 8 | length[3];
                if (size < 0 || size > Wire.MaxFrame) throw new InvalidDataException("a reply of " + (uint)size + " bytes");
                var reply = Wire.Reply(Receive(size, deadline), method, number);
                Broken = false;
                if (!reply.Has(1)) return reply.Struct(0) ?? new Fields();
                var error = reply.Struct(1);
                throw Errors.Of(Errors.OfCode(error.Long(1)), error.Text(3) ?? "", error.Text(4), error.Long(5) != 0);
            }
            catch (SocketException failure) when (failure.SocketErrorCode == SocketError.TimedOut || failure.SocketErrorCode == SocketError.WouldBlock)
            {
                throw Errors.Of(ErrorKind.TimedOut, method + ": the gateway " + address + " gave no answer in time", path, true);
            }
            catch (Exception failure) when (failure is SocketException || failure is InvalidDataException)
            {
                throw new LostException("the connection to " + address + " broke: " + failure.Message, true);
            }
        }

        private void Send(byte[] bytes, Deadline deadline)
        {
            for (var at = 0; at < bytes.Length;)
            {
                socket.SendTimeout = Left(deadline);
                at += socket.Send(bytes, at, bytes.Length - at, SocketFlags.None);
            }
        }

        private byte[] Receive(int length, Deadline deadline)
        {
            // Not more memory than bytes arrived, twice over.
            var bytes = new byte[Math.Min(length, 1 << 20)];
            for (var at = 0; at < length;)
            {
                if (at == bytes.Length) Array.Resize(ref bytes, (int)Math.Min(length, bytes.Length * 2L));
                socket.ReceiveTimeout = Left(deadline);
                var count = socket.Receive(bytes, at, bytes.Length - at, SocketFlags.None);
                if (count == 0) throw new InvalidDataException("it ended");
                at += count;
            }
            return bytes;
        }

        /// <summary>0 would be no limit.</summary>
        private static int Left(Deadline deadline)
        {
            var left = deadline.LeftMs;
            if (left == 0) throw new SocketException((int)SocketError.TimedOut);
            return left;
        }

        public void Dispose() => socket.Close();
    }
}
