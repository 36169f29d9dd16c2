#!/usr/bin/env bash
# The fast gate, before every commit: lints, and the unit tests, which need no hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/lint.sh quick
cargo test --workspace --locked --quiet --lib --bins
