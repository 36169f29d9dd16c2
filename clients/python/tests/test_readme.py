"""The code of README.md runs."""

import os
import re
from pathlib import Path

import gateways

README = Path(__file__).parents[1] / "README.md"


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    gateways.require_command()
    # The command is found as programs find it.
    path = f"{gateways.binary().parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with gateways.gateway("file") as gateway:
        for match in re.finditer(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
            code = match[1].replace("strait://127.0.0.1:9090/", f"strait://{gateway.address}/")
            code = code.replace("/example", f"{gateway.root}/example")
            line = README.read_text()[: match.start(1)].count("\n")
            exec(compile("\n" * line + code, README, "exec"), names)
    assert not list(tmp_path.iterdir()), "it cleans up, and so runs again"
