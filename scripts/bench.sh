#!/usr/bin/env bash
# scripts/bench.sh [SUITE]: measures one suite, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
# Both at once: suites measure the command as it was built last, and cargo would build the
# dependencies of each twice, with other features.
cargo build --release --locked -p strait -p strait-bench
exec "${CARGO_TARGET_DIR:-target}/release/strait-bench" "$@"
