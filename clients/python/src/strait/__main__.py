"""``python -m strait get|put``: one file, for scripts. The command `strait` does more."""

import argparse
import shutil
import sys

import strait


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m strait", description=__doc__)
    parser.add_argument("action", choices=["get", "put"], help="get URI FILE, or put FILE URI")
    parser.add_argument("source", help="strait://host:port/[@store/]path, or a local file")
    parser.add_argument(
        "target", help="a local file (-: standard output), or strait://host:port/[@store/]path"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace what is there")
    arguments = parser.parse_args()
    fetch = arguments.action == "get"
    try:
        uri = strait.Uri.parse(arguments.source if fetch else arguments.target)
        with strait.connect(uri.gateway) as client:
            if fetch and arguments.target == "-":
                with client.open(uri.path, "rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.flush()
            elif fetch:
                client.get(uri.path, arguments.target, overwrite=arguments.force)
            else:
                client.put(arguments.source, uri.path, overwrite=arguments.force)
    except strait.AlreadyExists as error:
        print(f"python -m strait: {error}; -f replaces it", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"python -m strait: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
