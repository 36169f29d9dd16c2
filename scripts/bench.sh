#!/usr/bin/env bash
# scripts/bench.sh [SUITE]: measures one suite, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
cargo run --release --locked -p strait-bench -- "$@"
