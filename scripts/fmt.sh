#!/usr/bin/env bash
# Formats every language in place.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh lint
cargo fmt --all
cargo fmt --all --manifest-path fuzz/Cargo.toml
cargo fmt --all --manifest-path bench/peers/Cargo.toml
cargo fmt --all --manifest-path bench/rpc/Cargo.toml
.venv/bin/ruff format clients/python scripts bench crates/libhdfs crates/strait
.venv/bin/ruff check --fix clients/python scripts bench crates/libhdfs crates/strait
gofmt -w clients/go
git ls-files 'clients/cpp/*.[ch]pp' 'bench/*.[ch]pp' | xargs clang-format --style=file:clients/cpp/.clang-format -i
