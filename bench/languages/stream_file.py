"""stream_file.py read|write HOST:PORT PATH MIB [CA]: as stream_file.cpp, in Python."""

import ssl
import sys

import strait

PIECE_BYTES = 1 << 20


def read(client: strait.Client, path: str, mib: int) -> None:
    """Reads the file to its end."""
    count = 0
    piece = bytearray(PIECE_BYTES)
    with client.open(path, "rb", buffering=0) as remote:
        while taken := remote.readinto(piece):
            count += taken
    if count != mib << 20:
        sys.exit(f"another length: {count}")


def write(client: strait.Client, path: str, mib: int) -> None:
    """Writes the file."""
    piece = bytes(PIECE_BYTES)
    with client.open(path, "xb", buffering=0) as remote:
        for _ in range(mib):
            remote.write(piece)


def main() -> None:
    """Connects, waits for the line, and works."""
    action, gateway, path, mib, *authority = sys.argv[1:]
    tls = ssl.create_default_context(cafile=authority[0]) if authority else False
    with strait.connect(gateway, tls=tls) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        (read if action == "read" else write)(client, path, int(mib))
        print("done", flush=True)


if __name__ == "__main__":
    main()
