#!/usr/bin/env bash
# scripts/test-heavy.sh [STEP...]: the tests that take too long for every change. Without an argument, all
# steps run; `make test-heavy STEPS="mount mpi"` picks some. At the end, each step's duration is printed.
#
# SCALE=N divides the counts of repeated faults and schedules: 10 by default, for a run in a night on two
# cores; 1 before a release. Each count can also be set by itself: CALLS, SEEDS, ORDERS, KILLS,
# POWER_LOSSES, HDFS_KILLS, MOUNT_ROUNDS, WRITER_KILLS, FORK_ROUNDS.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tested.sh

readonly TARGET=${CARGO_TARGET_DIR:-target} SCALE=${SCALE:-10}

# The count of that name, or its default divided by the scale.
count() { # count NAME DEFAULT
    printf '%s' "${!1:-$((($2 + SCALE - 1) / SCALE))}"
}

flexrpc() {
    tested --release -p strait-flexrpc "$@" -- --nocapture
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

# The contract suite on MinIO, Azurite and GlusterFS.
stores() {
    mkdir -p "$TOOLS"
    local azurite=$TOOLS/azurite-$AZURITE_VERSION
    [[ -x $azurite/node_modules/.bin/azurite-blob ]] ||
        npm install --prefix "$azurite" --ignore-scripts --no-audit --no-fund --silent "azurite@$AZURITE_VERSION"
    STRAIT_TEST_AZURITE=$azurite/node_modules/.bin/azurite-blob \
        tested -p strait-store-object --test contract -- --include-ignored --nocapture az_at_azurite
    [[ -x $TOOLS/minio ]] || GOBIN=$TOOLS go install "github.com/minio/minio@$MINIO_VERSION"
    STRAIT_TEST_MINIO=$TOOLS/minio \
        tested -p strait-store-object --test contract -- --include-ignored --nocapture s3_at_minio
    scripts/with-gluster.sh scripts/tested.sh -p strait --test plugins -- --include-ignored --nocapture glusterfs
    scripts/with-gluster.sh scripts/tested.sh -p strait-store --test contract -- --include-ignored --nocapture network
}

# Pages of other origins in a browser, and a minute of a thousand idle clients of HTTP.
http() {
    tested -p strait --test rest -- --nocapture --include-ignored pages_of_other_sites
    CROWD_S=60 tested -p strait --test crowds -- --nocapture
}

# `strait run` on a Slurm cluster.
slurm() {
    tested -p strait --test run_slurm -- --nocapture --include-ignored
}

# Kills of a mount and of PLFS's writers; fio, fsx and pjdfstest on a mount.
mount() {
    cargo build --locked -p strait-testkit --bin with-hdfs
    MOUNT_ROUNDS=$(count MOUNT_ROUNDS 100) "$TARGET/debug/with-hdfs" \
        scripts/tested.sh -p strait --test keeper -- --nocapture no_kill
    PLFS_KILLS=$(count WRITER_KILLS 1000) tested -p strait-plfs --test kills
    scripts/test-mount.sh
}

# Real calls under faults, a process of a chain struck at each byte of a call, and simulated schedules.
flexrpc_faults() {
    FLEXRPC_CALLS=$(count CALLS 1000000) flexrpc --test at_most_once
    FLEXRPC_BYTES_APART=1 tested --release -p strait-idl-tests --test acceptance -- --nocapture
    FLEXRPC_SIM_SEEDS=$(count SEEDS 1000000) flexrpc --lib sim
    FLEXRPC_C_CALLS=$(count CALLS 1000000) tested --release -p libflexrpc --test c
}

# Orders of threads, of each of some twelve claims, by two ways of choosing.
thread_orders() {
    SHUTTLE_ORDERS=$(count ORDERS 50000) RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle" \
        CARGO_TARGET_DIR=$TARGET/shuttle flexrpc --lib orders
}

# Kadoop's simulated schedules, kills of its processes, and losses of power.
kadoop() {
    KADOOP_SIM_SEEDS=$(count SEEDS 1000000) \
        tested --release -p strait-kadoop-core --test simulation cluster::a_whole
    KADOOP_KILLS=$(count KILLS 200) \
        tested --release -p strait-kadoop-server --test service killed -- --nocapture
    KADOOP_POWER_ROUNDS=$(count POWER_LOSSES 200) \
        tested --release -p strait-kadoop-server --test service power -- --nocapture --include-ignored
}

# Faults of an HDFS in mid-write. An idle writer outlives the namenode's soft limit for leases.
hdfs() {
    HDFS_KILLS=$(count HDFS_KILLS 100) HDFS_IDLE_S=75 \
        tested --release -p strait-store-hdfs --test hdfs_write --test hdfs_journal \
        --test hdfs_leases -- --nocapture
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
    languages memcheck libhdfs mpi)

steps=("$@")
((${#steps[@]})) || steps=("${STEPS[@]}")
for step in "${steps[@]}"; do
    [[ " ${STEPS[*]} " == *" $step "* ]] || {
        echo "no step $step; the steps are ${STEPS[*]}" >&2
        exit 2
    }
done

scripts/setup.sh build power browser go gluster slurm

durations=()
summary() {
    printf '\nsteps that passed:\n'
    ((!${#durations[@]})) || printf '%s\n' "${durations[@]}"
}
trap summary EXIT

for step in "${steps[@]}"; do
    printf '\n== %s\n' "$step"
    SECONDS=0
    "$step"
    durations+=("$(printf '%6d s  %s' "$SECONDS" "$step")")
done
