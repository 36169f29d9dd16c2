#!/usr/bin/env bash
# Formats every language in place.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh lint
cargo fmt --all
cargo fmt --all --manifest-path fuzz/Cargo.toml
.venv/bin/ruff format clients/python scripts
.venv/bin/ruff check --fix clients/python scripts
git ls-files 'clients/cpp/*.[ch]pp' | xargs clang-format -i
