"""tls_stream.py HOST:PORT MIB CA: as tls_stream.cpp, with the module ssl."""

import socket
import ssl
import sys


def main() -> None:
    """Shakes hands, waits for the line, and reads."""
    address, mib, authority = sys.argv[1:]
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=authority)
    plain = socket.create_connection((host, int(port)))
    with context.wrap_socket(plain, server_hostname=host) as stream:
        print("ready", flush=True)
        sys.stdin.readline()
        stream.sendall(b"!")
        piece = bytearray(1 << 20)
        left = int(mib) << 20
        while left > 0:
            count = stream.recv_into(piece)
            if not count:
                sys.exit("the stream ended early")
            left -= count
        print("done", flush=True)


if __name__ == "__main__":
    main()
