"""Fails unless all packages, and pages that name their files, have the version of Cargo.toml, and
copies of the licence are LICENSE."""

import re
import subprocess
import sys
from pathlib import Path

# Names of packages' files.
PACKAGES = "strait|strait[-_]fs(?:-browser|-smalltalk)?|strait-hadoop|StraitFs|Strait-FS"
FILE = rf"\b(?:{PACKAGES})[-.]"
FILES = rf"{FILE}(\d+\.\d+\.\d+)\b"
ARTIFACT = r"-(?:fs|hadoop|kotlin|spark)</artifactId>\s*<version>"
# Patterns of a package's own version in each kind of file.
VERSIONS = {
    "pyproject.toml": r'^version = "(.*)"',
    "pom.xml": rf"{ARTIFACT}(.*)</version>",
    "package.json": r'^  "version": "(.*)"',
    "composer.json": r'^  "version": "(.*)"',
    "strait.opam": r'^version: "(.*)"',
    "pack.sh": FILES,
    "*.nuspec": r"<version>(.*)</version>",
    "CMakeLists.txt": r"^project\(strait VERSION (\S+)",
    "version.rb": r'VERSION = "(.*)"',
    "FS.pm": r"VERSION = '(.*)'",
    "GNUmakefile": r"^VERSION = (\S+)",
    "*.app.src": r'\{vsn, "(.*)"\}',
    "dune-project": r"^\(version (.*)\)",
    "*.cabal": r"^version:\s*(\S+)",
    "README.md": rf"(?:{FILE}|{ARTIFACT})(\d+\.\d+\.\d+)\b",
    "test.sh": FILES,
}


def main() -> int:
    """Compares them."""
    workspace = Path("Cargo.toml").read_text()
    expected = re.search(r'^version = "(.*)"', workspace, re.MULTILINE)
    assert expected, "Cargo.toml has no version"
    command = ["git", "ls-files", "clients", "tests/languages"]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wrong = 0
    for file in map(Path, files.splitlines()):
        if file.name == "LICENSE" and file.read_bytes() != Path("LICENSE").read_bytes():
            print(f"{file} isn't LICENSE: run scripts/gen.sh")
            wrong += 1
        for pattern, version in VERSIONS.items():
            if not file.match(pattern):
                continue
            found = re.findall(version, file.read_text(), re.MULTILINE)
            for other in found:
                if other != expected[1]:
                    print(f"{file} has version {other}; Cargo.toml has {expected[1]}")
                    wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
