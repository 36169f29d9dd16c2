"""Reads a file through the gateway and holds it against a local one.

roundtrip.py strait://HOST:PORT/PATH LOCAL
"""

import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import strait

PIECE_BYTES = 1 << 20


def main(uri: str, local: Path) -> None:
    """Compares byte for byte, piece by piece."""
    parts = urlsplit(uri)
    begin = time.monotonic()
    offset = 0
    with (
        strait.connect(f"strait://{parts.netloc}/") as client,
        client.open(parts.path, "rb") as remote,
        local.open("rb") as expected,
    ):
        while wanted := expected.read(PIECE_BYTES):
            if remote.read(len(wanted)) != wanted:
                sys.exit(f"{uri} differs from {local} between {offset} and {offset + len(wanted)}")
            offset += len(wanted)
        if remote.read(1):
            sys.exit(f"{uri} is longer than {local}")
    took_ms = (time.monotonic() - begin) * 1000
    print(f"run: {offset:,} bytes are the same, byte for byte ({took_ms:.0f} ms)")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
