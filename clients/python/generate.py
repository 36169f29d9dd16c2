#!/usr/bin/env python3
"""Writes src/strait/_gen, the private generated code, from idl/dfs.thrift.

    python generate.py [DIRECTORY]

Needs the compiler of Debian's package thrift-compiler (0.17). With DIRECTORY
the package is written there instead of into the source tree.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
IDL = HERE.parents[1] / "idl" / "dfs.thrift"
COMMITTED = HERE / "src" / "strait" / "_gen"
# Slots: instances without a dict. Not `enum`: its code holds enums by name, and
# the accelerated coder by number.
GENERATOR = "py:slots"


def generate(target: Path) -> None:
    """Replaces the directory `target` by freshly generated code."""
    with tempfile.TemporaryDirectory() as scratch:
        # Not directly into the tree: the compiler empties the __init__.py of every package above
        # the one it writes.
        subprocess.run(["thrift", "--gen", GENERATOR, "-out", scratch, str(IDL)], check=True)
        written = Path(scratch, "strait", "_gen")
        for script in written.glob("*-remote"):
            script.unlink()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(written, target)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else COMMITTED)
