#!/usr/bin/env bash
# Formats Rust, Python, Go and C++ in place.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh lint
cargo fmt --all
cargo fmt --all --manifest-path fuzz/Cargo.toml
cargo fmt --all --manifest-path bench/peers/Cargo.toml
cargo fmt --all --manifest-path bench/rpc/Cargo.toml
. scripts/python_directories.sh
.venv/bin/ruff format "${PYTHON[@]}"
.venv/bin/ruff check --fix "${PYTHON[@]}"
gofmt -w clients/go
git ls-files 'clients/cpp/*.[ch]pp' 'bench/*.[ch]pp' | xargs clang-format --style=file:clients/cpp/.clang-format -i
