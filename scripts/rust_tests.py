"""Runs Rust's test programs, some at a time: scripts/rust_tests.py ARGUMENTS-OF-CARGO-TEST...

`cargo test` runs one program after another, and most of ours wait for other processes. So this
runs several, and prints the output of each when it ends. Each test reports its time.
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

# More would make tests with time limits fail on two cores.
AT_ONCE = 2

# A program that takes longer hangs. The longest takes seven minutes on a busy machine.
TIME_LIMIT_S = 1800

# These take a minute and more each. They start first, so that none of them is left to run alone.
LONGEST = {
    "simulation",
    "hdfs_faults",
    "hdfs_journal",
    "hdfs_leases",
    "hdfs_replicas",
    "hdfs_write",
    "hdfs_writers",
}


@dataclass
class Program:
    """One test program of the workspace."""

    name: str
    executable: str
    package: Path

    def run(self, output: IO[bytes]) -> bool:
        """Whether it passed."""
        # The standard harness takes --report-time only under RUSTC_BOOTSTRAP, which would rebuild
        # everything if cargo saw it.
        environment = os.environ | {"RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(self.package)}
        command = [self.executable, "-Zunstable-options", "--report-time"]
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
    return sorted(found, key=lambda program: program.name not in LONGEST)


def tested(program: Program) -> bool:
    """Runs a program, prints its output, and says whether it passed."""
    with tempfile.TemporaryFile() as output:
        passed = program.run(output)
        output.seek(0)
        text = output.read().decode(errors="replace")
    # In one piece: other threads print, too.
    sys.stdout.write(f"\n     Running {program.package.name}: {program.name}\n{text}")
    sys.stdout.flush()
    return passed


def main() -> int:
    """Runs them all, and names those that failed."""
    found = programs(sys.argv[1:])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(tested, found))
    failed = [program for program, passed in zip(found, results, strict=True) if not passed]
    for program in failed:
        print(f"rust tests: FAILED: {program.package.name}: {program.name}")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
