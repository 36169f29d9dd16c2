using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;

namespace StraitFs
{
    /// <summary>The parts of strait://host:port/@store/path. Nothing is decoded.</summary>
    public sealed class StraitUri
    {
        private const string Scheme = "strait://";
        private const int DefaultPort = 9090, MaxPort = 65535;
        private const int MaxNameBytes = 255; // as POSIX's NAME_MAX

        private static readonly Regex Authority =
            new Regex(@"^(?:\[(?<host>[^\]]+)\]|(?<host>[^\s:?#\[\]]+))(?::(?<port>[0-9]{0,5}))?$", RegexOptions.CultureInvariant);

        private StraitUri(string host, int port, string store, string path)
        {
            Host = host;
            Port = port;
            Store = store;
            Path = path;
        }

        public string Host { get; }
        public int Port { get; }

        /// <summary>Null for the gateway's default store.</summary>
        public string Store { get; }

        public string Path { get; }

        internal string Address => (Host.Contains(":") ? "[" + Host + "]" : Host) + ":" + Port;

        /// <summary>A first component @NAME names a store; one that begins with @@ is a directory with one @ less.</summary>
        public static StraitUri Parse(string text)
        {
            if (!text.StartsWith(Scheme, StringComparison.Ordinal)) // with an @, it may hold a password
                throw Wrong((text.Contains("@") ? "it" : text) + " doesn't begin with " + Scheme);
            var parts = text.Substring(Scheme.Length).Split('/');
            if (parts[0].Contains("@"))
                throw Wrong("an address names no user; the options take user and password");
            var authority = Authority.Match(parts[0]);
            var digits = authority.Groups["port"].Value;
            var port = digits == "" ? DefaultPort : int.Parse(digits);
            if (!authority.Success || port < 1 || port > MaxPort) throw Wrong("\"" + parts[0] + "\" is no HOST:PORT");

            var names = parts.Skip(1).Where(name => name != "").ToList();
            string store = null;
            if (names.Count > 0 && names[0].StartsWith("@@", StringComparison.Ordinal))
            {
                names[0] = names[0].Substring(1);
            }
            else if (names.Count > 0 && names[0][0] == '@')
            {
                store = names[0].Substring(1);
                names.RemoveAt(0);
                if (store == "")
                    throw Wrong("\"" + text + "\": a store's name follows the @, as in /@lab; a directory called @ is /@@");
            }
            foreach (var name in store == null ? names : names.Concat(new[] { store })) Check(name, text);
            return new StraitUri(authority.Groups["host"].Value, port, store, "/" + string.Join("/", names));
        }

        internal static StraitUri ParseAddress(string address)
        {
            var uri = Parse(address.Contains("://") ? address : Scheme + address);
            if (uri.Path != "/") throw Wrong("an address ends with the gateway or its store, and has no path: " + address);
            return uri;
        }

        private static void Check(string name, string text)
        {
            if (name == "." || name == ".." || name.Contains("\0") || Encoding.UTF8.GetByteCount(name) > MaxNameBytes)
                throw Wrong("\"" + text + "\" has a name that is . or .., holds a NUL byte, or is longer than " + MaxNameBytes + " bytes");
        }

        private static Exception Wrong(string why) =>
            Errors.Of(ErrorKind.InvalidArgument, "not the address of a gateway, strait://host:port/@store: " + why);
    }
}
