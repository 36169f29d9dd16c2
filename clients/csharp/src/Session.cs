using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;
using System.Threading;

namespace StraitFs
{
    /// <summary>
    /// A login, a pool of connections, and the one place that retries. States and times are those of
    /// docs/client-protocol.md.
    /// </summary>
    internal sealed class Session : IDisposable
    {
        // With the pauses they span 1.6 to 3.1 s: a gateway's restart.
        private const int Attempts = 6;
        private const int FirstPauseMs = 100;
        private const int ConnectTimeoutMs = 10000;
        // For a request that only cleans up, once the gateway has left a request unanswered.
        private const int PartingMs = 2000;
        private const int MaxIdle = 8;
        private const int Version = 1;
        // No session's incarnation.
        private const long Ended = -1;

        private readonly StraitUri uri;
        private readonly StraitOptions options;
        private readonly Tls tls; // null: none
        private readonly object gate = new object();
        private readonly Stack<Connection> idle = new Stack<Connection>();
        private string token;
        private int login; // counts logins: connections of an older one aren't pooled
        private int silences; // requests in a row without an answer in time
        private bool closed;

        internal Session(StraitUri uri, StraitOptions options)
        {
            this.uri = uri;
            this.options = options;
            token = options.Token;
            tls = Tls.Of(options);
            try
            {
                GiveBack(Connect(Deadline.In(options.TimeoutMs)));
            }
            catch (LostException lost)
            {
                throw Unavailable(lost, null);
            }
        }

        internal string User { get; private set; }
        internal string Token => token;

        /// <summary>If a handle has another one, the handle is gone.</summary>
        internal long Incarnation { get; private set; }

        internal StraitStore Store { get; private set; }
        internal int MaxChunkBytes { get; private set; } = 1 << 20;

        /// <summary>A request; one that changes something gets an id, the same in all its attempts.</summary>
        internal Fields Call(string method, Fields request, string path, bool changes = false)
        {
            if (changes) request.Bytes(2, NewId());
            var deadline = Deadline.In(options.TimeoutMs);
            Deadline? connectBy = null;
            bool sent = false, renewed = false;
            for (var attempt = 1; ; attempt++)
            {
                var connecting = true;
                try
                {
                    var connection = Borrow(deadline, connectBy ?? deadline);
                    connecting = false;
                    try
                    {
                        return connection.Call(method, request, path, deadline);
                    }
                    finally
                    {
                        GiveBack(connection);
                    }
                }
                catch (LostException lost)
                {
                    // If no gateway accepts connections now, wait for one once.
                    connectBy = connectBy ?? deadline.OrIn(ConnectTimeoutMs);
                    sent |= lost.Sent;
                    DropIdle();
                    var pause = FirstPauseMs * Math.Pow(2, attempt - 1) * (0.5 + Chance() / 2);
                    if (attempt == Attempts || pause >= connectBy.Value.LeftMs)
                    {
                        Interlocked.Increment(ref silences);
                        throw sent && changes ? Unknown(method, path, lost) : Unavailable(lost, path);
                    }
                    Thread.Sleep((int)pause);
                    if (changes && sent) request.Bool(3, true);
                }
                catch (Exception failure) when (failure is IStraitFailure)
                {
                    var kind = ((IStraitFailure)failure).Kind;
                    if (kind == ErrorKind.Unauthenticated && !renewed && !connecting)
                    {
                        // The session idled out, or its gateway was replaced.
                        renewed = true;
                        DropIdle();
                        attempt--;
                        continue;
                    }
                    if (kind == ErrorKind.TimedOut) Interlocked.Increment(ref silences);
                    if (connecting && sent && changes) throw Unknown(method, path, failure);
                    if (kind == ErrorKind.TimedOut && changes) throw Errors.Of(kind, failure.Message, path);
                    throw;
                }
            }
        }

        /// <summary>A request as it stands, sent once.</summary>
        internal Fields CallOnce(string method, Fields request, string path, Deadline? limit = null)
        {
            var deadline = limit ?? Deadline.In(options.TimeoutMs);
            try
            {
                var connection = Borrow(deadline, deadline);
                try
                {
                    return connection.Call(method, request, path, deadline);
                }
                catch (StraitAccessException refused) when (refused.Kind == ErrorKind.Unauthenticated)
                {
                    Incarnation = Ended; // until a connection is attached again
                    throw;
                }
                finally
                {
                    GiveBack(connection);
                }
            }
            catch (LostException lost)
            {
                throw Unavailable(lost, path);
            }
        }

