#!/usr/bin/env bash
# Every test: Rust with a real HDFS beside it, the clients of every language, the
# 2009 programs (they run under cargo test), the README's tour, a short fuzz run.
set -euo pipefail
cd "$(dirname "$0")/.."

# Seconds a fuzz target: enough to run the seeds and notice a target that rots.
readonly FUZZ_SECONDS=20

# More than trying thread orders takes, building included: a lost wake-up can spin.
readonly ORDERS_SECONDS=600

step() {
    printf '\n== %s\n' "$*"
    "$@" 2>&1 | tee -a "$log"
}

# with_hdfs COMMAND...: with one real HDFS running, named to the tests by the
# environment (STRAIT_TEST_HDFS and others).
with_hdfs() {
    cargo run --quiet --locked -p strait-testkit --bin with-hdfs -- "$@"
}

every_language() {
    cargo test --workspace --locked --no-fail-fast
    # Named, so that its absence fails and doesn't skip.
    STRAIT_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/strait")
    export STRAIT_BIN
    .venv/bin/python -m pytest clients/python
    mvn -q -B -f clients/java/pom.xml verify
    cpp_client
    (unset STRAIT_TEST_HDFS && cpp_client address,undefined)
}

# cpp_client [SANITIZERS]: builds it with these, and runs its tests.
cpp_client() {
    local build=${CARGO_TARGET_DIR:-target}/cpp${1:+-sanitized}
    cmake -S clients/cpp -B "$build" -DSTRAIT_SANITIZE="${1:-}" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" -- --quiet
    ctest --test-dir "$build" --verbose
}

# Hand-overs between threads, in thousands of orders of who runs when.
thread_orders() {
    RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/shuttle \
        timeout "$ORDERS_SECONDS" cargo test --locked -p strait-flexrpc --lib sync::orders
}

# Sums up what cargo, pytest and the tests in Java and C++ said; the exit code has decided already.
summary() {
    awk '
        / passed[;,]| passed in | test cases: / {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed += $(i - 1)
                if ($i ~ /^failed/) failed += $(i - 1)
                if ($i ~ /^(ignored|skipped)/) skipped += $(i - 1)
            }
        }
        END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
}

scripts/setup.sh test
if [[ ${1:-} == inside ]]; then
    every_language
    exit
fi
log=$(mktemp)
trap 'summary; rm -f "$log"' EXIT
step with_hdfs "$0" inside
step thread_orders
step .venv/bin/python scripts/tour.py
step scripts/fuzz.sh "$FUZZ_SECONDS"
