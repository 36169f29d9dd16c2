"""``python -m strait get|put``: one file, for scripts. The command `strait` does more."""

import argparse
import sys
from urllib.parse import urlsplit

from strait import connect


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m strait", description=__doc__)
    parser.add_argument("action", choices=["get", "put"], help="get URI FILE, or put FILE URI")
    parser.add_argument("source", help="strait://host:port/path, or a local file")
    parser.add_argument("target", help="a local file, or strait://host:port/path")
    arguments = parser.parse_args()
    fetch = arguments.action == "get"
    uri = urlsplit(arguments.source if fetch else arguments.target)
    try:
        with connect(f"{uri.scheme}://{uri.netloc}/") as client:
            if fetch:
                client.get(uri.path, arguments.target)
            else:
                client.put(arguments.source, uri.path)
    except OSError as error:
        print(f"python -m strait: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
