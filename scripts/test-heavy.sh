#!/usr/bin/env bash
# scripts/test-heavy.sh [STEP...]: the tests that take too long for every change. Without an argument, all
# steps run; `make test-heavy STEPS="mount mpi"` picks some. If a step fails, the others still run. At the end, each
# step's duration is printed.
#
# SCALE=N divides the counts of repeated faults and schedules: 10 by default, for a run in a night on two
# cores; 1 before a release; 1000 shows in two hours that each step runs. Each count can also be set by itself: CALLS,
# SEEDS, ORDERS, KILLS, POWER_LOSSES, HDFS_KILLS, MOUNT_ROUNDS, WRITER_KILLS, FORK_ROUNDS, FUZZ_S. BYTES_APART is the
# distance between the bytes at which a chain is struck: 1 with a SCALE up to 10.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tested.sh

readonly TARGET=${CARGO_TARGET_DIR:-target} SCALE=${SCALE:-10}

# The count of that name, or its default divided by the scale.
count() { # count NAME DEFAULT
    printf '%s' "${!1:-$((($2 + SCALE - 1) / SCALE))}"
}

# Tests by name, in the build of `make test`: for a package alone, cargo would build its dependencies again, with
# other features.
debug() { # debug NAME...
    tested --workspace --tests -- --nocapture "$@"
}

# In one build with optimization.
release() { # release NAME...
    tested --release -p strait-flexrpc -p strait-idl-tests -p libflexrpc -p strait-kadoop-core \
        -p strait-kadoop-server -p strait-store-hdfs --tests -- --nocapture "$@"
}

# In the workspace's build, a crate has the features that others ask of its dependencies.
each_crate_alone() {
    local manifest
    for manifest in crates/*/Cargo.toml tests/*/Cargo.toml bench/Cargo.toml; do
        cargo check --locked --quiet --manifest-path "$manifest" --all-targets
    done
}

# The C++ client without sanitizers, as users build it.
cpp_client() {
    local build=$TARGET/cpp
    cargo build --locked -p strait
    cmake -S clients/cpp -B "$build" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" -- --quiet
    STRAIT_BIN=$(realpath "$TARGET/debug/strait") ctest --no-tests=error --test-dir "$build" --output-on-failure
}

readonly MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
readonly AZURITE_VERSION=3.35.0
readonly TOOLS=$PWD/.cache/object-servers

# The contract suite on MinIO and Azurite.
stores() {
    mkdir -p "$TOOLS"
    local azurite=$TOOLS/azurite-$AZURITE_VERSION
    [[ -x $azurite/node_modules/.bin/azurite-blob ]] ||
        npm install --prefix "$azurite" --ignore-scripts --no-audit --no-fund --silent "azurite@$AZURITE_VERSION"
    STRAIT_TEST_AZURITE=$azurite/node_modules/.bin/azurite-blob \
        debug --include-ignored az_at_azurite
    [[ -x $TOOLS/minio ]] || GOBIN=$TOOLS go install "github.com/minio/minio@$MINIO_VERSION"
    STRAIT_TEST_MINIO=$TOOLS/minio \
        debug --include-ignored s3_at_minio
}

# Pages of other origins in a browser, and a minute of a thousand idle clients of HTTP.
http() {
    debug --include-ignored pages_of_other_sites
    CROWD_S=60 debug crowds::
}

# `strait run` on a Slurm cluster.
slurm() {
    debug --include-ignored run_slurm::
}

# Kills of a mount and of PLFS's writers; fio, fsx and pjdfstest on a mount.
mount() {
    cargo build --locked -p strait-testkit --bin with-hdfs
    MOUNT_ROUNDS=$(count MOUNT_ROUNDS 100) "$TARGET/debug/with-hdfs" \
        scripts/tested.sh --workspace --tests -- --nocapture keeper::programs_notice_no_kill
    PLFS_KILLS=$(count WRITER_KILLS 1000) debug kills::
    scripts/test-mount.sh
}

# Real calls under faults, a process of a chain struck at each byte of a call, and simulated schedules.
flexrpc_faults() {
    local apart=$(((SCALE + 9) / 10))
    ((apart <= 23)) || apart=23 # as in `make test`
    FLEXRPC_CALLS=$(count CALLS 1000000) release at_most_once::
    FLEXRPC_BYTES_APART=${BYTES_APART:-$apart} release acceptance::
    FLEXRPC_SIM_SEEDS=$(count SEEDS 1000000) release sim::
    FLEXRPC_C_CALLS=$(count CALLS 1000000) release c_programs::
}

# Orders of threads, of each of some twelve claims, by two ways of choosing.
thread_orders() {
    SHUTTLE_ORDERS=$(count ORDERS 50000) tested --release -p strait-orders --test orders orders -- --nocapture
}

# Kadoop's simulated schedules, kills of its processes, and losses of power.
kadoop() {
    KADOOP_SIM_SEEDS=$(count SEEDS 1000000) release cluster::a_whole
    KADOOP_KILLS=$(count KILLS 200) release killed::
    KADOOP_POWER_ROUNDS=$(count POWER_LOSSES 200) release --include-ignored power::
}

# Faults of an HDFS in mid-write. An idle writer outlives the namenode's soft limit for leases.
hdfs() {
    HDFS_KILLS=$(count HDFS_KILLS 100) HDFS_IDLE_S=75 release hdfs_write:: hdfs_journal:: hdfs_leases::
}

# Parsers of bytes from outside.
fuzzing() {
    scripts/fuzz.sh "$(count FUZZ_S 600)"
}

languages() {
    scripts/test-languages.sh
}

memcheck() {
    scripts/memcheck.sh
}

# Programs of others with our libhdfs.
libhdfs() {
    scripts/libhdfs-programs.sh "$(count FORK_ROUNDS 100)"
}

# Programs of others with our MPI-IO.
mpi() {
    scripts/test-mpi.sh
}

# All lints, with licences, advisories and the workspaces apart.
lint() {
    scripts/lint.sh
}

readonly STEPS=(lint each_crate_alone cpp_client stores http slurm mount flexrpc_faults thread_orders kadoop hdfs
    fuzzing languages memcheck libhdfs mpi)

if [[ ${1:-} == inside ]]; then
    "$2"
    exit
fi

steps=("$@")
((${#steps[@]})) || steps=("${STEPS[@]}")
for step in "${steps[@]}"; do
    [[ " ${STEPS[*]} " == *" $step "* ]] || {
        echo "no step $step; the steps are ${STEPS[*]}" >&2
        exit 2
    }
done

scripts/setup.sh build power browser go slurm

passed=() failed=()
summary() {
    printf '\nsteps that passed:\n'
    ((!${#passed[@]})) || printf '%s\n' "${passed[@]}"
    ((!${#failed[@]})) || printf 'FAILED: %s\n' "${failed[*]}"
}
trap summary EXIT

for step in "${steps[@]}"; do
    printf '\n== %s\n' "$step"
    SECONDS=0
    # A process of its own, since bash ignores failures inside a function that a condition calls.
    if "$0" inside "$step"; then
        passed+=("$(printf '%6d s  %s' "$SECONDS" "$step")")
    else
        failed+=("$step")
    fi
done
((!${#failed[@]}))
