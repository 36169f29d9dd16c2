using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Threading;

namespace StraitFs
{
    /// <summary>TLS with real gateways. STRAIT_BIN names the command; openssl makes the certificates.</summary>
    internal static class TlsTest
    {
        private const string Loopback = "DNS:localhost,IP:127.0.0.1", Elsewhere = "DNS:gateway.example,IP:192.0.2.1";

        /// <summary>A directory with certificates, and the gateways that use them.</summary>
        private sealed class Scratch : IDisposable
        {
            private readonly string directory = Path.Combine(Path.GetTempPath(), "strait-csharp-" + Guid.NewGuid().ToString("N"));
            private readonly List<Process> gateways = new List<Process>();

            internal Scratch()
            {
                Directory.CreateDirectory(directory);
                Authority("authority");
                Certificate("gateway", "authority", "subjectAltName=" + Loopback);
            }

            internal string At(string name) => Path.Combine(directory, name);

            internal void Run(string command, string arguments, string input = "")
            {
                var start = new ProcessStartInfo(command, arguments)
                {
                    WorkingDirectory = directory, UseShellExecute = false, RedirectStandardInput = true, RedirectStandardError = true,
                };
                using (var process = Process.Start(start))
                {
                    process.StandardInput.Write(input);
                    process.StandardInput.Close();
                    var said = process.StandardError.ReadToEnd();
                    process.WaitForExit();
                    if (process.ExitCode != 0) throw new Exception(command + " " + arguments + ": " + said);
                }
            }

            private static string NewKey(string name) => "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout " + name + ".key ";

            /// <summary>Its name may be another one's.</summary>
            internal void Authority(string file, string name = "authority") =>
                Run("openssl", "req -x509 " + NewKey(file) + "-days 2 -addext basicConstraints=critical,CA:TRUE -subj /CN=" + name + " -out " + file + ".pem");

            internal void Certificate(string name, string authority, string extension, int days = 2)
            {
                Run("openssl", "req " + NewKey(name) + "-subj /CN=" + name + " -out " + name + ".request");
                File.WriteAllText(At(name + ".extension"), extension);
                Run("openssl", "x509 -req -in " + name + ".request -CA " + authority + ".pem -CAkey " + authority + ".key -CAcreateserial -days " +
                    days + " -extfile " + name + ".extension -out " + name + ".pem");
            }

            /// <summary>The certificate and its key in one file.</summary>
            internal string Pkcs12(string name)
            {
                Run("openssl", "pkcs12 -export -legacy -in " + name + ".pem -inkey " + name + ".key -passout pass:secret -out " + name + ".p12");
                return At(name + ".p12");
            }

            internal StraitOptions Trusting(string authority = "authority") => new StraitOptions { TlsAuthorities = At(authority + ".pem") };

            /// <summary>Its process and port, once it serves. Without a certificate, it has no TLS.</summary>
            internal Process Gateway(string certificate, out int port, string more = "")
            {
                Directory.CreateDirectory(At("store"));
                var tls = certificate == null ? "" : " --tls-cert " + At(certificate + ".pem") + " --tls-key " + At(certificate + ".key");
                var start = new ProcessStartInfo(Environment.GetEnvironmentVariable("STRAIT_BIN"), "serve --listen 127.0.0.1:0 --store file://" + At("store") + tls + " " + more)
                {
                    UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true,
                };
                var process = Process.Start(start);
                gateways.Add(process);
                process.ErrorDataReceived += (sender, line) => { };
                process.BeginErrorReadLine();
                var first = process.StandardOutput.ReadLine() ?? throw new Exception("the gateway ended");
                port = int.Parse(first.Substring(first.LastIndexOf(':') + 1));
                return process;
            }

            public void Dispose()
            {
                foreach (var gateway in gateways)
                {
                    gateway.Kill();
                    gateway.WaitForExit();
                }
                Directory.Delete(directory, true);
            }
        }

        private static byte[] Pattern(int seed, int length)
        {
            var bytes = new byte[length];
            new Random(seed).NextBytes(bytes);
            return bytes;
        }

