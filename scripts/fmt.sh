#!/usr/bin/env bash
# Formats every language in place.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh lint
cargo fmt --all
cargo fmt --all --manifest-path fuzz/Cargo.toml
if [[ -f clients/python/pyproject.toml ]]; then
    cd clients/python
    ../../.venv/bin/ruff format .
    ../../.venv/bin/ruff check --fix .
fi
