using System;
using System.IO;
using System.Linq;
using System.Text;

namespace StraitFs
{
    /// <summary>States of docs/client-protocol.md that the shared cases don't reach.</summary>
    internal static class StatesTest
    {
        private static string Text(StraitReader file) => Encoding.UTF8.GetString(file.ReadAt(0, 100));

        [Test]
        private static void AReaderNeverGetsBytesOfTheFileThatReplacedItsOwn()
        {
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address))
            using (var file = client.OpenRead("/file"))
            {
                Tests.Equal("content", Text(file));
                gateway.Content = "another";
                gateway.Restart();
                for (var attempt = 1; attempt <= 3; attempt++)
                {
                    Tests.Contains("replaced", Tests.Fails(ErrorKind.Unavailable, () => Text(file)));
                    Tests.Equal(attempt, gateway.Count("closeFile")); // of the other file's handle
                }
                gateway.Content = "content and more";
                Tests.Contains("replaced", Tests.Fails(ErrorKind.Unavailable, () => Text(file)));
                gateway.Content = "content";
                Tests.Equal("content", Text(file));
            }
        }

        [Test]
        private static void AReaderRefusesMoreBytesThanItAskedFor()
        {
            using (var gateway = new FakeGateway { SendsTooMuch = true })
            using (var client = StraitClient.Connect(gateway.Address))
            using (var file = client.OpenRead("/file"))
            {
                Tests.Contains("/file", Tests.Fails(ErrorKind.Internal, () => file.ReadAt(0, 3)));
                Tests.Equal("content", Text(file));
            }
        }

        [Test]
        private static void AnAnswerWithoutAResultIsAnError()
        {
            byte[] nothing = { 0 };
            byte[] numberAsError = { (byte)Kind.I32, 0, 1, 0, 0, 0, 7, 0 };
            byte[] numberAsErrorBesideAResult = new byte[] { (byte)Kind.Struct, 0, 0, 0 }.Concat(numberAsError).ToArray();
            byte[] numberAsResult = { (byte)Kind.I32, 0, 0, 0, 0, 0, 7, 0 };
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address))
            {
                foreach (var reply in new[] { nothing, numberAsError, numberAsErrorBesideAResult, numberAsResult })
                {
                    gateway.Reply = reply;
                    Tests.Contains("getFileInfo", Tests.Fails(ErrorKind.Internal, () => client.Stat("/file")));
                }
                gateway.Reply = null;
                Tests.Equal(true, client.Exists("/file"));
            }
        }

        [Test]
        private static void AReplyWithTooManyStructsAndItemsIsRefused()
        {
            foreach (var given in new[] { Tuple.Create(Kind.Byte, 1 << 18), Tuple.Create(Kind.Struct, 1 << 17) })
            {
                var count = given.Item2;
                var head = Wire.Request("stat", 1, new Fields()).SelectMany(part => part).Skip(4).ToArray();
                head[3] = 2; // a reply
                var list = new byte[] { (byte)Kind.List, 0, 0, (byte)given.Item1, 0, (byte)(count >> 16), 0, 0 };
                var frame = head.Take(head.Length - 5).Concat(list).Concat(new byte[count + 1]).ToArray();
                try
                {
                    Wire.Reply(frame, "stat", 1);
                }
                catch (InvalidDataException failure)
                {
                    Tests.Contains("too many values", failure.Message);
                    continue;
                }
                throw new Exception("no error");
            }
        }

        [Test]
        private static void AListingThatOutlivesItsSessionSaysToListAnew()
        {
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address))
            {
                foreach (var end in new Action[] { gateway.Restart, gateway.EndSessions })
                {
                    using (var entries = client.List("/directory").GetEnumerator())
                    {
                        Tests.Equal(true, entries.MoveNext());
                        Tests.Equal(true, entries.MoveNext());
                        end();
                        var message = Tests.Fails(ErrorKind.Unavailable, () => entries.MoveNext());
                        Tests.Contains("list anew", message);
                        Tests.Contains("/directory", message);
                    }
                }
                Tests.Equal("/directory/a", client.List("/directory").First().Path);
            }
        }

        [Test]
        private static void AListingThatBeginsInANewSessionGoesOn()
        {
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address))
            {
                gateway.Restart();
                Tests.Equal(3, client.List("/directory").Take(3).Count());
                Tests.Equal(1, gateway.Count("closeFile"));
            }
        }

        [Test]
        private static void ACursorThatTheSameSessionDoesntKnowIsTheGatewaysError()
        {
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address))
            using (var entries = client.List("/directory").GetEnumerator())
            {
                Tests.Equal(true, entries.MoveNext());
                gateway.DropHandles();
                Tests.Fails(ErrorKind.InvalidArgument, () => entries.MoveNext());
            }
        }

        [Test]
        private static void AnAnswerEndsTheSilenceInWhichAClientDoesntCleanUp()
        {
            using (var gateway = new FakeGateway())
            using (var client = StraitClient.Connect(gateway.Address, new StraitOptions { TimeoutMs = 500 }))
            {
                StraitReader before = client.OpenRead("/before"), after = client.OpenRead("/after");
                gateway.Silent = "getFileInfo";
                Tests.Fails(ErrorKind.TimedOut, () => client.Stat("/file"));
                Tests.Fails(ErrorKind.TimedOut, () => client.Stat("/file"));
                before.Dispose();
                Tests.Equal(0, gateway.Count("closeFile"));

                gateway.Silent = null;
                client.Stat("/file");
                after.Dispose();
                Tests.Equal(1, gateway.Count("closeFile"));
                client.Dispose();
                Tests.Equal(1, gateway.Count("closeSession"));
            }
        }
    }
}