        [Test]
        private static void LoginsAndTokensGoOverTls()
        {
            using (var scratch = new Scratch())
            {
                scratch.Run(Environment.GetEnvironmentVariable("STRAIT_BIN"), "passwd ada --file passwords", "secret\n");
                scratch.Gateway("gateway", out var port, "--passwords " + scratch.At("passwords"));
                var options = scratch.Trusting();
                options.User = "ada";
                options.Password = "secret";
                foreach (var host in new[] { "localhost", "127.0.0.1" })
                {
                    using (var client = StraitClient.Connect(host + ":" + port, options))
                    {
                        var data = Pattern(1, 5 << 20 | 3);
                        client.WriteAllBytes("/file", data);
                        Tests.Equal(true, data.SequenceEqual(client.ReadAllBytes("/file")));
                        Tests.Equal("ada", client.User);
                        var byToken = scratch.Trusting();
                        byToken.Token = client.Token;
                        Tests.Equal("ada", StraitClient.Connect(host + ":" + port, byToken).User);
                    }
                }
                options.Password = "Secret";
                Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect("localhost:" + port, options));
            }
        }

        [Test]
        private static void ManyThreadsUseOneClientOverTls()
        {
            using (var scratch = new Scratch())
            {
                scratch.Gateway("gateway", out var port);
                using (var client = StraitClient.Connect("localhost:" + port, scratch.Trusting()))
                {
                    var wrong = 0;
                    var threads = Enumerable.Range(0, 12).Select(number => new Thread(() =>
                    {
                        try
                        {
                            var data = Pattern(number, 2 << 20 | number);
                            client.WriteAllBytes("/file-" + number, data);
                            if (!data.SequenceEqual(client.ReadAllBytes("/file-" + number))) Interlocked.Increment(ref wrong);
                        }
                        catch (Exception failure)
                        {
                            Console.WriteLine(failure);
                            Interlocked.Increment(ref wrong);
                        }
                    })).ToList();
                    foreach (var thread in threads) thread.Start();
                    foreach (var thread in threads) thread.Join();
                    Tests.Equal(0, wrong);
                }
            }
        }

