using System;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text.RegularExpressions;
using Mono.Security.Interface;

namespace StraitFs
{
    /// <summary>What a session needs for TLS, read from the files of StraitOptions.</summary>
    internal sealed class Tls
    {
        // mono 6.8 has no later one.
        private const SslProtocols Version = SslProtocols.Tls12;
        private const int FirstAlert = 1000; // BoringSSL's reasons for alerts of the peer: RFC 8446, section 6, and this
        private const int HandshakeFailure = 40;

        private static readonly bool IsOnMono = Type.GetType("Mono.Runtime") != null;
        private static readonly Regex Pem = new Regex("-----BEGIN CERTIFICATE-----(.+?)-----END", RegexOptions.Singleline);
        private static readonly Regex Reason = new Regex("error:[0-9a-f]{5}([0-9a-f]{3})");

        private readonly X509CertificateCollection authorities; // null: the system's
        private readonly X509CertificateCollection own = new X509CertificateCollection();

        private Tls(StraitOptions options)
        {
            if (options.TlsAuthorities != null)
            {
                if (!IsOnMono)
                    throw Errors.Of(ErrorKind.Unsupported, "TlsAuthorities needs mono; add the authority to the system's instead", options.TlsAuthorities);
                authorities = Authorities(options.TlsAuthorities);
            }
            if (options.TlsCertificate != null) own.Add(Own(options.TlsCertificate, options.TlsCertificatePassword));
        }

        /// <summary>Null if the connections aren't to be encrypted.</summary>
        internal static Tls Of(StraitOptions options) =>
            options.Tls || options.TlsAuthorities != null || options.TlsCertificate != null ? new Tls(options) : null;

        private static X509CertificateCollection Authorities(string file)
        {
            var found = Readable(file, () =>
                Pem.Matches(File.ReadAllText(file)).Cast<Match>()
                    .Select(one => new X509Certificate2(Convert.FromBase64String(one.Groups[1].Value))).ToArray<X509Certificate>());
            if (found.Length == 0) throw Unusable(file, "no certificate in PEM");
            return new X509CertificateCollection(found);
        }

        private static X509Certificate2 Own(string file, string password)
        {
            var found = Readable(file, () =>
            {
                var bytes = File.ReadAllBytes(file);
                try
                {
                    return new X509Certificate2(bytes, password ?? "");
                }
                catch (CryptographicException failure)
                {
                    throw Unusable(file, failure.Message + " Is it PKCS #12, with this password? mono needs openssl pkcs12 -export -legacy");
                }
            });
            if (!found.HasPrivateKey) throw Unusable(file, "no private key");
            return found;
        }

        private static T Readable<T>(string file, Func<T> read)
        {
            try
            {
                return read();
            }
            catch (Exception failure) when (!(failure is IStraitFailure) &&
                (failure is IOException || failure is UnauthorizedAccessException || failure is FormatException || failure is CryptographicException))
            {
                throw Unusable(file, failure.Message);
            }
        }

        private static Exception Unusable(string file, string why) =>
            Errors.Of(ErrorKind.InvalidArgument, "TLS can't use the file: " + why, file);

        /// <summary>The stream that encrypts what goes through a plain one, which has connected to this host.</summary>
        internal Stream Secure(SocketStream plain, string host, string address)
        {
            var where = "TLS with " + address + ": ";
            string verdict = null;
            Func<X509Certificate, X509Chain, SslPolicyErrors, bool> judge = (certificate, chain, errors) =>
                (verdict = Verdict(host, certificate, chain, errors)) == null;
            try
            {
                var stream = IsOnMono ? OnMono.Stream(plain, authorities, judge)
                    : new SslStream(plain, false, (sender, certificate, chain, errors) => judge(certificate, chain, errors));
                stream.AuthenticateAsClient(host, own, Version, false);
                return stream;
            }
            catch (Exception failure) // of several classes, also of mono's own
            {
                var why = failure.GetBaseException().Message;
                var reason = Reason.Match(why);
                var alert = reason.Success ? int.Parse(reason.Groups[1].Value, NumberStyles.HexNumber) - FirstAlert : 0;
                verdict = verdict ?? Refusal(alert);
                if (verdict != null) throw Errors.Of(ErrorKind.Unauthenticated, where + verdict);
                // Also a gateway without TLS tells HandshakeFailure: it recognises TLS by the first bytes.
                var question = alert <= 0 || alert == HandshakeFailure ? "does it speak TLS on this port?" : "";
                if (plain.IsLate) throw Errors.Of(ErrorKind.TimedOut, where + "no answer; " + question, null, true);
                throw new LostException(where + why + (question == "" ? "" : "; " + question), false);
            }
        }

