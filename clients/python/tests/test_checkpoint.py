"""Many processes write one file, by the C library; the plain safetensors library reads it."""

import multiprocessing
import os
from pathlib import Path

import gateways
import numpy
import pytest
import safetensors

from strait import checkpoint, plfs

RANKS = 4


def library() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", gateways.REPOSITORY / "target"))
    # Cargo leaves it in `deps` if only tests were built.
    built = [target / place / "libstrait.so" for place in ("debug", "debug/deps", "release")]
    found = next((path for path in built if path.is_file()), None)
    if found is None:
        gateways.lacks("no libstrait.so: build it (cargo build -p libstrait)")
    return found


@pytest.fixture
def uri(tmp_path, monkeypatch):
    monkeypatch.setenv("STRAIT_LIBRARY", str(library()))
    plfs._library.cache_clear()
    return f"file://{tmp_path}/ckpt"


def tensors_of(rank):
    """Of several types and sizes; the content tells its place."""
    return {
        f"layer.{rank}.weight": (
            ("F32", (64, 33)),
            bytes((rank * 50 + i) % 251 for i in range(64 * 33 * 4)),
        ),
        f"layer.{rank}.bias": (("BF16", (7,)), bytes((rank + i) % 256 for i in range(14))),
        f"layer.{rank}.mask": (("BOOL", (3,)), bytes((0, 1, rank % 2))),
    }


def layout():
    specs = [{n: spec for n, (spec, _) in tensors_of(rank).items()} for rank in range(RANKS)]
    return checkpoint.Layout.of(specs, {"format": "pt"})


def write_as(uri, rank):
    checkpoint.write(uri, layout(), rank, {n: data for n, (_, data) in tensors_of(rank).items()})


def write_side_by_side(uri):
    # The library isn't used in a process before it forks.
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=write_as, args=(uri, rank)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0] * RANKS


def expected():
    return {n: data for rank in range(RANKS) for n, (_, data) in tensors_of(rank).items()}


def test_the_plain_library_reads_what_ranks_wrote_at_once(uri, tmp_path):
    write_side_by_side(uri)
    with checkpoint.Reader(uri) as reader:
        assert {name: bytes(reader.read(name)) for name in reader} == expected()
        assert reader.metadata == {"format": "pt"}
    checkpoint.finalize(uri, f"file://{tmp_path}/model.safetensors")
    whole = (tmp_path / "model.safetensors").read_bytes()
    assert len(whole) == layout().nbytes
    read = {name: bytes(of["data"]) for name, of in safetensors.deserialize(whole)}
    assert read == expected()
    assert not Path(uri.removeprefix("file://")).exists()


def test_a_rank_that_has_not_written_is_noticed(uri):
    for rank in (1, 2):
        write_as(uri, rank)
    with pytest.raises(ValueError, match="has rank 0 written"):
        checkpoint.Reader(uri)
    write_as(uri, 0)
    with (
        checkpoint.Reader(uri) as reader,
        pytest.raises(EOFError, match="not all ranks have written"),
    ):
        reader.read("layer.3.weight")


def test_a_rank_writes_exactly_its_tensors(uri):
    tensors = {n: data for n, (_, data) in tensors_of(1).items()}
    with pytest.raises(ValueError, match="missing"):
        checkpoint.write(uri, layout(), 1, dict(list(tensors.items())[1:]))
    short = {**tensors, "layer.1.mask": b"\0"}
    with pytest.raises(ValueError, match="1 bytes, the layout has 3"):
        checkpoint.write(uri, layout(), 1, short)
    with pytest.raises(ValueError, match="two tensors"):
        checkpoint.Layout.of([{"a": ("F32", (1,))}, {"a": ("F32", (1,))}])
    with pytest.raises(ValueError, match="no type"):
        checkpoint.Spec("F128", (1,))


def test_a_logical_file_is_a_file_object(uri):
    with plfs.open(uri, "x", rank=2, permission=0o640) as file:
        assert file.write(b"0123456789") == 10
        assert file.seek(-4, os.SEEK_END) == 6
        assert file.read(2) == b"67"
        assert file.tell() == 8
        file.pwrite(bytearray(b"ab"), 20)
        assert file.pread(99, 8) == b"89" + bytes(10) + b"ab"
        assert file.truncate(3) == 3
        assert file.length() == 3
        file.sync()
        status = plfs.stat(uri)
        assert (status.size, status.mode, status.uid) == (3, 0o640, os.getuid())
    with pytest.raises(FileExistsError):
        plfs.open(uri, "x")
    with pytest.raises(ValueError, match="closed"):
        file.pread(1, 0)
    plfs.rename(uri, f"{uri}.moved")
    with pytest.raises(FileNotFoundError, match="ckpt"):
        plfs.open(uri, "r")
    with plfs.open(f"{uri}.moved") as file, pytest.raises(OSError, match="isn't open for writing"):
        file.write(b"x")
    plfs.remove(f"{uri}.moved")


def test_a_big_endian_tensor_is_refused():
    # The format has none: a reader would take its bytes for other numbers.
    tensor = numpy.arange(3, dtype=">f4")
    spec = checkpoint.Spec.of(tensor)
    with pytest.raises(ValueError, match="big-endian"):
        checkpoint._bytes_of(tensor)
    assert bytes(checkpoint._bytes_of(tensor.astype("<f4"))) == tensor.astype("<f4").tobytes()
    assert spec.nbytes == 12


@pytest.mark.parametrize("call", [plfs.open, plfs.stat, plfs.remove])
def test_a_uri_with_a_null_byte_isnt_taken_for_its_begin(uri, call):
    plfs.open(uri, "x").close()
    with pytest.raises(ValueError, match="null byte"):
        call(f"{uri}\0.other")
    assert plfs.stat(uri).size == 0


class Array:
    """What NumPy's arrays say of themselves."""

    def __init__(self, kind, itemsize, shape):
        self.dtype = type("dtype", (), {"kind": kind, "itemsize": itemsize})
        self.shape = shape


def test_the_format_s_types_of_arrays():
    kinds = [("f", 4), ("f", 2), ("i", 8), ("u", 1), ("b", 1), ("c", 8)]
    made = checkpoint.Layout.of(
        [{f"{kind}{size}": Array(kind, size, (3, 4)) for kind, size in kinds}]
    )
    assert [spec.dtype for spec in made.ranks[0].values()] == [
        "F32",
        "F16",
        "I64",
        "U8",
        "BOOL",
        "C64",
    ]
    with pytest.raises(ValueError, match="no type"):
        checkpoint.Spec.of(Array("f", 16, ()))
