using System;
using System.IO;
using System.Linq;

namespace StraitFs
{
    /// <summary>An open file to read: a stream that seeks. ReadAt serves any number of threads.</summary>
    public sealed class StraitReader : Stream
    {
        // One request's: sequential reads of small pieces are served from it.
        private const int ChunkBytes = 1 << 20;
        private static readonly ArraySegment<byte> Nothing = new ArraySegment<byte>(new byte[0]);

        private readonly Session session;
        private readonly string path;
        private readonly object reopening = new object();
        private long handle, incarnation, length, position;
        private byte[] identity;
        private ArraySegment<byte> ahead = Nothing;
        private long aheadAt;
        private bool closed;

        internal StraitReader(Session session, string path)
        {
            this.session = session;
            this.path = path;
            Open();
        }

        /// <summary>Keeps the old handle if the path now leads to another file: reads must not give bytes of two files.</summary>
        private void Open()
        {
            // From before the request: if another thread logs in meanwhile, the handle counts as the older session's.
            var before = session.Incarnation;
            var reply = session.Call("openFile", new Fields().Text(2, path), path);
            var found = reply.Bytes(3);
            var isOther = identity != null && found != null && !identity.SequenceEqual(found);
            if (isOther || reply.Long(2) < length)
            {
                session.Tidy("closeFile", new Fields().I64(4, reply.Long(1)));
                throw Errors.Of(ErrorKind.Unavailable, "the file was replaced while it was read", path);
            }
            handle = reply.Long(1);
            length = reply.Long(2);
            identity = found ?? identity;
            incarnation = before;
        }

        public override bool CanRead => !closed;
        public override bool CanSeek => !closed;
        public override bool CanWrite => false;
        public override long Length => length;
        public override long Position { get => position; set => Seek(value, SeekOrigin.Begin); }

        public override int Read(byte[] buffer, int offset, int count)
        {
            if (closed) throw new ObjectDisposedException(path);
            if (count == 0) return 0;
            var from = position - aheadAt;
            if (from < 0 || from >= ahead.Count)
            {
                ahead = Fetch(position, ChunkBytes);
                aheadAt = position;
                from = 0;
            }
            var taken = (int)Math.Min(count, ahead.Count - from);
            Buffer.BlockCopy(ahead.Array, ahead.Offset + (int)from, buffer, offset, taken);
            position += taken;
            return taken;
        }

        /// <summary>Reads up to this many bytes at an offset; fewer at the end of the file. The position stays.</summary>
        public byte[] ReadAt(long offset, int count)
        {
            if (offset < 0 || count < 0) throw Errors.Of(ErrorKind.InvalidArgument, "a negative offset or length", path);
            var target = new MemoryStream();
            while (target.Length < count)
            {
                var part = Fetch(offset + target.Length, (int)Math.Min(count - target.Length, ChunkBytes));
                if (part.Count == 0) break;
                target.Write(part.Array, part.Offset, part.Count);
            }
            return target.ToArray();
        }

        private ArraySegment<byte> Fetch(long offset, int count)
        {
            count = Math.Min(count, session.MaxChunkBytes);
            var used = handle;
            try
            {
                return Range(used, offset, count);
            }
            catch (Exception failure) when (failure is IStraitFailure)
            {
                var kind = ((IStraitFailure)failure).Kind;
                if (closed || kind != ErrorKind.InvalidArgument && kind != ErrorKind.NotFound && kind != ErrorKind.Unauthenticated) throw;
                lock (reopening)
                {
                    if (used == handle && incarnation == session.Incarnation && kind != ErrorKind.NotFound) throw;
                    if (used == handle) Open();
                }
                return Range(handle, offset, count);
            }
        }

        private ArraySegment<byte> Range(long used, long offset, int count)
        {
            var request = new Fields().I64(2, used).I64(3, offset).I32(4, count);
            var bytes = session.Call("readRange", request, path).Slice(1);
            if (bytes.Array == null) return Nothing;
            if (bytes.Count > count) throw Errors.Of(ErrorKind.Internal, "the gateway sent more than was asked for", path);
            return bytes;
        }

        public override long Seek(long offset, SeekOrigin origin)
        {
            var target = offset + (origin == SeekOrigin.Begin ? 0 : origin == SeekOrigin.Current ? position : length);
            if (target < 0) throw Errors.Of(ErrorKind.InvalidArgument, "a position before the file's beginning", path);
            return position = target;
        }

