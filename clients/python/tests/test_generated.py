"""The committed generated code is what the compiler writes from the IDL."""

import filecmp
import shutil
import sys
from pathlib import Path

import gateways

CLIENT = Path(__file__).parents[1]


def test_the_generated_code_is_fresh(tmp_path):
    if shutil.which("thrift") is None:
        gateways.lacks("no Thrift compiler (Debian's package thrift-compiler)")
    sys.path.insert(0, str(CLIENT))
    try:
        from generate import COMMITTED, generate
    finally:
        sys.path.remove(str(CLIENT))
    generate(tmp_path / "fresh")
    names = sorted(path.name for path in (tmp_path / "fresh").iterdir())
    assert names == sorted(path.name for path in COMMITTED.glob("*.py"))
    _, different, missing = filecmp.cmpfiles(COMMITTED, tmp_path / "fresh", names, shallow=False)
    assert not different + missing, "run clients/python/generate.py and commit what it wrote"