        /// <summary>What is wrong with the gateway's certificate, and the remedy; null if it is trusted.</summary>
        private string Verdict(string host, X509Certificate certificate, X509Chain chain, SslPolicyErrors errors)
        {
            if (errors == SslPolicyErrors.None) return null;
            var isOther = (errors & SslPolicyErrors.RemoteCertificateNameMismatch) != 0;
            if (isOther && IsOnMono && IPAddress.TryParse(host, out var ip) && Names(certificate, ip))
            {
                // mono looks for the host among the names only, not among the addresses. It does so before it checks
                // the signatures.
                if (OnMono.IsTrusted(certificate, chain, authorities)) return null;
                isOther = false;
            }
            if (isOther) return "its certificate is for another name; connect by that name, or renew it with this one";
            var full = Full(certificate);
            if (full.NotBefore > DateTime.Now || full.NotAfter < DateTime.Now)
                return "its certificate has expired, or isn't valid yet; renew it at the gateway, or check the clocks";
            return "its certificate isn't trusted; name its authority by StraitOptions.TlsAuthorities";
        }

        /// <summary>If the gateway refuses the client's certificate by this alert: why, and the remedy.</summary>
        private static string Refusal(int alert)
        {
            switch (alert)
            {
                case 44: return "it rejects the client's certificate: it was revoked; get a new one";
                case 45: return "it rejects the client's certificate: it has expired; renew it";
                case 42:
                case 43:
                case 46:
                case 48: return "it rejects the client's certificate; get one from the gateway's authority";
                case 116: return "it requires a certificate of the client: set StraitOptions.TlsCertificate";
                default: return null;
            }
        }

        private static X509Certificate2 Full(X509Certificate certificate) =>
            certificate as X509Certificate2 ?? new X509Certificate2(certificate);

        /// <summary>Whether the address is among the certificate's alternative names (RFC 5280, section 4.2.1.6).</summary>
        private static bool Names(X509Certificate certificate, IPAddress ip)
        {
            const string AlternativeNames = "2.5.29.17";
            const byte Sequence = 0x30, Address = 0x87; // of DER
            foreach (var extension in Full(certificate).Extensions)
            {
                if (extension.Oid.Value != AlternativeNames) continue;
                var bytes = extension.RawData;
                var at = 0;
                if (!Element(bytes, ref at, out var kind, out var length) || kind != Sequence) return false;
                for (; Element(bytes, ref at, out kind, out length); at += length)
                    if (kind == Address && bytes.Skip(at).Take(length).SequenceEqual(ip.GetAddressBytes())) return true;
            }
            return false;
        }

        /// <summary>An element's head; `at` becomes that of its content, which lies within the bytes.</summary>
        private static bool Element(byte[] bytes, ref int at, out byte kind, out int length)
        {
            const byte LongForm = 0x80;
            kind = 0;
            length = 0;
            if (at + 2 > bytes.Length) return false;
            kind = bytes[at++];
            length = bytes[at++];
            if ((length & LongForm) != 0)
            {
                var digits = length & ~LongForm;
                if (digits == 0 || digits > 2 || at + digits > bytes.Length) return false;
                for (length = 0; digits > 0; digits--) length = length << 8 | bytes[at++];
            }
            return length <= bytes.Length - at;
        }

        /// <summary>
        /// BoringSSL within mono. Its interface is used, since X509Chain on mono knows no keys on elliptic curves. Other
        /// runtimes don't have the assembly, and never load this class.
        /// </summary>
        private static class OnMono
        {
            private static MonoTlsSettings Settings(X509CertificateCollection authorities)
            {
                var settings = MonoTlsSettings.CopyDefaultSettings();
                if (authorities != null) settings.TrustAnchors = authorities;
                return settings;
            }

            internal static SslStream Stream(Stream plain, X509CertificateCollection authorities, Func<X509Certificate, X509Chain, SslPolicyErrors, bool> judge)
            {
                var settings = Settings(authorities);
                settings.RemoteCertificateValidationCallback = (host, certificate, chain, errors) => judge(certificate, chain, (SslPolicyErrors)errors);
                // Without it, mono sends no certificate.
                settings.ClientCertificateSelectionCallback = (host, own, remote, issuers) => own.Count > 0 ? own[0] : null;
                return MonoTlsProviderFactory.GetProvider().CreateSslStream(plain, false, settings).SslStream;
            }

            /// <summary>Whether the chain leads to an authority, whatever the certificate's names.</summary>
            internal static bool IsTrusted(X509Certificate certificate, X509Chain chain, X509CertificateCollection authorities)
            {
                var certificates = new X509CertificateCollection { certificate };
                foreach (var element in chain.ChainElements)
                    if (!element.Certificate.Equals(certificate)) certificates.Add(element.Certificate);
                return CertificateValidationHelper.GetValidator(Settings(authorities)).ValidateCertificate(null, false, certificates).Trusted;
            }
        }
    }
}
