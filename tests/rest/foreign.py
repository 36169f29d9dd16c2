"""Programs that others wrote use the REST face: curl, wget, aria2c; requests, httpx and urllib3.

foreign.py URL USER PASSWORD

Each line of its output is a claim, and its outcome.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import requests
import urllib3

URL, USER, PASSWORD = sys.argv[1:]
CONTENT = os.urandom(1 << 20) * 6 + b"the end"
SECONDS = 60


def run(*command: str, code: int = 0) -> str:
    """Runs a program, and gives its output."""
    done = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
    assert done.returncode == code, (command, done.returncode, done.stderr)
    return done.stdout.decode(errors="replace")


def curl(*arguments: str, code: int = 0) -> str:
    return run("curl", "-sS", "--fail-with-body", *arguments, code=code)


def log_in() -> str:
    login = json.dumps({"user": USER, "password": PASSWORD})
    answer = curl("--json", login, f"{URL}/v1/sessions")
    return str(json.loads(answer)["token"])


TOKEN = log_in()
BEARER = f"Authorization: Bearer {TOKEN}"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def files(name: str) -> str:
    return f"{URL}/v1/files/foreign/{name}"


def curl_puts_and_gets(scratch: Path) -> None:
    local, back = scratch / "local", scratch / "back"
    local.write_bytes(CONTENT)
    curl("-H", BEARER, "-T", str(local), files("curl"))
    curl("--oauth2-bearer", TOKEN, "-o", str(back), files("curl"))
    assert back.read_bytes() == CONTENT
    # From standard input: a chunked body.
    piped = subprocess.run(
        ["curl", "-sSf", "-H", BEARER, "-T", "-", files("piped")],
        check=False,
        input=CONTENT,
        timeout=SECONDS,
    )
    assert piped.returncode == 0
    assert curl("-H", BEARER, "-r", "-7", files("piped")) == "the end"


def curl_resumes_a_download(scratch: Path) -> None:
    back = scratch / "back"
    back.write_bytes(CONTENT[:1_000_000])
    curl("-H", BEARER, "-C", "-", "-o", str(back), files("curl"))
    assert back.read_bytes() == CONTENT


def curl_resumes_an_upload(scratch: Path) -> None:
    local, half = scratch / "local", scratch / "half"
    local.write_bytes(CONTENT)
    half.write_bytes(CONTENT[:1_000_000])
    curl("-H", BEARER, "-T", str(half), files("resumed"))
    curl("-H", BEARER, "-C", "1000000", "-T", str(local), files("resumed"))
    curl("-H", BEARER, "-o", str(half), files("resumed"))
    assert half.read_bytes() == CONTENT
    curl("-H", BEARER, "-C", "1000000", "-T", str(local), files("resumed"), code=22)


def curl_keeps_an_etag(scratch: Path) -> None:
    tag, back = str(scratch / "tag"), scratch / "back"
    for _ in range(2):
        asked = ["--etag-compare", tag, "--etag-save", tag]
        status = curl(
            "-H", BEARER, *asked, "-o", str(back), "-w", "%{http_code}", files("curl")
        )
    assert status == "304", status
    head = curl("-I", "-H", BEARER, files("curl")).lower()
    assert f"content-length: {len(CONTENT)}" in head, head


def curl_changes_names(_: Path) -> None:
    base = f"{URL}/v1"
    curl("-H", BEARER, "-X", "PUT", f"{base}/directories/foreign/d")
    curl("-H", BEARER, "-d", "one line", "-X", "PUT", files("d/f"))
    curl("-H", BEARER, "-d", ", one more", "-X", "PATCH", files("d/f?offset=8"))
    rename = json.dumps({"from": "/foreign/d/f", "to": "/foreign/d/g"})
    curl("-H", BEARER, "--json", rename, f"{base}/renames")
    assert curl("-H", BEARER, files("d/g")) == "one line, one more"
    missing = curl("-H", BEARER, files("d/f"), code=22)
    assert json.loads(missing)["error"]["kind"] == "NotFound", missing
    curl("-H", BEARER, "-X", "DELETE", f"{base}/directories/foreign/d?recursive")


def wget_gets_and_continues(scratch: Path) -> None:
    back = scratch / "back"
    back.write_bytes(CONTENT[:2_000_000])
    run("wget", "-q", "--header", BEARER, "-c", "-O", str(back), files("curl"))
    assert back.read_bytes() == CONTENT
    new = ["wget", "-nv", "--header", BEARER, "-N", "-P", str(scratch), files("curl")]
    run(*new)
    written = (scratch / "curl").stat().st_ctime_ns
    run(*new)
    assert (scratch / "curl").stat().st_ctime_ns == written, "it was fetched again"


def aria2c_gets_by_parts(scratch: Path) -> None:
    how = [
        "--header",
        BEARER,
        "-x4",
        "-s4",
        "-k1M",
        "-q",
        "-d",
        str(scratch),
        "-o",
        "back",
    ]
    run("aria2c", "--no-conf", *how, files("curl"))
    assert (scratch / "back").read_bytes() == CONTENT


def requests_streams_and_follows_pages(_: Path) -> None:
    def pieces() -> Iterator[bytes]:
        for at in range(0, len(CONTENT), 100_000):
            yield CONTENT[at : at + 100_000]

    with requests.Session() as session:
        session.headers.update(HEADERS)
        made = session.put(
            files("requests"), data=pieces(), headers={"If-None-Match": "*"}
        )
        assert made.status_code == 201, made.text
        again = session.put(files("requests"), data=b"", headers={"If-None-Match": "*"})
        assert (
            again.status_code == 412
            and again.json()["error"]["kind"] == "AlreadyExists"
        )
        with session.get(files("requests"), stream=True) as got:
            assert b"".join(got.iter_content(65_536)) == CONTENT
        for number in range(7):
            session.put(f"{URL}/v1/files/pages/{number}").raise_for_status()
        names, page = [], f"{URL}/v1/directories/pages?limit=3"
        while page:
            answer = session.get(page)
            names += [entry["name"] for entry in answer.json()["entries"]]
            page = answer.links["next"]["url"] if "next" in answer.links else ""
            page = page and requests.compat.urljoin(answer.url, page)
        assert sorted(names) == [str(number) for number in range(7)], names
    assert requests.get(files("requests")).status_code == 401


def httpx_streams_both_ways(_: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(CONTENT), 65_536):
            yield CONTENT[at : at + 65_536]

    async def both() -> None:
        async with httpx.AsyncClient(headers=HEADERS, timeout=SECONDS) as client:
            names = [files(f"httpx{number}") for number in range(4)]
            made = await asyncio.gather(
                *(client.put(name, content=pieces()) for name in names)
            )
            assert {answer.status_code for answer in made} == {201}
            got = await asyncio.gather(*(client.get(name) for name in names))
            assert all(answer.content == CONTENT for answer in got)

    asyncio.run(both())


def urllib3_keeps_its_connection(_: Path) -> None:
    pool = urllib3.connectionpool.connection_from_url(URL, maxsize=1)
    for number in range(50):
        name = f"/v1/files/foreign/u{number}"
        assert (
            pool.request("PUT", name, body=b"%d" % number, headers=HEADERS).status
            == 201
        )
        assert pool.request("GET", name, headers=HEADERS).data == b"%d" % number
        assert pool.request("DELETE", name, headers=HEADERS).status == 204
        assert pool.request("GET", name, headers=HEADERS).status == 404
    assert pool.num_connections == 1, pool.num_connections


CLAIMS: list[Callable[[Path], None]] = [
    curl_puts_and_gets,
    curl_resumes_a_download,
    curl_resumes_an_upload,
    curl_keeps_an_etag,
    curl_changes_names,
    wget_gets_and_continues,
    aria2c_gets_by_parts,
    requests_streams_and_follows_pages,
    httpx_streams_both_ways,
    urllib3_keeps_its_connection,
]

for claim in CLAIMS:
    with tempfile.TemporaryDirectory() as directory:
        try:
            claim(Path(directory))
            print(claim.__name__, "ok", flush=True)
        except Exception as error:  # noqa: BLE001 - any failure is this claim's outcome
            print(claim.__name__, "WRONG", repr(error), flush=True)
