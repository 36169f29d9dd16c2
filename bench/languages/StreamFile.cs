// StreamFile.exe read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for C#.
using System;
using StraitFs;

internal static class StreamFile
{
    private const int PieceBytes = 1 << 20;

    private static void Main(string[] given)
    {
        using (var client = StraitClient.Connect(given[1]))
        {
            Console.WriteLine("ready");
            Console.ReadLine();
            if (given[0] == "read") Read(client, given[2], long.Parse(given[3]));
            else Write(client, given[2], long.Parse(given[3]));
            Console.WriteLine("done");
        }
    }

    private static void Read(StraitClient client, string path, long mib)
    {
        var piece = new byte[PieceBytes];
        var bytes = 0L;
        using (var file = client.OpenRead(path))
        {
            int count;
            while ((count = file.Read(piece, 0, piece.Length)) > 0) bytes += count;
        }
        if (bytes != mib << 20) throw new Exception("another length: " + bytes);
    }

    private static void Write(StraitClient client, string path, long mib)
    {
        var piece = new byte[PieceBytes];
        using (var file = client.Create(path))
            for (var n = 0L; n < mib; n++) file.Write(piece, 0, piece.Length);
    }
}
