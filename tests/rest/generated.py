"""The Python client that openapi-python-client generates from the gateway's description.

generated.py URL USER PASSWORD: prints each claim, and its outcome.
"""

import importlib
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

URL, USER, PASSWORD = sys.argv[1:]
PACKAGE = "generated_client"
SECONDS = 120


def generate(scratch: Path) -> None:
    """Generates the package, and makes it importable."""
    description, settings = scratch / "openapi.json", scratch / "settings.yaml"
    with urllib.request.urlopen(f"{URL}/openapi.json", timeout=SECONDS) as answer:
        description.write_bytes(answer.read())
    # Without hooks, which would format the code.
    settings.write_text(f"package_name_override: {PACKAGE}\npost_hooks: []\n")
    command = [
        Path(sys.executable).with_name("openapi-python-client"),
        "generate",
        "--meta",
        "none",
    ]
    command += [
        "--path",
        description,
        "--config",
        settings,
        "--output-path",
        scratch / PACKAGE,
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout, done.stdout
    sys.path.insert(0, str(scratch))


def call(operation: str, **arguments: Any) -> Any:
    """Executes an operation; returns its answer as the generated code parsed it."""
    answer = importlib.import_module(f"{PACKAGE}.api.{operation}").sync_detailed(
        **arguments
    )
    assert answer.status_code < 300, (operation, answer.status_code, answer.content)
    return answer.parsed


def claims() -> Iterator[tuple[str, bool]]:
    package = importlib.import_module(PACKAGE)
    models = importlib.import_module(f"{PACKAGE}.models")
    file = importlib.import_module(f"{PACKAGE}.types").File
    login = models.Login(user=USER, password=PASSWORD)
    session = call("sessions.open_session", client=package.Client(URL), body=login)
    client = package.AuthenticatedClient(URL, token=session.token)

    # Slashes, and bytes that mean something in a query.
    path = "/generated/a b/c+d&e=ü%2F"
    content = b"by generated code"
    call("files.write_file", client=client, path=path, body=file(BytesIO(content[:3])))
    call(
        "files.append_file",
        client=client,
        path=path,
        offset=3,
        body=file(BytesIO(content[3:])),
    )
    yield (
        "reads what it wrote",
        call("files.read_file", client=client, path=path).payload.read() == content,
    )
    part = call("files.read_file", client=client, path=path, range_="bytes=3-11")
    yield "reads a range", part.payload.read() == content[3:12]
    page = call("names.list_directory", client=client, path="/generated/a b")
    yield "lists", [entry.path for entry in page.entries] == [path]
    yield (
        "lists the root",
        "generated"
        in [
            entry.name for entry in call("names.list_directory", client=client).entries
        ],
    )
    renamed = {"from": path, "to": "/generated/f"}
    call("names.rename", client=client, body=models.Rename.from_dict(renamed))
    status = call("names.get_status", client=client, path="/generated/f")
    yield "renames", (status.type_.value, status.length) == ("file", len(content))
    missing = importlib.import_module(f"{PACKAGE}.api.names.get_status")
    error = missing.sync(client=client, path=path)
    yield (
        "gets errors with their kind",
        error.error.kind.value == "NotFound" and error.error.path == path,
    )
    call("names.remove_directory", client=client, path="/generated", recursive=True)
    yield "removes", call("names.list_directory", client=client).entries == []


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        wrong = 0
        for claim, holds in claims():
            print(f"openapi-python-client {claim}: {'yes' if holds else 'WRONG'}")
            wrong += not holds
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
