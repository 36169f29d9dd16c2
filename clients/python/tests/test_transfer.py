"""Whole files, to and from local ones."""

import io
import os
import random
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
from fake_gateway import failure

import strait
from strait._gen.ttypes import ErrorCode

MIB = 1 << 20
DATA = random.Random(3).randbytes(12 * MIB + 77)


def test_put_and_get_copy_and_tell_their_progress(fake, client, tmp_path):
    (tmp_path / "in").write_bytes(DATA)
    told = []
    assert client.put(tmp_path / "in", "/d/x", lambda *step: told.append(step)) == len(DATA)
    assert fake.files == {"/d/x": DATA}
    assert client.get("/d/x", str(tmp_path / "out"), lambda *step: told.append(step)) == len(DATA)
    assert (tmp_path / "out").read_bytes() == DATA
    assert told.count((len(DATA), len(DATA))) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_file_objects_will_do(fake, client):
    client.put(io.BytesIO(DATA), "/x")
    out = io.BytesIO()
    client.get("/x", out)
    assert out.getvalue() == DATA


def test_what_a_writer_does_not_take_at_once_is_written_too(fake, client):
    class Generous(io.BytesIO):
        def read(self, size=-1):
            return super().read(size * 2 + 1)

    assert client.put(Generous(DATA), "/x") == len(DATA)
    assert fake.files == {"/x": DATA}


@pytest.mark.parametrize("method", ["appendData", "closeFile", "renamePath"])
def test_a_failed_put_leaves_nothing_and_harms_nothing(fake, client, method):
    fake.files["/x"] = bytearray(b"old")
    fake.raises[method] = failure(ErrorCode.NO_SPACE, "NoSpace")
    with pytest.raises(strait.NoSpace):
        client.put(io.BytesIO(DATA), "/x", overwrite=True)
    assert fake.files == {"/x": b"old"}


@pytest.mark.parametrize("method", ["createFile", "appendData", "closeFile"])
def test_a_put_that_fails_before_anything_is_visible_leaves_no_doubt(fake, client, method):
    fake.raises[method] = failure(ErrorCode.OUTCOME_UNKNOWN, "OutcomeUnknown")
    with pytest.raises(strait.Unavailable) as caught:
        client.put(io.BytesIO(DATA), "/x")
    assert caught.value.retry_safe and caught.value.filename == "/x"
    assert not fake.files
    fake.raises["renamePath"] = failure(ErrorCode.OUTCOME_UNKNOWN, "OutcomeUnknown")
    with pytest.raises(strait.OutcomeUnknown):
        client.put(io.BytesIO(DATA), "/x")


def test_a_local_file_that_fails_is_the_error(fake, client, tmp_path):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "broken disk")

    with pytest.raises(OSError, match="broken disk"):
        client.put(Broken(), "/x")
    assert not fake.files
    with pytest.raises(FileNotFoundError):
        client.put(tmp_path / "missing", "/x")


