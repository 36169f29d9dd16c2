"""`strait.run` and `strait.plan`, by the real command and a real gateway."""

import contextlib
import signal
import stat
from pathlib import Path

import gateways
import pytest
import waits

import strait


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    for number in range(4):
        (tmp_path / "store" / str(number)).write_text(f"{number}\n")
    return tmp_path / "store"


@pytest.fixture
def site(store):
    """The URI of a gateway over the files 0 to 3, each with its number; arguments for `run`."""
    gateways.require_command()
    with gateways.started(store.as_uri()) as address:
        yield f"strait://{address}", {"launcher": "local", "strait": gateways.binary()}


def test_results_come_in_order_and_tell_how_each_command_ended(site, capfd):
    uri, how = site
    script = "read x; sleep 0.$((4 - x)); echo out $x; echo err $x >&2; [ $x != 1 ] || exit 7"
    results = list(strait.run(f"{uri}/*", ["sh", "-c", script], **how))
    assert [tuple(result) for result in results] == [
        (f"{uri}/{number}", 7 if number == 1 else 0, b"out %d\n" % number) for number in range(4)
    ]
    assert {(result.host, result.error, result.start) for result in results} == {(":", None, None)}
    told = capfd.readouterr().err.splitlines()
    assert sorted(told) == [f"{uri}/{number}: err {number}" for number in range(4)]

    uris = (f"{uri}/{number}" for number in (3, 0))
    unordered = strait.run(uris, ["cat"], ordered=False, **how)
    assert sorted(output for _, _, output in unordered) == [b"0\n", b"3\n"]
    assert list(strait.run([], ["cat"], **how)) == []


def test_any_bytes_and_any_names_pass(site, store):
    uri, how = site
    content = bytes(range(256)) * 8192
    names = ["*", "a b", "new\nline", "{}"]
    (store / "odd").mkdir()
    for name in names:
        (store / "odd" / name).write_bytes(content)
    # A list has no patterns, and may be longer than a command line.
    uris = [f"{uri}/odd/{name}" for name in names] * 3
    found = [(path, output == content) for path, _, output in strait.run(uris, ["cat"], **how)]
    assert found == [(path, True) for path in uris]


def test_signals_limits_and_missing_programs_are_told(site):
    uri, how = site
    (killed,) = strait.run([f"{uri}/0"], ["sh", "-c", "kill -9 $$"], **how)
    assert killed.status == -signal.SIGKILL and killed.error is None
    (late,) = strait.run([f"{uri}/0"], ["sleep", "1000"], command_timeout=1, **how)
    assert late.status is None and "ended after 1 s" in late.error
    (missing,) = strait.run([f"{uri}/0"], ["no-such-command"], **how)
    assert missing.status is None and "no-such-command" in missing.error


def test_errors_that_belong_to_no_command_come_at_the_end(site):
    uri, how = site
    seen: list[tuple[str, int | None]] = []
    results = strait.run([f"{uri}/none", f"{uri}/2"], ["false"], **how)
    with pytest.raises(FileNotFoundError) as missing:
        seen.extend((result.path, result.status) for result in results)
    assert seen == [(f"{uri}/2", 1)]
    assert missing.value.filename == "/none" and missing.value.kind == "NotFound"
    with pytest.raises(strait.InvalidArgument, match="--no-such-flag"):
        list(strait.run(uri, ["cat"], options=["--no-such-flag"], **how))
    with pytest.raises(FileNotFoundError, match="PATH"), _path(""):
        strait.run(uri, ["cat"])


@contextlib.contextmanager
def _path(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        yield


def test_pieces_have_whole_lines_and_programs_are_shipped(site, store, tmp_path):
    uri, how = site
    lines = b"".join(b"line %05d\n" % number for number in range(2000))
    (store / "lines").write_bytes(lines)
    program = tmp_path / "upper"
    program.write_text("#!/bin/sh\nexec tr a-z A-Z\n")
    program.chmod(stat.S_IRWXU)
    results = list(strait.run(f"{uri}/lines", ["./upper"], split=8192, ship=[program], **how))
    assert [(result.start, result.end) for result in results] == [
        (0, 8192),
        (8192, 16384),
        (16384, 22000),
    ]
    assert b"".join(result.output for result in results) == lines.upper()
    assert all(result.output.startswith(b"LINE") for result in results)


def test_a_plan_tells_hosts_and_parts(site):
    uri, how = site
    planned = strait.plan(f"{uri}/*", **how)
    assert planned == [
        strait.PlannedInput(f"{uri}/{number}", None, None, 2, ":") for number in range(4)
    ]
    named = strait.plan([f"{uri}/0"], hosts=["h1"], strait=how["strait"])
    assert [part.host for part in named] == ["h1"]
    with pytest.raises(FileNotFoundError):
        strait.plan([f"{uri}/0", f"{uri}/none"], **how)


@pytest.mark.parametrize("leave", ["close", "drop", "exception"])
def test_a_caller_who_leaves_ends_all_commands(site, tmp_path, leave):
    uri, how = site
    pids = tmp_path / "pids"
    script = f"read x; [ $x != 0 ] || exit 0; echo $$ >>{pids}; exec sleep 1000"
    results = strait.run(f"{uri}/*", ["sh", "-c", script], jobs=4, **how)
    assert next(results).status == 0
    waits.eventually("3 running commands", lambda: len(_words(pids)) == 3)
    running = [int(pid) for pid in _words(pids)]
    if leave == "close":
        results.close()
        assert list(results) == []
    elif leave == "exception":
        with contextlib.suppress(KeyError), results:
            raise KeyError
    else:
        del results
    waits.eventually("the end of all commands", lambda: not any(map(_runs, running)))


def _words(file):
    return file.read_text().split() if file.is_file() else []


def _runs(pid):
    # A process that ends is a zombie until its parent waits for it; then its files give ESRCH.
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
