"""copy_file.py get|put GATEWAY REMOTE LOCAL [--blocking BYTES] [--ca FILE]

Copies one file with the Python client, as copy_file.cpp does.
"""

import argparse
import io
import os
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
        client.put(arguments.local, arguments.remote, overwrite=True)
    elif arguments.blocking:
        read_blocking(client, arguments.remote, arguments.local, arguments.blocking)
    elif arguments.local == "-":
        with client.open(arguments.remote, "rb", buffering=0) as remote:
            piece = bytearray(PIECE_BYTES)
            while remote.readinto(piece):
                pass
    else:
        client.get(arguments.remote, arguments.local, overwrite=True)


def read_blocking(client: strait.Client, path: str, target: str, length: int) -> None:
    with (
        client.open(path, "rb", buffering=0) as remote,
        io.FileIO(os.devnull if target == "-" else target, "wb") as local,
    ):
        assert isinstance(remote, RemoteReader)
        done = 0
        while piece := remote.pread(length, done):
            if target != "-":
                local.write(piece)
            done += len(piece)


if __name__ == "__main__":
    main()
