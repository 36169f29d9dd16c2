"""The faults of every client language (clients/conformance/README.md)."""

import os
import subprocess
import sys
from pathlib import Path

import gateways

TESTS = Path(__file__).parent
LIMIT_S = 300


def test_the_shared_faults_end_as_their_file_says(record_property):
    gateways.require_command()
    runner = gateways.REPOSITORY / "tests/languages/shared_faults.py"
    driver = [sys.executable, TESTS / "client_driver.py"]
    outcome = subprocess.run(
        [sys.executable, runner, *driver],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent / "src")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    record_property("faults", outcome.stdout.splitlines()[-1])
