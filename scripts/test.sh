#!/usr/bin/env bash
# scripts/test.sh [CRATE]: the Rust tests of one room, or every test: Rust with a real HDFS
# beside it, the clients of every language, the 2009 programs (they run under cargo test),
# the README's tour, a short fuzz run.
set -euo pipefail
cd "$(dirname "$0")/.."

# Seconds a fuzz target: enough to run the seeds and notice a target that rots.
readonly FUZZ_SECONDS=20

# More than trying thread orders takes, building included: a lost wake-up can spin.
readonly ORDERS_SECONDS=600

# timed NAME COMMAND...: says afterwards how long it took.
timed() {
    local name=$1 begin=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@"
    printf 'step %s: %d s\n' "$name" $((SECONDS - begin))
}

step() {
    timed "$@" 2>&1 | tee -a "$log"
}

# with_hdfs COMMAND...: with one real HDFS running, named to the tests by the
# environment (STRAIT_TEST_HDFS and others). The program comes from the tests' build: a build of
# its own would give the dependencies other features, and compile them again.
with_hdfs() {
    "${CARGO_TARGET_DIR:-target}/debug/with-hdfs" "$@"
}

# rust_tests PACKAGES...: each test reports its time.
rust_tests() {
    cargo --config "target.'cfg(unix)'.runner = '$PWD/scripts/timed.sh'" \
        test --locked --no-fail-fast "$@"
}

# every_rust_test: without the unit tests if `make check` has just run them (.ci/run).
every_rust_test() {
    if [[ -n ${UNIT_TESTS_RAN:-} ]]; then
        rust_tests --workspace --test '*' && rust_tests --workspace --doc
    else
        rust_tests --workspace
    fi
}

every_language() {
    timed "Rust: run" every_rust_test
    # Named, so that its absence fails and doesn't skip.
    STRAIT_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/strait")
    export STRAIT_BIN
    timed Python .venv/bin/python -m pytest --durations=10 clients/python
    timed "An own service" .venv/bin/python -m pytest examples/tradehistory
    # Installed, so that the file system for Hadoop finds it.
    timed Java mvn -q -B -f clients/java/pom.xml install
    timed Hadoop hadoop_client
    timed Node node_client
    timed C++ cpp_client
    timed Go go_client
    (unset STRAIT_TEST_HDFS && timed "C++ with sanitizers" cpp_client address,undefined)
}

# cpp_client [SANITIZERS]: builds it with these, and runs its tests.
cpp_client() {
    local build=${CARGO_TARGET_DIR:-target}/cpp${1:+-sanitized}
    cmake -S clients/cpp -B "$build" -DSTRAIT_SANITIZE="${1:-}" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" -- --quiet
    # Side by side: the client's tests mostly wait, and others compile.
    ctest --test-dir "$build" --verbose --parallel "$(nproc)"
}

# go_client: its lint and its tests. In place of the thousand cases that passed, their number.
go_client() {
    scripts/lint.sh go
    # Uncached: a new gateway is no change that Go would notice.
    go -C clients/go test -count=1 -v ./... | awk '
        /^=== / { next }
        /^ *--- PASS/ { passed++; next }
        /^ *--- FAIL/ { failed++ }
        /^ *--- SKIP/ { skipped++ }
        { print }
        END { printf "Go: %d passed, %d failed, %d skipped\n", passed, failed, skipped }'
}

# hadoop_client: Hadoop's own tests of the file system for it.
hadoop_client() {
    mvn -q -B -f clients/java/hadoop/pom.xml install
    cat clients/java/hadoop/target/surefire-reports/*.txt | tr -d , | awk '
        /^Tests run:/ { ran += $3; failed += $5 + $7; skipped += $9 }
        END { printf "Hadoop: %d passed, %d failed, %d skipped\n", ran - failed - skipped, failed, skipped }'
}

# node_client: its build and its tests; in place of the cases that passed, their number.
node_client() {
    npm --prefix clients/node test --silent | awk '
        /^# conformance/ { print }
        /^ *not ok/ { print; shown = 30 }
        shown-- > 0 { print }
        /^# pass / { passed = $3 }
        /^# fail / { failed = $3 }
        /^# skipped / { skipped = $3 }
        END { printf "Node: %d passed, %d failed, %d skipped\n", passed, failed, skipped }'
}

# Hand-overs between threads, in thousands of orders of who runs when.
thread_orders() {
    RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/shuttle \
        timeout "$ORDERS_SECONDS" cargo test --locked -p strait-flexrpc --lib orders
}

# The ten largest of the lines that begin with a number. It reads all of them: `head` would
# end `sort` by a signal, which would take the place of the exit code.
largest() {
    sort -rn | awk 'NR <= 10'
}

# Sums up the tests in all languages, and the slowest; the exit code has decided already.
summary() {
    printf '\nThe slowest steps:\n'
    sed -n 's/^step \(.*\): \([0-9]*\) s$/\2 s \1/p' "$log" | largest
    printf '\nThe slowest Rust tests:\n'
    sed -n 's/^test \(.*\) \.\.\. .* <\([0-9.]*\)s>$/\2 s \1/p' "$log" | largest
    awk '
        / passed[;,]| passed in | test cases: / {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed += $(i - 1)
                if ($i ~ /^failed/) failed += $(i - 1)
                if ($i ~ /^(ignored|skipped)/) skipped += $(i - 1)
            }
        }
        END { printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
}

if [[ ${1:-} == inside ]]; then
    every_language
    exit
fi
scripts/setup.sh test
log=$(mktemp)
trap 'summary; rm -f "$log"' EXIT
if [[ -n ${1:-} ]]; then
    step "the tests of $1" rust_tests --manifest-path "crates/$1/Cargo.toml"
    exit
fi
# Before HDFS runs, whose processes would slow it down.
step "Rust: build" cargo test --workspace --locked --no-run
step "with a real HDFS" with_hdfs "$0" inside
step "thread orders" thread_orders
# The one that the tests ran: another build would compile the dependencies again, with fewer features.
STRAIT_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/strait") step "the tour" .venv/bin/python scripts/tour.py
FUZZ_SEED=1 step fuzzing scripts/fuzz.sh "$FUZZ_SECONDS"
