#!/usr/bin/env bash
# scripts/histories.sh STORE [SECONDS [SEED]]: records a history under faults, and checks it. Needs Go.
set -euo pipefail
cd "$(dirname "$0")/.."
store=${1:-kadoop} seconds=${2:-120} seed=${3:-1}
scripts/setup.sh histories
case $store in
    kadoop) lag=2s ;; # docs/semantics.md, "Readers of a file that is being written"
    hdfs) lag=0s ;;
    *) echo "histories: no store $store; there are kadoop and hdfs" >&2; exit 2 ;;
esac
cargo build --release --locked -p strait
cargo build --release --locked -p strait-histories
target=${CARGO_TARGET_DIR:-target}
history=$(realpath -m "$target/histories/$store.jsonl")
mkdir -p "$(dirname "$history")"
"$target/release/strait-histories" "$target/release/strait" "$store" "$seconds" "$seed" "$history"
cd tests/histories/check
go test .
go run . -lag "$lag" "$history"