        /// <summary>A request that only cleans up: after a silence it gets little time, after a second none.</summary>
        internal void Tidy(string method, Fields request, bool changes = false)
        {
            if (closed || silences > 1) return;
            if (changes) request.Bytes(2, NewId());
            try
            {
                CallOnce(method, request, null, Deadline.In(silences == 0 ? options.TimeoutMs : Math.Min(options.TimeoutMs, PartingMs)));
            }
            catch (Exception failure) when (failure is IStraitFailure)
            {
                if (((IStraitFailure)failure).Kind == ErrorKind.TimedOut) Interlocked.Increment(ref silences);
            }
        }

        private static Exception Unavailable(LostException lost, string path) =>
            Errors.Of(ErrorKind.Unavailable, lost.Message, path, true);

        private static Exception Unknown(string method, string path, Exception why) =>
            Errors.Of(ErrorKind.OutcomeUnknown, method + " may have been executed: " + why.Message, path);

        internal static byte[] NewId()
        {
            var id = new byte[16];
            using (var random = RandomNumberGenerator.Create()) random.GetBytes(id);
            return id;
        }

        private static double Chance() => BitConverter.ToUInt32(NewId(), 0) / (double)uint.MaxValue;

        private Connection Borrow(Deadline deadline, Deadline connectBy)
        {
            for (;;)
            {
                Connection connection;
                lock (gate)
                {
                    if (closed) throw Errors.Of(ErrorKind.InvalidArgument, "the client is closed");
                    if (idle.Count == 0) break;
                    connection = idle.Pop();
                }
                if (!connection.IsStale()) return connection;
                connection.Dispose();
            }
            return Connect(deadline.LeftMs < connectBy.LeftMs ? deadline : connectBy);
        }

        private void GiveBack(Connection connection)
        {
            if (!connection.Broken) Interlocked.Exchange(ref silences, 0); // a whole reply has arrived
            lock (gate)
            {
                if (!closed && !connection.Broken && connection.Login == login && idle.Count < MaxIdle)
                {
                    idle.Push(connection);
                    return;
                }
            }
            connection.Dispose();
        }

        private void DropIdle()
        {
            lock (gate)
            {
                while (idle.Count > 0) idle.Pop().Dispose();
            }
        }

        /// <summary>A connection that is attached to the session.</summary>
        private Connection Connect(Deadline deadline)
        {
            var connection = Connection.Open(uri.Host, uri.Port, uri.Address, tls, deadline.OrIn(ConnectTimeoutMs));
            try
            {
                if ((options.Password ?? options.Token) != null && !connection.IsEncrypted && !connection.IsLocal)
                    throw Errors.Of(ErrorKind.Unauthenticated,
                        "a password or token isn't sent to another machine in the clear; use TLS (StraitOptions.Tls)");
                lock (this) Attach(connection, deadline); // one login at a time
                return connection;
            }
            catch (LostException lost)
            {
                connection.Dispose();
                throw new LostException(lost.Message, false); // the caller's own request wasn't sent
            }
            catch
            {
                connection.Dispose();
                throw;
            }
        }

        private void Attach(Connection connection, Deadline deadline)
        {
            Fields reply = null;
            if (token != null)
            {
                try
                {
                    reply = connection.Call("openSession", new Fields().I32(1, Version).Text(5, token), null, deadline);
                }
                catch (StraitAccessException refused) when (refused.Kind == ErrorKind.Unauthenticated && options.Token == null && !connection.Broken)
                {
                    // It ended: log in anew.
                }
            }
            if (reply == null)
            {
                var request = new Fields().I32(1, Version).Text(2, uri.Store ?? options.Store);
                reply = connection.Call("openSession", request.Text(3, options.User).Text(4, options.Password), null, deadline);
                login++;
            }
            connection.Login = login;
            token = reply.Text(1) ?? token;
            User = reply.Text(3) ?? "";
            Incarnation = reply.Long(7);
            var store = reply.Struct(4) ?? new Fields();
            var capabilities = store.Texts(3);
            Store = new StraitStore(store.Text(1) ?? "", store.Text(2) ?? "", new HashSet<string>(capabilities));
            var chunk = (reply.Struct(6) ?? new Fields()).Long(1);
            if (chunk > 0) MaxChunkBytes = (int)Math.Min(chunk, 1 << 20);
        }

        public void Dispose()
        {
            Tidy("closeSession", new Fields());
            lock (gate) closed = true;
            DropIdle();
        }
    }
}
