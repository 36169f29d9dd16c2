"""Fails if a test sleeps elsewhere than in the few files that may.

It reads the tests and the scripts that run them. Of Rust these are `tests`, `crates/*/tests`, the
tests at the end of files in `crates/*/src`, and files that their parent declares as
`#[cfg(test)] mod`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Files whose tests may sleep, and why. The first ones are where a test's waits come from.
ALLOWED = {
    "tests/testkit/src/wait.rs": "the waits of Rust",
    "clients/cpp/tests/support/waits.hpp": "the waits of C++",
    "clients/go/waits_test.go": "the waits of Go",
    "clients/java/src/test/java/fs/strait/client/Waits.java": "the waits of Java",
    "clients/node/test/waits.ts": "the waits of Node",
    "clients/python/tests/waits.py": "the waits of Python",
    "scripts/waits.sh": "the waits of scripts",
    "clients/java/hadoop/src/test/java/fs/strait/hadoop/Gateway.java": "a loop until it answers",
    "crates/libflexrpc/tests/options.c": "procedures that are slow, or overlap",
    "crates/libhdfs/tests/programs/forked.py": "a loop until its children have ended",
    "scripts/run.sh": "no test: a loop until the gateway answers",
    "scripts/tour.py": "a loop until the gateway answers",
    "tests/rest/browser.py": "time limits of a page",
}

HASH = re.compile(r"#.*")
SLASHES = re.compile(r"//.*")


@dataclass(frozen=True)
class Language:
    """Where its tests are, what sleeps there, and what is a comment."""

    files: tuple[str, ...]
    sleep: re.Pattern[str]
    comment: re.Pattern[str] = SLASHES


PYTHON = r"\b(?:time|asyncio)\.sleep\(|\bfrom (?:time|asyncio) import .*\bsleep\b"
TIMER = r"\bsetTimeout\("
LANGUAGES = (
    # Functions and imports; methods are called something else.
    Language(
        ("tests/*.rs", "crates/*/tests/*.rs", "crates/*/src/*.rs"),
        re.compile(r"(?<![.\w])(?<!fn )sleep(?:_until)?\(|\buse [^;]*\bsleep\b"),
    ),
    Language(
        (
            "clients/*/tests/*.py",
            "crates/*/tests/*.py",
            "examples/*.py",
            "tests/*.py",
            "scripts/*.py",
        ),
        # Pages are in strings.
        re.compile(f"{PYTHON}|{TIMER}"),
        HASH,
    ),
    Language(
        ("clients/*/src/test/*.java", "clients/*/src/test/*.kt", "clients/*/tests/*.cs"),
        re.compile(r"\bThread\.[sS]leep\(|\bTask\.Delay\(|(?<![.\w])delay\(|\bparkNanos\("),
    ),
    Language(
        ("clients/go/*_test.go", "tests/*_test.go"),
        re.compile(r"\btime\.(?:Sleep|Tick|AfterFunc)\("),
    ),
    Language(("clients/node/test/*.ts", "clients/browser/test/*"), re.compile(TIMER)),
    Language(
        ("clients/cpp/tests/*.[ch]pp", "crates/*/tests/*.c", "crates/*/tests/*.cpp"),
        re.compile(r"\b(?:u|nano)?sleep\(|\bsleep_(?:for|until)\("),
    ),
    Language(("scripts/*.sh",), re.compile(r"(?:^|[;&|]|\bdo\b)\s*sleep "), HASH),
)

RUST_TESTS = re.compile(r"#\[cfg\((?:test|all\(test.*)\)\]\s*mod \w+ \{.*", re.DOTALL)
RUST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*mod (\w+);")


def module(parent: Path, name: str) -> Path:
    """The file of a module that its parent declares."""
    is_root = parent.stem in ("lib", "main", "mod")
    beside = parent.parent if is_root else parent.with_suffix("")
    file = beside / f"{name}.rs"
    return file if file.exists() else beside / name / "mod.rs"


def tests(files: list[str], language: Language) -> Iterator[tuple[Path, int]]:
    """Files with tests, and where in their text the tests begin."""
    for name in files:
        if not any(fnmatch(name, pattern) for pattern in language.files):
            continue
        file = ROOT / name
        if not fnmatch(name, "crates/*/src/*.rs") or fnmatch(name, "crates/*/tests/*"):
            yield file, 0
            continue
        text = file.read_text()
        if found := RUST_TESTS.search(text):
            yield file, found.start()
        yield from ((module(file, name), 0) for name in RUST_MODULE.findall(text))


def sleeps(language: Language, file: Path, begin: int) -> Iterator[int]:
    """The lines of a file's tests that sleep."""
    text = file.read_text()
    for number, line in enumerate(text.splitlines(), start=1):
        is_test = number > text.count("\n", 0, begin)
        if is_test and language.sleep.search(language.comment.sub("", line)):
            yield number


def main() -> int:
    """Prints the place of each sleep."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    files = [name for name in files if (ROOT / name).exists()]
    failed, unused = False, set(ALLOWED)
    for language in LANGUAGES:
        for file, begin in sorted(set(tests(files, language))):
            name = str(file.relative_to(ROOT))
            for number in sleeps(language, file, begin):
                unused.discard(name)
                if name not in ALLOWED:
                    failed = True
                    print(f"{name}:{number}: a test sleeps", file=sys.stderr)
    if failed:
        print(
            "wait for an event, or name the pause's reason: see tests/testkit/src/wait.rs, and its"
            " counterparts in other languages (ALLOWED in scripts/sleeps.py)",
            file=sys.stderr,
        )
    for name in sorted(unused):
        print(f"scripts/sleeps.py: {name} doesn't sleep: remove it from ALLOWED", file=sys.stderr)
    return int(failed or bool(unused))


if __name__ == "__main__":
    sys.exit(main())
