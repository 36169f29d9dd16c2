using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace StraitFs
{
    /// <summary>How to connect.</summary>
    public sealed class StraitOptions
    {
        /// <summary>A store of the gateway; null: its default one.</summary>
        public string Store { get; set; }

        public string User { get; set; }
        public string Password { get; set; }

        /// <summary>Of an earlier session, in place of user and password.</summary>
        public string Token { get; set; }

        /// <summary>Encrypts by TLS. The options below imply it.</summary>
        public bool Tls { get; set; }

        /// <summary>A file with certificates of authorities (PEM): only these are trusted, and not the system's. It needs mono.</summary>
        public string TlsAuthorities { get; set; }

        /// <summary>A file with the client's certificate and its key (PKCS #12), for gateways that require one.</summary>
        public string TlsCertificate { get; set; }

        /// <summary>Of the file TlsCertificate.</summary>
        public string TlsCertificatePassword { get; set; }

        /// <summary>Bounds each request as a whole: connecting, all attempts, and the complete reply.</summary>
        public int TimeoutMs { get; set; } = 120000;
    }

    /// <summary>A session's store.</summary>
    public sealed class StraitStore
    {
        internal StraitStore(string name, string uri, ISet<string> capabilities)
        {
            Name = name;
            Uri = uri;
            Capabilities = capabilities;
        }

        public string Name { get; }
        public string Uri { get; }
        public ISet<string> Capabilities { get; }
    }

    /// <summary>A file or directory.</summary>
    public sealed class StraitInfo
    {
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

        internal StraitInfo(Fields info)
        {
            Path = info.Text(1) ?? "";
            IsDirectory = info.Long(2) == 2;
            Length = info.Long(3);
            BlockSize = info.Long(4);
            Replication = (int)info.Long(5);
            Modified = Epoch.AddMilliseconds(info.Long(6));
            Accessed = Epoch.AddMilliseconds(info.Long(7));
            Permission = (int)info.Long(8);
            Owner = info.Text(9) ?? "";
            Group = info.Text(10) ?? "";
        }

        public string Path { get; }
        public string Name => Path.Substring(Path.LastIndexOf('/') + 1);
        public bool IsDirectory { get; }
        public long Length { get; }
        public long BlockSize { get; }
        public int Replication { get; }
        public DateTime Modified { get; }
        public DateTime Accessed { get; }

        /// <summary>Permission bits, 07777 at most.</summary>
        public int Permission { get; }

        public string Owner { get; }
        public string Group { get; }

        internal static long? Milliseconds(DateTime? time) =>
            time == null ? (long?)null : (long)Math.Round((time.Value.ToUniversalTime() - Epoch).TotalMilliseconds);
    }

    /// <summary>Attributes to set; those that are null stay.</summary>
    public sealed class StraitAttributes
    {
        public int? Permission { get; set; }
        public string Owner { get; set; }
        public string Group { get; set; }
        public DateTime? Modified { get; set; }
        public DateTime? Accessed { get; set; }
        public int? Replication { get; set; }
    }

    /// <summary>Where a part of a file lies.</summary>
    public sealed class StraitBlock
    {
        internal StraitBlock(Fields block)
        {
            Offset = block.Long(1);
            Length = block.Long(2);
            Hosts = block.Texts(3).ToList();
        }

        public long Offset { get; }
        public long Length { get; }
        public IReadOnlyList<string> Hosts { get; }
    }

    /// <summary>A store's own checksum of a file; comparable under the same algorithm.</summary>
    public sealed class StraitChecksum
    {
        internal StraitChecksum(Fields reply)
        {
            Algorithm = reply.Text(1) ?? "";
            Value = reply.Bytes(2) ?? new byte[0];
        }

        public string Algorithm { get; }
        public byte[] Value { get; }
    }

    /// <summary>Capacity of a whole store, in bytes.</summary>
    public sealed class StraitStatus
    {
        internal StraitStatus(Fields reply)
        {
            Capacity = reply.Long(2);
            Used = reply.Long(3);
            Remaining = reply.Long(4);
        }

        public long Capacity { get; }
        public long Used { get; }
        public long Remaining { get; }
    }

    /// <summary>
    /// The files of one store behind a gateway, for any number of threads. Paths are absolute within the store. Every
    /// exception is an IStraitFailure, and of the class that .NET's own files throw.
    /// </summary>
    public sealed class StraitClient : IDisposable
    {
        private readonly Session session;

        private StraitClient(Session session) { this.session = session; }

        /// <summary>Opens a session. The address is strait://host:port/ or host:port; /@NAME after it names a store.</summary>
        public static StraitClient Connect(string address, StraitOptions options = null)
        {
            var uri = StraitUri.ParseAddress(address);
            options = options ?? new StraitOptions();
            if (uri.Store != null && options.Store != null && uri.Store != options.Store)
                throw Errors.Of(ErrorKind.InvalidArgument, "two stores are named: " + uri.Store + " and " + options.Store);
            return new StraitClient(new Session(uri, options));
        }

        public string User => session.User;

        /// <summary>Stands for the login until it expires; keep it secret.</summary>
        public string Token => session.Token;

        public StraitStore Store => session.Store;

        /// <summary>Ends the session; close its files first.</summary>
        public void Dispose() => session.Dispose();

        public StraitInfo Stat(string path)
        {
            var info = session.Call("getFileInfo", new Fields().Text(2, path), path).Struct(1);
            const string missing = "stat: the gateway's reply has no file status (a defect of the gateway)";
            return new StraitInfo(info ?? throw Errors.Of(ErrorKind.Internal, missing, path));
        }

        public bool Exists(string path)
        {
            try
            {
                Stat(path);
                return true;
            }
            catch (Exception failure) when (failure is StraitNotFoundException || failure is StraitDirectoryException)
            {
                return false;
            }
        }

        /// <summary>A directory's entries in the store's order, fetched page by page.</summary>
        public IEnumerable<StraitInfo> List(string path, int? pageEntries = null)
        {
            var incarnation = session.Incarnation;
            long? cursor = null;
            try
            {
                do
                {
                    var request = new Fields().Text(2, path).I64(3, cursor).I32(4, pageEntries);
                    var page = cursor == null ? session.Call("listDirectory", request, path) : LaterPage(request, path, incarnation);
                    cursor = page.Has(2) ? page.Long(2) : (long?)null;
                    foreach (var entry in Entries(page, path)) yield return entry;
                }
                while (cursor != null);
            }
            finally
            {
                if (cursor != null) session.Tidy("closeFile", new Fields().I64(4, cursor));
            }
        }

        /// <summary>A page's entries. Programs join their names to paths of their own.</summary>
        private static List<StraitInfo> Entries(Fields page, string path)
        {
            var entries = page.List(1).OfType<Fields>().Select(entry => new StraitInfo(entry)).ToList();
            Func<string, Exception> wrong = why => Errors.Of(ErrorKind.Internal, "list " + path + ": the gateway " + why, path);
            if (entries.Count == 0 && page.Has(2))
                throw wrong("sent an empty page that isn't the last (a defect of the gateway)");
            var directory = string.Concat(path.Split('/').Where(name => name != "").Select(name => "/" + name)) + "/";
            foreach (var entry in entries)
            {
                var isSound = !new[] { "", ".", ".." }.Contains(entry.Name) && entry.Name.IndexOf('\0') < 0;
                if (!isSound || entry.Path != directory + entry.Name)
                    throw wrong("named " + entry.Path + ", which isn't in this directory");
            }
            return entries;
        }

        /// <summary>The cursor moves with each answer, so the request for a page after the first is sent once.</summary>
        private Fields LaterPage(Fields request, string path, long incarnation)
        {
            try
            {
                return session.CallOnce("listDirectory", request, path);
            }
            catch (Exception failure) when (session.Incarnation != incarnation && failure is IStraitFailure told &&
                (told.Kind == ErrorKind.InvalidArgument || told.Kind == ErrorKind.Unauthenticated))
            {
                // The session has ended, or another one doesn't know the cursor. Neither is the caller's mistake.
                throw Errors.Of(ErrorKind.Unavailable, "the gateway's session ended in the middle of the listing; list anew", path);
            }
        }

        /// <summary>The blocks that hold a range of a file; to its end without a length.</summary>
        public IReadOnlyList<StraitBlock> Locate(string path, long offset = 0, long? length = null)
        {
            var request = new Fields().Text(2, path).I64(3, offset).I64(4, length);
            return session.Call("getBlockLocations", request, path).List(1).OfType<Fields>().Select(block => new StraitBlock(block)).ToList();
        }

        public StraitChecksum Checksum(string path) =>
            new StraitChecksum(session.Call("getChecksum", new Fields().Text(2, path), path));

        public StraitStatus Status() => new StraitStatus(session.Call("getStoreStatus", new Fields(), null));

        public StraitReader OpenRead(string path) => new StraitReader(session, path);

        /// <summary>Makes a file and its missing parents. One that exists is an error without overwrite.</summary>
        public StraitWriter Create(string path, bool overwrite = false, int? permission = null, int? replication = null, long? blockSize = null) =>
            new StraitWriter(session, "createFile",
                new Fields().Text(4, path).Bool(5, overwrite).I32(6, permission).I16(7, replication).I64(8, blockSize), path);

        /// <summary>Opens an existing file to go on at its end.</summary>
        public StraitWriter Append(string path) => new StraitWriter(session, "appendFile", new Fields().Text(4, path), path);

        public byte[] ReadAllBytes(string path)
        {
            using (var file = OpenRead(path))
            {
                var bytes = new MemoryStream();
                file.CopyTo(bytes, 1 << 20);
                return bytes.ToArray();
            }
        }

        public string ReadAllText(string path) => Encoding.UTF8.GetString(ReadAllBytes(path));

        /// <summary>Makes or replaces a file, as File.WriteAllBytes.</summary>
        public void WriteAllBytes(string path, byte[] bytes) => Fill(Create(path, overwrite: true), new MemoryStream(bytes));

        public void WriteAllText(string path, string text) => WriteAllBytes(path, new UTF8Encoding(false).GetBytes(text));

        private static void Fill(StraitWriter file, Stream source)
        {
            try
            {
                source.CopyTo(file, 1 << 20);
                file.Dispose();
            }
            catch
            {
                file.Abandon();
                throw;
            }
        }

        /// <summary>Makes a directory and its missing parents; an existing one is success.</summary>
        public void CreateDirectory(string path, int? permission = null) =>
            session.Call("makeDirectories", new Fields().Text(4, path).I32(5, permission), path, changes: true);

        /// <summary>Renames a file or directory; with overwrite, a file at the target is replaced.</summary>
        public void Move(string source, string target, bool overwrite = false) =>
            session.Call("renamePath", new Fields().Text(4, source).Text(5, target).Bool(6, overwrite), source, changes: true);

        /// <summary>Removes a file or an empty directory; with recursive, all that is in it too.</summary>
        public void Delete(string path, bool recursive = false) =>
            session.Call("removePath", new Fields().Text(4, path).Bool(5, recursive), path, changes: true);

        public void SetAttributes(string path, StraitAttributes set)
        {
            var request = new Fields().Text(4, path).I32(5, set.Permission).Text(6, set.Owner).Text(7, set.Group);
            request.I64(8, StraitInfo.Milliseconds(set.Modified)).I64(9, StraitInfo.Milliseconds(set.Accessed)).I16(10, set.Replication);
            session.Call("setAttributes", request, path, changes: true);
        }

        /// <summary>Cuts a closed file to this many bytes.</summary>
        public void Truncate(string path, long length) =>
            session.Call("truncateFile", new Fields().Text(4, path).I64(5, length), path, changes: true);

        /// <summary>Moves the sources' bytes, in order, to the end of a closed file, in one step.</summary>
        public void Concat(string path, IEnumerable<string> sources) =>
            session.Call("concatFiles", new Fields().Text(4, path).Put(5, Kind.List, sources.ToList()), path, changes: true);

        /// <summary>Copies a remote file to a local one, which appears only when it is complete.</summary>
        public void Get(string source, string target, bool overwrite = false)
        {
            if (!overwrite && File.Exists(target)) throw Errors.Of(ErrorKind.AlreadyExists, "the file is there already", target);
            var temporary = Path.Combine(Path.GetDirectoryName(target) ?? "", ".strait-get-" + Guid.NewGuid().ToString("N"));
            try
            {
                using (var file = OpenRead(source))
                using (var copy = new FileStream(temporary, FileMode.CreateNew))
                    file.CopyTo(copy, 1 << 20);
                if (overwrite) File.Delete(target);
                File.Move(temporary, target); // which doesn't replace
            }
            finally
            {
                File.Delete(temporary);
            }
        }

        /// <summary>
        /// Copies a local file to a remote one, which appears, or is replaced, only when it is complete. In a directory
        /// the file gets its own name.
        /// </summary>
        public void Put(string source, string target, bool overwrite = false)
        {
            var there = StatOrNull(target);
            if (there != null && there.IsDirectory)
            {
                target = target.TrimEnd('/') + "/" + Path.GetFileName(source);
                there = StatOrNull(target);
            }
            if (there != null && !overwrite) throw Errors.Of(ErrorKind.AlreadyExists, "the path is taken", target);
            if (there != null && there.IsDirectory) throw Errors.Of(ErrorKind.IsADirectory, "the target is a directory", target);
            var temporary = target.Substring(0, target.LastIndexOf('/') + 1) + ".strait-put-" + Guid.NewGuid().ToString("N");
            try
            {
                using (var file = File.OpenRead(source)) Fill(Create(temporary), file);
                var canReplace = Store.Capabilities.Contains("rename_replace");
                if (there != null && !canReplace) Delete(target);
                Move(temporary, target, overwrite && canReplace);
            }
            catch (Exception failure) when (failure is IStraitFailure)
            {
                session.Tidy("removePath", new Fields().Text(4, temporary), changes: true);
                var why = (IStraitFailure)failure;
                if (why.Path != temporary) throw;
                // Nobody knows the temporary name.
                throw Errors.Of(why.Kind, failure.Message.Replace(temporary, target), target, why.RetrySafe);
            }
        }

        private StraitInfo StatOrNull(string path)
        {
            try
            {
                return Stat(path);
            }
            catch (StraitNotFoundException)
            {
                return null;
            }
        }

        /// <summary>A request as it stands, sent once, for tests.</summary>
        internal Fields Request(string method, Fields request) => session.CallOnce(method, request, null);
    }
}
