#!/usr/bin/env bash
# scripts/bench.sh [SUITE]: measures one suite, or all.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ! -f bench/Cargo.toml ]]; then
    echo "bench: there is no suite yet" >&2
    exit 1
fi
scripts/setup.sh bench
cargo run --release --locked -p strait-bench -- "$@"
