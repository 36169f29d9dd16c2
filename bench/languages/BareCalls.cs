// BareCalls.exe read|write HOST:PORT PATH MIB: as bare_calls.rb, but by a NetworkStream: Debian has no runtime of Thrift
// for mono. The frames have the bytes of Thrift's binary protocol.
using System;
using System.IO;
using System.Net;
using System.Net.Sockets;
using System.Text;

internal static class BareCalls
{
    private const int PieceBytes = 1 << 20;

    private static Stream gateway;

    private static void Main(string[] given)
    {
        var address = given[1].Split(':');
        var client = new TcpClient(address[0], int.Parse(address[1])) { NoDelay = true };
        gateway = client.GetStream();
        Call("openSession", Field(8, 1, I32(1)));
        Console.WriteLine("ready");
        Console.ReadLine();
        if (given[0] == "read") Read(given[2], long.Parse(given[3]));
        else Write(given[2], long.Parse(given[3]));
        Console.WriteLine("done");
    }

    private static void Read(string path, long mib)
    {
        var file = Handle("openFile", Call("openFile", Text(2, Encoding.UTF8.GetBytes(path))));
        for (var n = 0L; n < mib; n++)
        {
            var reply = Call("readRange", Field(10, 2, I64(file)), Field(10, 3, I64(n * PieceBytes)), Field(8, 4, I32(PieceBytes)));
            if (reply.Length < PieceBytes) throw new IOException("a short reply");
        }
        Call("closeFile", Field(10, 4, I64(file)));
    }

    private static void Write(string path, long mib)
    {
        var file = Handle("createFile", Call("createFile", NewId(), Text(4, Encoding.UTF8.GetBytes(path))));
        var piece = new byte[PieceBytes];
        for (var n = 0L; n < mib; n++)
            Call("appendData", NewId(), Field(10, 4, I64(file)), Field(10, 5, I64(n * PieceBytes)), Field(11, 6, I32(PieceBytes)), piece);
        Call("closeFile", NewId(), Field(10, 4, I64(file)));
    }

    /// <summary>The reply's frame.</summary>
    private static byte[] Call(string method, params byte[][] fields)
    {
        var request = new MemoryStream(PieceBytes + 256);
        Action<byte[]> append = bytes => request.Write(bytes, 0, bytes.Length);
        append(new byte[4]);
        append(new byte[] { 0x80, 1, 0, 1 });
        append(I32(method.Length));
        append(Encoding.ASCII.GetBytes(method));
        append(I32(0));
        append(new byte[] { 12, 0, 1 });
        foreach (var field in fields) append(field);
        append(new byte[2]);
        request.Position = 0;
        append(I32((int)request.Length - 4));
        gateway.Write(request.GetBuffer(), 0, (int)request.Length);
        return Receive(IPAddress.NetworkToHostOrder(BitConverter.ToInt32(Receive(4), 0)));
    }

    private static byte[] Receive(int size)
    {
        var bytes = new byte[size];
        for (var filled = 0; filled < size;)
        {
            var count = gateway.Read(bytes, filled, size - filled);
            if (count == 0) throw new EndOfStreamException();
            filled += count;
        }
        return bytes;
    }

    /// <summary>The first field of a reply.</summary>
    private static long Handle(string method, byte[] reply) =>
        IPAddress.NetworkToHostOrder(BitConverter.ToInt64(reply, 18 + method.Length));

    private static byte[] I32(int number) => BitConverter.GetBytes(IPAddress.HostToNetworkOrder(number));

    private static byte[] I64(long number) => BitConverter.GetBytes(IPAddress.HostToNetworkOrder(number));

    private static byte[] Field(byte type, byte number, byte[] value)
    {
        var field = new byte[3 + value.Length];
        field[0] = type;
        field[2] = number;
        value.CopyTo(field, 3);
        return field;
    }

    private static byte[] Text(byte number, byte[] value)
    {
        var text = new byte[4 + value.Length];
        I32(value.Length).CopyTo(text, 0);
        value.CopyTo(text, 4);
        return Field(11, number, text);
    }

    private static byte[] NewId() => Text(2, Guid.NewGuid().ToByteArray());
}
