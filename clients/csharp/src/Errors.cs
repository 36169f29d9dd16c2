using System;
using System.IO;

namespace StraitFs
{
    /// <summary>The kind of an error; the same kinds in every client language, with the codes of idl/dfs.thrift.</summary>
    public enum ErrorKind
    {
        NotFound = 1, AlreadyExists, NotADirectory, IsADirectory, NotEmpty, PermissionDenied, Unauthenticated,
        InvalidArgument, Unsupported, Busy, NoSpace, TimedOut, Unavailable, Corrupt, OutcomeUnknown, Internal,
    }

    /// <summary>What every exception of this library tells.</summary>
    public interface IStraitFailure
    {
        ErrorKind Kind { get; }

        /// <summary>The remote path; null where the error has none.</summary>
        string Path { get; }

        /// <summary>Repeating the same request can help, and can do no harm.</summary>
        bool RetrySafe { get; }
    }

    /// <summary>A failure for which .NET has no class of its own.</summary>
    public class StraitException : IOException, IStraitFailure
    {
        internal StraitException(ErrorKind kind, string message, string path, bool retrySafe) : base(message)
        {
            Kind = kind;
            Path = path;
            RetrySafe = retrySafe;
        }

        public ErrorKind Kind { get; }
        public string Path { get; }
        public bool RetrySafe { get; }
    }

    /// <summary>No file or directory at the path.</summary>
    public sealed class StraitNotFoundException : FileNotFoundException, IStraitFailure
    {
        internal StraitNotFoundException(string message, string path) : base(message, path) { }

        public ErrorKind Kind => ErrorKind.NotFound;
        public string Path => FileName;
        public bool RetrySafe => false;
    }

    /// <summary>A directory was needed; the path, or a parent of it, is a file.</summary>
    public sealed class StraitDirectoryException : DirectoryNotFoundException, IStraitFailure
    {
        internal StraitDirectoryException(string message, string path) : base(message) { Path = path; }

        public ErrorKind Kind => ErrorKind.NotADirectory;
        public string Path { get; }
        public bool RetrySafe => false;
    }

    /// <summary>The user may not do this, or isn't logged in.</summary>
    public sealed class StraitAccessException : UnauthorizedAccessException, IStraitFailure
    {
        internal StraitAccessException(ErrorKind kind, string message, string path) : base(message)
        {
            Kind = kind;
            Path = path;
        }

        public ErrorKind Kind { get; }
        public string Path { get; }
        public bool RetrySafe => false;
    }

    /// <summary>The request itself is wrong: path, offset, length, state of a file.</summary>
    public sealed class StraitArgumentException : ArgumentException, IStraitFailure
    {
        internal StraitArgumentException(string message, string path) : base(message) { Path = path; }

        public ErrorKind Kind => ErrorKind.InvalidArgument;
        public string Path { get; }
        public bool RetrySafe => false;
    }

    /// <summary>The store has no such operation.</summary>
    public sealed class StraitUnsupportedException : NotSupportedException, IStraitFailure
    {
        internal StraitUnsupportedException(string message, string path) : base(message) { Path = path; }

        public ErrorKind Kind => ErrorKind.Unsupported;
        public string Path { get; }
        public bool RetrySafe => false;
    }

    /// <summary>No answer within the time allowed.</summary>
    public sealed class StraitTimeoutException : TimeoutException, IStraitFailure
    {
        internal StraitTimeoutException(string message, string path, bool retrySafe) : base(message)
        {
            Path = path;
            RetrySafe = retrySafe;
        }

        public ErrorKind Kind => ErrorKind.TimedOut;
        public string Path { get; }
        public bool RetrySafe { get; }
    }

    internal static class Errors
    {
        internal static Exception Of(ErrorKind kind, string message, string path = null, bool retrySafe = false)
        {
            var text = string.IsNullOrEmpty(path) || message.Contains(path) ? message : path + ": " + message;
            switch (kind)
            {
                case ErrorKind.NotFound: return new StraitNotFoundException(text, path);
                case ErrorKind.NotADirectory: return new StraitDirectoryException(text, path);
                case ErrorKind.PermissionDenied:
                case ErrorKind.Unauthenticated: return new StraitAccessException(kind, text, path);
                case ErrorKind.InvalidArgument: return new StraitArgumentException(text, path);
                case ErrorKind.Unsupported: return new StraitUnsupportedException(text, path);
                case ErrorKind.TimedOut: return new StraitTimeoutException(text, path, retrySafe);
                default: return new StraitException(kind, text, path, retrySafe);
            }
        }

        /// <summary>A newer gateway's code is Internal.</summary>
        internal static ErrorKind OfCode(long code) =>
            Enum.IsDefined(typeof(ErrorKind), (int)code) ? (ErrorKind)code : ErrorKind.Internal;
    }
}