        protected override void Dispose(bool disposing)
        {
            if (disposing && !closed)
            {
                closed = true;
                session.Tidy("closeFile", new Fields().I64(4, handle));
            }
            base.Dispose(disposing);
        }

        public override void Flush() { }
        public override void SetLength(long value) => throw new NotSupportedException();
        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    }

    /// <summary>
    /// An open file to write at its end, for one thread at a time. After NoSpace and Unavailable, a file of Kadoop is
    /// still open: it keeps the bytes that the gateway hasn't taken, and sends them again with the next call.
    /// </summary>
    public sealed class StraitWriter : Stream
    {
        private readonly Session session;
        private readonly string path;
        private readonly long handle, incarnation;
        private readonly byte[] pending;
        private int filled;
        private long sent;
        private bool closed;
        private Exception failed;

        internal StraitWriter(Session session, string method, Fields request, string path)
        {
            this.session = session;
            this.path = path;
            var reply = session.Call(method, request, path, changes: true);
            handle = reply.Long(1);
            sent = reply.Long(2);
            incarnation = session.Incarnation;
            pending = new byte[session.MaxChunkBytes];
        }

        public override bool CanRead => false;
        public override bool CanSeek => false;
        public override bool CanWrite => !closed;

        /// <summary>The file's length, with all bytes written here.</summary>
        public override long Length => sent + filled;

        public override long Position { get => sent + filled; set => throw new NotSupportedException(); }

        /// <summary>A write of up to 1 MiB that fails has taken nothing; Position tells what a longer one has taken.</summary>
        public override void Write(byte[] buffer, int offset, int count)
        {
            if (closed) throw failed ?? new ObjectDisposedException(path);
            while (count > 0)
            {
                if (filled + Math.Min(count, pending.Length) > pending.Length) Send();
                var taken = Math.Min(count, pending.Length - filled);
                Buffer.BlockCopy(buffer, offset, pending, filled, taken);
                filled += taken;
                offset += taken;
                count -= taken;
            }
        }

        private void Send()
        {
            if (filled == 0) return;
            var request = new Fields().I64(4, handle).I64(5, sent).Slice(6, new ArraySegment<byte>(pending, 0, filled));
            Guarded(() => session.Call("appendData", request, path, changes: true));
            sent += filled;
            filled = 0;
        }

        /// <summary>After NoSpace and Unavailable the file goes on; after other errors it is over.</summary>
        private Fields Guarded(Func<Fields> call)
        {
            if (closed) throw failed ?? new ObjectDisposedException(path);
            try
            {
                return call();
            }
            catch (Exception failure) when (failure is IStraitFailure)
            {
                var kind = ((IStraitFailure)failure).Kind;
                if (kind == ErrorKind.NoSpace || kind == ErrorKind.Unavailable) throw;
                closed = true;
                var isGone = kind == ErrorKind.Unauthenticated || kind == ErrorKind.InvalidArgument && incarnation != session.Incarnation;
                failed = isGone ? Errors.Of(ErrorKind.OutcomeUnknown, "the session ended while the file was written", path) : failure;
                if (!isGone) throw;
                throw failed;
            }
        }

        /// <summary>
        /// Makes the written bytes visible to readers who open the file afterwards. In object stores it promises
        /// nothing.
        /// </summary>
        public override void Flush() => Flush(1);

        /// <summary>Puts the written bytes on stable storage. In object stores it promises nothing.</summary>
        public void Sync() => Flush(2);

        private void Flush(int mode)
        {
            Send();
            Guarded(() => session.Call("flushFile", new Fields().I64(2, handle).I32(3, mode), path));
        }

        /// <summary>Ends the file. Flushed bytes stay; other bytes may be lost.</summary>
        public void Abandon()
        {
            if (!closed) session.Tidy("closeFile", new Fields().I64(4, handle).Bool(5, true), changes: true);
            closed = true;
        }

        /// <summary>
        /// Puts all bytes on stable storage (except in HDFS). In Kadoop, repeat it after NoSpace and Unavailable.
        /// </summary>
        protected override void Dispose(bool disposing)
        {
            if (disposing && !closed)
            {
                Send();
                Guarded(() => session.Call("closeFile", new Fields().I64(4, handle), path, changes: true));
                closed = true;
            }
            base.Dispose(disposing);
        }

        public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();
        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
        public override void SetLength(long value) => throw new NotSupportedException();
    }
}
