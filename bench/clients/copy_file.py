"""copy_file.py get|put GATEWAY REMOTE LOCAL [--blocking BYTES] [--ca FILE]

Copies one file with the Python client, as copy_file.cpp does.
"""

import argparse
import io
import ssl
import sys

import strait
from strait._reader import RemoteReader

PIECE_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["get", "put"])
    parser.add_argument("gateway")
    parser.add_argument("remote")
    parser.add_argument("local")
    parser.add_argument("--blocking", type=int, default=0)
    parser.add_argument("--ca")
    arguments = parser.parse_args()
    tls = ssl.create_default_context(cafile=arguments.ca) if arguments.ca else False
    with strait.connect(arguments.gateway, tls=tls) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        copy(client, arguments)
        print("done", flush=True)


def copy(client: strait.Client, arguments: argparse.Namespace) -> None:
    if arguments.action == "put":
        client.put(arguments.local, arguments.remote)
    elif arguments.local == "-":
        with client.open(arguments.remote, "rb", buffering=0) as remote:
            piece = bytearray(PIECE_BYTES)
            while remote.readinto(piece):
                pass
    elif arguments.blocking:
        get_blocking(client, arguments)
    else:
        client.get(arguments.remote, arguments.local)


def get_blocking(client: strait.Client, arguments: argparse.Namespace) -> None:
    with (
        client.open(arguments.remote, "rb", buffering=0) as remote,
        io.FileIO(arguments.local, "wb") as local,
    ):
        assert isinstance(remote, RemoteReader)
        done = 0
        while piece := remote.pread(arguments.blocking, done):
            local.write(piece)
            done += len(piece)


if __name__ == "__main__":
    main()