def test_a_failed_get_leaves_nothing(fake, client, tmp_path):
    fake.files["/x"] = bytearray(DATA)
    (tmp_path / "x").write_bytes(b"old")

    def interrupt(done, total):
        if done > 5 * MIB:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.get("/x", tmp_path / "x", interrupt, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        client.get("/missing", tmp_path / "y")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_get_that_finds_the_file_shorter_leaves_nothing(fake, client, tmp_path):
    fake.files["/x"] = bytearray(DATA)
    fake.shorten = lambda offset, length: min(length, max(0, 5 * MIB + 1 - offset))
    with pytest.raises(strait.Busy, match="shorter") as caught:
        client.get("/x", tmp_path / "x")
    assert caught.value.filename == "/x"
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(strait.Busy):
        client.get("/x", io.BytesIO())


def test_a_pipe_is_written_to_and_not_replaced(fake, client, tmp_path):
    fake.files["/x"] = bytearray(b"data")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as cat:
        client.get("/x", pipe)
        assert cat.communicate(timeout=20)[0] == b"data"
    assert pipe.is_fifo()


def test_a_store_that_cannot_replace_is_overwritten_all_the_same(fake):
    fake.capabilities = ["append"]
    fake.files["/x"] = bytearray(b"old")
    with strait.connect(fake.address) as client:
        client.put(io.BytesIO(DATA), "/x", overwrite=True)
    assert fake.files == {"/x": DATA}
    assert fake.calls["removePath"] == 1


def test_nothing_is_replaced_unless_overwrite_says_so(fake, client, tmp_path):
    fake.files["/x"] = bytearray(b"old")
    with pytest.raises(FileExistsError):
        client.put(io.BytesIO(DATA), "/x")
    assert fake.files == {"/x": b"old"}
    (tmp_path / "x").write_bytes(b"mine")
    with pytest.raises(FileExistsError) as caught:
        client.get("/x", tmp_path / "x")
    assert caught.value.filename == str(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"mine"
    client.get("/x", tmp_path / "x", overwrite=True)
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_local_file_that_appears_meanwhile_stays(fake, client, tmp_path):
    fake.files["/x"] = bytearray(b"data")
    with pytest.raises(FileExistsError):
        client.get("/x", tmp_path / "x", lambda *_: (tmp_path / "x").write_bytes(b"mine"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"mine"


def test_remote_paths_may_be_path_objects(fake, client, tmp_path):
    path = PurePosixPath("/d/x")
    client.put(io.BytesIO(b"data"), path)
    with client.open(path, "rb") as file:
        assert file.read() == b"data"
    client.get(path, tmp_path / "x")
    client.replace(path, path.with_name("y"))
    client.remove(path.with_name("y"))
    assert not fake.files
    assert not client.exists(path)
    with pytest.raises(TypeError, match="path"):
        client.stat(b"/d/x")


def test_the_command_copies_one_file_and_tells_what_failed(fake, tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "strait", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(Path(strait.__file__).parents[1])}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    (tmp_path / "in").write_bytes(DATA)
    assert run("put", tmp_path / "in", f"{fake.address}a b?#%").returncode == 0
    assert fake.files == {"/a b?#%": DATA}
    assert run("get", f"{fake.address}a b?#%", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == DATA
    again = run("get", f"{fake.address}a b?#%", tmp_path / "out")
    assert again.returncode == 1 and "-f" in again.stderr
    assert run("get", "-f", f"{fake.address}a b?#%", tmp_path / "out").returncode == 0
    (tmp_path / "text").write_text("text")
    assert run("put", tmp_path / "text", f"{fake.address}text").returncode == 0
    assert run("get", f"{fake.address}text", "-").stdout == "text"
    failed = run("get", f"{fake.address}missing", tmp_path / "new")
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1 and "/missing" in failed.stderr


def test_a_put_onto_a_directory_goes_into_it(fake, client, tmp_path):
    (tmp_path / "in").write_bytes(b"data")
    fake.files["/d/other"] = bytearray(b"other")  # which makes /d a directory
    client.put(tmp_path / "in", "/d")
    assert fake.files == {"/d/in": b"data", "/d/other": b"other"}
    with pytest.raises(strait.IsADirectory):  # a file object has no name
        client.put(io.BytesIO(b"data"), "/d", overwrite=True)


def test_errors_name_the_path_that_was_asked_for(fake, client, tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise strait.PermissionDenied("no", path)

    with monkeypatch.context() as patched:
        patched.setattr(client, "open", refuse)
        with pytest.raises(PermissionError) as caught:
            client.put(io.BytesIO(b"data"), "/d/x")
    assert caught.value.filename == "/d/x"
    fake.files["/x"] = bytearray(b"data")
    with pytest.raises(FileNotFoundError) as missing:
        client.get("/x", tmp_path / "no" / "x")
    assert missing.value.filename == str(tmp_path / "no" / "x")
    assert not isinstance(missing.value, strait.StraitError)


class Reluctant(io.RawIOBase):
    """Takes some of the given bytes, as a socket or a full disk does."""

    def __init__(self):
        super().__init__()
        self.taken = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.taken += data[:1000]
        return min(1000, len(data))


def test_get_writes_all_to_a_file_that_takes_some(fake, client):
    fake.files["/f"] = bytearray(range(256)) * 100
    target = Reluctant()
    client.get("/f", target)
    assert target.taken == fake.files["/f"]


def test_put_doesnt_take_a_pause_for_the_end(fake, client):
    class Pausing(io.RawIOBase):
        def read(self, size=-1):
            return None  # nothing yet: it doesn't block

    with pytest.raises(BlockingIOError):
        client.put(Pausing(), "/new")
    assert "/new" not in fake.files


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(
    ("mask", "mode", "copied"),
    [(0o022, 0o600, 0o600), (0o022, 0o666, 0o644), (0o077, 0o755, 0o700), (0, 0o4755, 0o755)],
)
def test_a_copy_keeps_the_narrower_of_mode_and_umask(real, tmp_path, umask, mask, mode, copied):
    umask(mask)
    original, back = tmp_path / "original", tmp_path / "back"
    original.write_bytes(b"secret")
    original.chmod(mode)
    real.put(original, "/copy")
    assert real.stat("/copy").permission == copied
    real.chmod("/copy", mode & 0o777)
    real.get("/copy", back)
    assert back.stat().st_mode & 0o7777 == copied
