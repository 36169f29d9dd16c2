#!/usr/bin/env bash
# scripts/bench.sh [SUITE]: measures one suite, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
# All at once: suites measure the command and libstrait as they were built last, and cargo would build the
# dependencies of each again, with other features.
cargo build --release --locked -p strait -p strait-bench -p libstrait
exec "${CARGO_TARGET_DIR:-target}/release/strait-bench" "$@"
