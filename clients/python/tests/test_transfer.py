"""Whole files, to and from local ones."""

import io
import os
import random
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("method", ["appendData", "closeFile", "renamePath"])
def test_a_failed_put_leaves_nothing_and_harms_nothing(fake, client, method):
    fake.files["/x"] = bytearray(b"old")
    fake.raises[method] = failure(ErrorCode.NO_SPACE, "NoSpace")
    with pytest.raises(strait.NoSpace):
        client.put(io.BytesIO(DATA), "/x")
    assert fake.files == {"/x": b"old"}


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
        client.get("/x", tmp_path / "x", interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        client.get("/missing", tmp_path / "y")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


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
        client.put(io.BytesIO(DATA), "/x")
    assert fake.files == {"/x": DATA}
    assert fake.calls["removePath"] == 1


def test_put_without_overwrite_refuses_a_taken_path(fake, client):
    fake.files["/x"] = bytearray(b"old")
    with pytest.raises(FileExistsError):
        client.put(io.BytesIO(DATA), "/x", overwrite=False)
    assert fake.files == {"/x": b"old"}


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
    failed = run("get", f"{fake.address}missing", tmp_path / "out")
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1 and "/missing" in failed.stderr
