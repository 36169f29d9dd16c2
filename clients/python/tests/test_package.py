"""The package installs into an empty environment, and the code of README.md runs there."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import gateways

SOURCE = gateways.REPOSITORY / "clients" / "python"
VERSIONS = gateways.REPOSITORY / "scripts" / "requirements-test.txt"
# Without the extra.
ALONE = """
import importlib.metadata, sys
import strait, strait.aio, strait.checkpoint, strait.plfs
assert importlib.metadata.version("strait-fs"), "installed under this name"
assert sys.prefix in strait.__file__, strait.__file__
"""


def run(*command, cwd):
    """Runs the command in that directory, with the command `strait` in PATH."""
    names = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    names["PATH"] = f"{gateways.binary().parent}{os.pathsep}{names['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=names,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def test_the_code_of_the_readme_runs_with_the_package_in_an_empty_environment(tmp_path):
    gateways.require_command()
    # A copy, since a build leaves files beside the sources.
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache")
    shutil.copytree(SOURCE, tmp_path / "source", ignore=ignored)
    # A source distribution, and a wheel from it.
    dist = tmp_path / "dist"
    run(sys.executable, "-m", "build", "--outdir", dist, tmp_path / "source", cwd=tmp_path)
    (wheel,) = dist.glob("strait_fs-*.whl")
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {"py.typed", "LICENSE"} <= names, names

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    install = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    run(*install, wheel, cwd=tmp_path)
    run(python, "-c", ALONE, cwd=tmp_path)
    run(*install, "-c", VERSIONS, f"{wheel}[fsspec]", "pandas", "pyarrow", cwd=tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "store").mkdir()
    with gateways.started((tmp_path / "store").as_uri()) as address:
        page = (SOURCE / "README.md").read_text().replace("127.0.0.1:9090", address)
        code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        (project / "program.py").write_text("".join(code))
        run(python, "program.py", cwd=project)
