#!/usr/bin/env bash
# scripts/bench.sh [SUITE]: measures one suite, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
# First, or suites would measure the command as it was built last, if it was.
cargo build --release --locked -p strait
cargo run --release --locked -p strait-bench -- "$@"
