#!/usr/bin/env bash
# scripts/test.sh [CRATE]: the Rust tests of one room, or every test: Rust with a real HDFS
# beside it, the clients in Python, Java, C++, Node and Go, the 2009 programs (they run under
# cargo test), the README's tour.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CPP_BUILD=${CARGO_TARGET_DIR:-target}/cpp-sanitized

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

# together STEP OTHER: runs two steps of this script at once, each to its end. Prints what the other one
# printed when both have ended.
together() {
    local output other failed=0
    output=$(mktemp)
    setsid "$0" inside "$2" >"$output" 2>&1 &
    other=$!
    # Both names are gone when the trap runs.
    # shellcheck disable=SC2064
    # A session, since `timeout` has a process group of its own.
    trap "kill \$(ps -o pid= --sid $other) 2>/dev/null || true; rm -f $output" EXIT
    "$0" inside "$1" || failed=1
    wait "$other" || failed=1
    cat "$output"
    rm "$output"
    trap - EXIT
    ((failed == 0)) || exit 1
}

# The steps beside HDFS. Tests wait more than they compute, so builds fit beside them.
every_step() {
    together rust cpp_build
    together python jvm
    together cpp node_and_go
    timed GlusterFS glusterfs
}

rust() {
    timed "Rust: run" rust_tests
    timed "Rust: examples" cargo test --locked --workspace --doc
}

python() {
    timed Python .venv/bin/python -m pytest --durations=10 clients/python
    timed "An own service" .venv/bin/python -m pytest examples/tradehistory
}

jvm() {
    # Installed, so that the file system for Hadoop finds it.
    timed Java mvn -q -B -f clients/java/pom.xml install
    timed Hadoop hadoop_client
}

# Side by side: the tests mostly wait.
cpp() { timed C++ ctest --no-tests=error --test-dir "$CPP_BUILD" --verbose --parallel "$(nproc)"; }

node_and_go() {
    timed Node node_client
    timed Go go_client
}

# The workspace's tests, without the unit tests if `make check` has just run them (.ci/run).
rust_tests() {
    local which=(--test '*')
    [[ -n ${UNIT_TESTS_RAN:-} ]] || which+=(--lib --bins)
    python3 scripts/rust_tests.py --workspace "${which[@]}"
}

# On GlusterFS volumes: the plugin for libgfapi, and `file:` on mounts of them.
glusterfs() {
    if ((EUID != 0)); then
        echo "SKIPPED: GlusterFS needs root's rights"
        [[ ${CI:-} != true ]]
        return
    fi
    scripts/with-gluster.sh scripts/tested.sh --workspace --tests -- --include-ignored plugins::glusterfs \
        contract::file_store_keeps_the_contract_on_a_network contract::a_file_of_a_network network::
}

# The needs of the step for C++. With sanitizers: `make test-heavy` builds it as users do. Without optimization it
# compiles in half the time, and the tests mostly wait. At the lowest priority, since the tests beside
# it have time limits.
cpp_build() {
    renice -n 19 $$ >/dev/null
    # Linux may divide the processors among sessions first, and this is one. Containers may not allow it.
    { echo 19 >/proc/$$/autogroup; } 2>/dev/null || true
    timed "C++: build" cpp_build_now
}

cpp_build_now() {
    cmake -S clients/cpp -B "$CPP_BUILD" -DSTRAIT_SANITIZE=address,undefined \
        -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O0 -g1" >/dev/null
    cmake --build "$CPP_BUILD" --parallel "$(nproc)" -- --quiet
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
    rm -rf clients/java/hadoop/target/surefire-reports
    mvn -q -B -f clients/java/hadoop/pom.xml install
    cat clients/java/hadoop/target/surefire-reports/*.txt | tr -d , | awk '
        /^Tests run:/ { ran += $3; failed += $5 + $7; skipped += $9 }
        END { printf "Hadoop: %d passed, %d failed, %d skipped\n", ran - failed - skipped, failed, skipped }'
}

# node_client: its build and its tests; in place of the cases that passed, their number.
node_client() {
    npm --prefix clients/node test --silent | awk '
        /^# (conformance|FAULTS)/ { print }
        /^ *not ok/ { print; shown = 30 }
        shown-- > 0 { print }
        /^# pass / { passed = $3 }
        /^# fail / { failed = $3 }
        /^# skipped / { skipped = $3 }
        END { printf "Node: %d passed, %d failed, %d skipped\n", passed, failed, skipped }'
}

# The ten largest of the lines that begin with a number. It reads all of them: `head` would
# end `sort` by a signal, which would take the place of the exit code.
largest() {
    sort -rn | awk 'NR <= 10'
}

# The output of each failed test of Rust, shortened, and pytest's line of each. The whole output is long, and
# may be cut where others read it.
failures() {
    awk '
        /^---- .* stdout ----$/ { shown = 40 }
        /^failures:$/ { shown = 0 }
        shown-- > 0 || /^FAILED / { print }' "$log"
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

# Named, so that its absence fails and doesn't skip. It is the one that the tests run: another build
# would compile the dependencies again, with fewer features.
STRAIT_BIN=$PWD/${CARGO_TARGET_DIR:-target}/debug/strait
[[ -z ${CARGO_TARGET_DIR:-} ]] || STRAIT_BIN=$CARGO_TARGET_DIR/debug/strait
export STRAIT_BIN

if [[ ${1:-} == inside ]]; then
    "$2"
    exit
fi
scripts/setup.sh test gluster
log=$(mktemp)
trap 'summary; failures; rm -f "$log"' EXIT
if [[ -n ${1:-} ]]; then
    step "the tests of $1" python3 scripts/rust_tests.py --manifest-path "crates/$1/Cargo.toml"
    [[ ! -e crates/$1/src/lib.rs ]] ||
        step "the examples of $1" cargo test --locked --manifest-path "crates/$1/Cargo.toml" --doc
    exit
fi
# Before HDFS runs, whose processes would slow it down.
step "Rust: build" cargo test --workspace --locked --no-run
step "with a real HDFS" with_hdfs "$0" inside every_step
step "README's table of languages" python3 scripts/languages_table.py stores "$log" README.md Python Java C++ Go Node Rust C
step "the tour" .venv/bin/python scripts/tour.py