        [Test]
        private static void AGatewayWhoseCertificateIsntGoodIsRefused()
        {
            using (var scratch = new Scratch())
            {
                scratch.Authority("impostor"); // with the authority's name
                // Without the key's identifier, only the signature tells the two apart.
                scratch.Certificate("forged", "impostor", "subjectAltName=" + Loopback + "\nauthorityKeyIdentifier=none");
                scratch.Certificate("other", "authority", "subjectAltName=" + Elsewhere);
                scratch.Certificate("expired", "authority", "subjectAltName=" + Loopback, days: -1);
                scratch.Certificate("client", "authority", "subjectAltName=" + Loopback + "\nextendedKeyUsage=clientAuth");
                var refused = new Dictionary<string, string>
                {
                    { "forged", "isn't trusted" }, { "other", "is for another name" }, { "expired", "has expired" }, { "client", "isn't trusted" },
                };
                foreach (var certificate in refused.Keys)
                {
                    scratch.Gateway(certificate, out var port);
                    foreach (var host in new[] { "localhost", "127.0.0.1" })
                        Tests.Contains(refused[certificate], Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect(host + ":" + port, scratch.Trusting())));
                }
                scratch.Gateway("gateway", out var good);
                foreach (var options in new[] { scratch.Trusting("impostor"), new StraitOptions { Tls = true } })
                    foreach (var host in new[] { "localhost", "127.0.0.1" })
                        Tests.Contains("isn't trusted", Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect(host + ":" + good, options)));
            }
        }

        [Test]
        private static void ACertificateMayComeFromAnAuthorityBelowATrustedOne()
        {
            using (var scratch = new Scratch())
            {
                scratch.Certificate("middle", "authority", "basicConstraints=critical,CA:TRUE");
                scratch.Certificate("leaf", "middle", "subjectAltName=" + Loopback);
                File.AppendAllText(scratch.At("leaf.pem"), File.ReadAllText(scratch.At("middle.pem")));
                scratch.Authority("second", "second");
                File.AppendAllText(scratch.At("second.pem"), File.ReadAllText(scratch.At("authority.pem")));
                scratch.Gateway("leaf", out var port);
                foreach (var host in new[] { "localhost", "127.0.0.1" })
                    using (var client = StraitClient.Connect(host + ":" + port, scratch.Trusting("second")))
                        Tests.Equal(true, client.Stat("/").IsDirectory);
            }
        }

        [Test]
        private static void AGatewayMayRequireAClientsCertificate()
        {
            using (var scratch = new Scratch())
            {
                scratch.Authority("clients", "clients");
                scratch.Certificate("client", "clients", "extendedKeyUsage=clientAuth");
                scratch.Certificate("stranger", "authority", "extendedKeyUsage=clientAuth");
                scratch.Gateway("gateway", out var port, "--tls-client-ca " + scratch.At("clients.pem"));
                var options = scratch.Trusting();
                Tests.Contains("requires a certificate", Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect("localhost:" + port, options)));
                options.TlsCertificatePassword = "secret";
                options.TlsCertificate = scratch.Pkcs12("client");
                using (var client = StraitClient.Connect("localhost:" + port, options)) Tests.Equal(true, client.Stat("/").IsDirectory);
                options.TlsCertificate = scratch.Pkcs12("stranger");
                Tests.Contains("rejects the client's certificate", Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect("localhost:" + port, options)));
            }
        }

        [Test]
        private static void AFileThatTlsCantUseIsNamed()
        {
            using (var scratch = new Scratch())
            {
                foreach (var options in new[]
                {
                    new StraitOptions { TlsAuthorities = scratch.At("missing") },
                    new StraitOptions { TlsAuthorities = scratch.At("gateway.key") },
                    new StraitOptions { TlsCertificate = scratch.At("missing") },
                    new StraitOptions { TlsCertificate = scratch.At("gateway.key") },
                    new StraitOptions { TlsCertificate = scratch.At("gateway.pem") },
                    new StraitOptions { TlsCertificate = scratch.Pkcs12("gateway"), TlsCertificatePassword = "wrong" },
                })
                {
                    var file = options.TlsAuthorities ?? options.TlsCertificate;
                    Tests.Contains(file, Tests.Fails(ErrorKind.InvalidArgument, () => StraitClient.Connect("localhost:1", options)));
                }
            }
        }

        [Test]
        private static void APortWithoutTlsIsExplained()
        {
            const string Question = "does it speak TLS on this port?";
            using (var scratch = new Scratch())
            {
                scratch.Gateway(null, out var port);
                Tests.Contains(Question, Tests.Fails(ErrorKind.Unavailable, () => StraitClient.Connect("localhost:" + port, scratch.Trusting())));
                var silent = new TcpListener(IPAddress.Loopback, 0);
                silent.Start();
                var options = scratch.Trusting();
                options.TimeoutMs = 500;
                var address = "127.0.0.1:" + ((IPEndPoint)silent.LocalEndpoint).Port;
                Tests.Contains(Question, Tests.Fails(ErrorKind.TimedOut, () => StraitClient.Connect(address, options)));
                silent.Stop();
            }
        }

        [Test]
        private static void ASilentGatewayTimesOutOverTlsAndServesAgain()
        {
            using (var scratch = new Scratch())
            {
                var gateway = scratch.Gateway("gateway", out var port);
                var options = scratch.Trusting();
                options.TimeoutMs = 1000;
                using (var client = StraitClient.Connect("localhost:" + port, options))
                {
                    scratch.Run("kill", "-STOP " + gateway.Id);
                    Tests.Contains("/missing", Tests.Fails(ErrorKind.TimedOut, () => client.Stat("/missing")));
                    Tests.Fails(ErrorKind.TimedOut, () => client.CreateDirectory("/made"));
                    scratch.Run("kill", "-CONT " + gateway.Id);
                    client.CreateDirectory("/made");
                    Tests.Equal(true, client.Exists("/made"));
                }
            }
        }

        [Test]
        private static void SecretsStayOnThisMachineWithoutTls()
        {
            IPAddress own;
            using (var probe = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp))
            {
                try
                {
                    probe.Connect("192.0.2.1", 9); // sends nothing
                }
                catch (SocketException)
                {
                    Console.WriteLine("skipped: this machine has no address but loopback's");
                    return;
                }
                own = ((IPEndPoint)probe.LocalEndPoint).Address;
            }
            var listener = new TcpListener(own, 0);
            listener.Start();
            foreach (var options in new[] { new StraitOptions { User = "ada", Password = "secret" }, new StraitOptions { Token = "secret" } })
            {
                options.TimeoutMs = 2000;
                Tests.Contains("use TLS", Tests.Fails(ErrorKind.Unauthenticated, () => StraitClient.Connect(listener.LocalEndpoint.ToString(), options)));
                using (var connection = listener.AcceptSocket()) Tests.Equal(0, connection.Receive(new byte[100]));
            }
            listener.Stop();
        }
    }
}
