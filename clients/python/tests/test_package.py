"""The packages install into an empty environment, under their own name, and work there."""

import os
import shutil
import subprocess
import sys
import venv

import gateways

SOURCE = gateways.REPOSITORY / "clients" / "python"
ROUND_TRIP = """
import importlib.metadata, sys
import strait
assert importlib.metadata.version("strait-fs"), "installed under this name"
assert sys.prefix in strait.__file__, strait.__file__
with strait.connect(sys.argv[1]) as client:
    with client.open("/package", "w") as file:
        file.write("there and back")
    assert client.open("/package").read() == "there and back"

import fsspec  # finds strait:// by the entry point
with fsspec.open(f"strait://{sys.argv[1]}/package", "r") as file:
    assert file.read() == "there and back"
"""


def run(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def test_the_wheel_of_the_sdist_makes_a_round_trip_in_an_empty_environment(tmp_path):
    gateways.require_command()
    # A copy, since a build leaves files beside the sources.
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache")
    shutil.copytree(SOURCE, tmp_path / "source", ignore=ignored)
    dist = tmp_path / "dist"
    dist.mkdir()
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, dist, cwd=tmp_path / "source")
    (sdist,) = dist.iterdir()
    assert sdist.name.startswith("strait_fs-") or sdist.name.startswith("strait-fs-")

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", dist, sdist, cwd=tmp_path)
    (wheel,) = dist.glob("strait_fs-*.whl")
    run(*pip, "install", f"{wheel}[fsspec]", cwd=tmp_path)
    (tmp_path / "store").mkdir()
    with gateways.started((tmp_path / "store").as_uri()) as address:
        run(python, "-c", ROUND_TRIP, address, cwd=tmp_path)
