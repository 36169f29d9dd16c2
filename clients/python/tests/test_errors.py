"""Exceptions: native, complete, and the same as in every other language."""

import pickle
import re
from pathlib import Path

import pytest

import strait
from strait import errors
from strait._gen.ttypes import DfsError, ErrorCode

TABLE = Path(__file__).parents[3] / "crates" / "store" / "src" / "error.rs"


def test_kinds_are_those_of_the_one_table_of_errors():
    row = r'^ +(\w+) +(\d+) +(\d+) +\d+ +\d+ +"\w+" +\d+ +(true|false);$'
    rows = re.findall(row, TABLE.read_text(), re.MULTILINE)
    assert len(rows) == len(ErrorCode._VALUES_TO_NAMES) == len(errors._BY_CODE)
    for kind, errno, code, retry_safe in rows:
        error = errors.from_wire(DfsError(code=int(code), message="m", path="/p"))
        assert (error.kind, error.errno, error.retry_safe) == (
            kind,
            int(errno),
            retry_safe == "true",
        )
        assert (error.strerror, error.filename) == ("m", "/p")
        assert type(error) is getattr(strait, kind)


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        ("NotFound", FileNotFoundError),
        ("AlreadyExists", FileExistsError),
        ("NotADirectory", NotADirectoryError),
        ("IsADirectory", IsADirectoryError),
        ("PermissionDenied", PermissionError),
        ("TimedOut", TimeoutError),
        ("Unavailable", ConnectionError),
        ("InvalidArgument", ValueError),
        ("NoSpace", OSError),
    ],
)
def test_errors_are_the_built_in_ones_too(kind, native):
    assert issubclass(getattr(strait, kind), native)
    assert issubclass(getattr(strait, kind), strait.StraitError)


def test_a_kind_of_a_newer_gateway_keeps_its_name():
    error = errors.from_wire(DfsError(code=99, kind="Moonstruck", message="m", retry_safe=True))
    assert (error.kind, error.retry_safe) == ("Moonstruck", True)


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(strait.Busy("held", "/p", retry_safe=False)))
    assert (type(error), error.strerror, error.filename, error.retry_safe) == (
        strait.Busy,
        "held",
        "/p",
        False,
    )
