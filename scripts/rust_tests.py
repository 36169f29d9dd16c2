"""Runs Rust's test programs, some at a time: scripts/rust_tests.py ARGUMENTS-OF-CARGO-TEST...

`cargo test` runs one program after another, and most of ours wait for other processes. So this
runs several, and prints the output of each when it ends. Each test reports its time. With `--quiet`
as the first argument, programs that pass are only counted.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# Programs, and tests in each of them. More would make tests with time limits fail on two cores.
AT_ONCE = 2
THREADS = 3

# A program that takes longer hangs. The longest takes ten minutes on a busy machine.
TIME_LIMIT_S = 1800

# These take half a minute and more each. They start first, in this order, so that none of them is
# left to run alone.
LONGEST = [
    "strait: suite",
    "kadoop-server: service",
    "store-hdfs: suite",
    "kadoop-core: simulation",
    "store-kadoop: kadoop",
]

# Of these programs, only tests with this in their names.
ONLY = {"orders: orders": "orders"}


@dataclass
class Program:
    """One test program of the workspace."""

    name: str
    executable: str
    package: Path

    def __str__(self) -> str:
        """Its crate's directory, and the target."""
        return f"{self.package.name}: {self.name}"

    def run(self, output: IO[bytes]) -> bool:
        """Whether it passed."""
        # The standard harness takes --report-time only under RUSTC_BOOTSTRAP, which would rebuild
        # everything if cargo saw it.
        # Property tests draw the same values in each run; those of a plain `cargo test` differ.
        environment = {"RUST_TEST_THREADS": str(THREADS), "PROPTEST_RNG_SEED": "1"} | os.environ
        environment |= {"RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(self.package)}
        command = [self.executable, "-Zunstable-options", "--report-time", ONLY.get(str(self), "")]
        try:
            done = subprocess.run(
                command,
                cwd=self.package,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIME_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            output.write(f"ended after {TIME_LIMIT_S} s: a test hangs\n".encode())
            return False
        return done.returncode == 0


def programs(arguments: list[str]) -> list[Program]:
    """Builds the tests that these arguments of `cargo test` choose."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    command += arguments
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for message in map(json.loads, built.splitlines()):
        is_test = message["reason"] == "compiler-artifact" and message["profile"]["test"]
        if is_test and message["executable"]:
            package = Path(message["manifest_path"]).parent
            found.append(Program(message["target"]["name"], message["executable"], package))
    order = {name: at for at, name in enumerate(LONGEST)}
    return sorted(found, key=lambda program: order.get(str(program), len(order)))


def tested(program: Program, quiet: bool) -> bool:
    """Runs a program, prints its output, and says whether it passed."""
    with tempfile.TemporaryFile() as output:
        passed = program.run(output)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if quiet and passed:
        return True
    # In one piece: other threads print, too.
    sys.stdout.write(f"\n     Running {program}\n{text}")
    sys.stdout.flush()
    return passed


def main() -> int:
    """Runs them all, and names those that failed."""
    quiet = sys.argv[1:2] == ["--quiet"]
    found = programs(sys.argv[2:] if quiet else sys.argv[1:])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda program: tested(program, quiet), found))
    failed = [program for program, passed in zip(found, results, strict=True) if not passed]
    for program in failed:
        print(f"rust tests: FAILED: {program}")
    print(f"rust tests: {len(found)} programs ran, {len(failed)} of them failed")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
