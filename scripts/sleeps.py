"""Fails if a Rust test sleeps elsewhere than in the test kit's `wait.rs`.

It reads all of `tests` and `crates/*/tests`, the tests at the end of files in `crates/*/src`, and
files that their parent declares as `#[cfg(test)] mod`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WAITS = ROOT / "tests/testkit/src/wait.rs"
COMMENT = re.compile(r"//.*")
TESTS = re.compile(r"#\[cfg\((?:test|all\(test.*)\)\]\s*mod \w+ \{.*", re.DOTALL)
MODULE = re.compile(r"#\[cfg\(test\)\]\s*mod (\w+);")
# Functions and imports; methods are called something else.
SLEEP = re.compile(r"(?<![.\w])(?<!fn )sleep(?:_until)?\(|\buse [^;]*\bsleep\b")


def module(parent: Path, name: str) -> Path:
    """The file of a module that its parent declares."""
    is_root = parent.stem in ("lib", "main", "mod")
    beside = parent.parent if is_root else parent.with_suffix("")
    file = beside / f"{name}.rs"
    return file if file.exists() else beside / name / "mod.rs"


def tests() -> Iterator[tuple[Path, int]]:
    """Files with tests, and where in their text the tests begin."""
    for pattern in ("tests/**/*.rs", "crates/*/tests/**/*.rs"):
        yield from ((file, 0) for file in ROOT.glob(pattern) if file != WAITS)
    for file in ROOT.glob("crates/*/src/**/*.rs"):
        text = file.read_text()
        if found := TESTS.search(text):
            yield file, found.start()
        yield from ((module(file, name), 0) for name in MODULE.findall(text))


def main() -> int:
    """Prints the place of each sleep."""
    failed = False
    for file, begin in sorted(tests()):
        text = file.read_text()
        for number, line in enumerate(text.splitlines(), start=1):
            is_test = number > text.count("\n", 0, begin)
            if is_test and SLEEP.search(COMMENT.sub("", line)):
                failed = True
                print(f"{file.relative_to(ROOT)}:{number}: a test sleeps", file=sys.stderr)
    if failed:
        print(
            "wait for an event (`eventually`, `obtained`), or name the pause's reason (`pause`,"
            " `stays`): see tests/testkit/src/wait.rs",
            file=sys.stderr,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
