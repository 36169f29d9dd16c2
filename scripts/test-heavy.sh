#!/usr/bin/env bash
# The tests that take too long for every change, two hours and more on four cores: each crate built alone;
# the C++ client as users build it; FlexRPC's million real calls under faults, a process of a chain struck
# at each byte of a call, its million simulated schedules, and a million thread orders; Kadoop's million
# schedules, 200 times that one of its processes is killed, and 200 that one or all of its servers lose
# power; 100 faults of an HDFS in mid-write; `strait run` on a Slurm cluster; pages in a browser, and a
# minute of a thousand idle clients of HTTP; `make test-languages`, `make memcheck`, and programs of
# others with our libhdfs and MPI-IO. CALLS=N, SEEDS=N, ORDERS=N, KILLS=N, POWER_LOSSES=N, HDFS_KILLS=N,
# MOUNT_ROUNDS=N, WRITER_KILLS=N and FORK_ROUNDS=N change how many.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build power browser go gluster slurm

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

flexrpc() {
    cargo test --locked --release -p strait-flexrpc "$@" -- --nocapture
}

# In the workspace's build, a crate has the features that others ask of its dependencies.
each_crate_alone() {
    local manifest
    for manifest in crates/*/Cargo.toml tests/*/Cargo.toml bench/Cargo.toml; do
        cargo check --locked --quiet --manifest-path "$manifest" --all-targets
    done
}

readonly MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
readonly AZURITE_VERSION=3.35.0
readonly TOOLS=$PWD/.cache/object-servers

# The contract suite on MinIO, Azurite and GlusterFS.
foreign_stores() {
    mkdir -p "$TOOLS"
    local azurite=$TOOLS/azurite-$AZURITE_VERSION
    [[ -x $azurite/node_modules/.bin/azurite-blob ]] ||
        npm install --prefix "$azurite" --ignore-scripts --no-audit --no-fund --silent "azurite@$AZURITE_VERSION"
    STRAIT_TEST_AZURITE=$azurite/node_modules/.bin/azurite-blob \
        cargo test --locked -p strait-store-object --test contract -- --include-ignored --nocapture az_at_azurite
    [[ -x $TOOLS/minio ]] || GOBIN=$TOOLS go install "github.com/minio/minio@$MINIO_VERSION"
    STRAIT_TEST_MINIO=$TOOLS/minio \
        cargo test --locked -p strait-store-object --test contract -- --include-ignored --nocapture s3_at_minio
    scripts/with-gluster.sh cargo test --locked -p strait --test plugins -- --include-ignored --nocapture glusterfs
    scripts/with-gluster.sh cargo test --locked -p strait-store --test contract -- --include-ignored --nocapture network
}

# The C++ client without sanitizers, as users build it.
cpp_client() {
    local build=${CARGO_TARGET_DIR:-target}/cpp
    cargo build --locked -p strait
    cmake -S clients/cpp -B "$build" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" -- --quiet
    STRAIT_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/strait") ctest --test-dir "$build" --output-on-failure
}

step each_crate_alone
step cpp_client
step foreign_stores
step cargo test --locked -p strait --test rest -- --nocapture --include-ignored pages_of_other_sites
step cargo test --locked -p strait --test run_slurm -- --nocapture --include-ignored
CROWD_S=60 step cargo test --locked -p strait --test crowds -- --nocapture
cargo build --locked -p strait-testkit --bin with-hdfs
MOUNT_ROUNDS=${MOUNT_ROUNDS:-100} step "${CARGO_TARGET_DIR:-target}/debug/with-hdfs" \
    cargo test --locked -p strait --test keeper -- --nocapture no_kill
PLFS_KILLS=${WRITER_KILLS:-1000} step cargo test --locked -p strait-plfs --test kills
FLEXRPC_CALLS=${CALLS:-1000000} step flexrpc --test at_most_once
FLEXRPC_BYTES_APART=1 \
    step cargo test --locked --release -p strait-idl-tests --test acceptance -- --nocapture
FLEXRPC_SIM_SEEDS=${SEEDS:-1000000} step flexrpc --lib sim
KADOOP_SIM_SEEDS=${SEEDS:-1000000} \
    step cargo test --locked --release -p strait-kadoop-core --test simulation cluster::a_whole
KADOOP_KILLS=${KILLS:-200} \
    step cargo test --locked --release -p strait-kadoop-server --test service killed -- --nocapture
KADOOP_POWER_ROUNDS=${POWER_LOSSES:-200} \
    step cargo test --locked --release -p strait-kadoop-server --test service power -- \
    --nocapture --include-ignored
# An idle writer outlives the namenode's soft limit for leases.
HDFS_KILLS=${HDFS_KILLS:-100} HDFS_IDLE_S=75 \
    step cargo test --locked --release -p strait-store-hdfs --test hdfs_write --test hdfs_journal \
    --test hdfs_leases -- --nocapture
# Of each of some twelve claims, by two ways of choosing.
export SHUTTLE_ORDERS=${ORDERS:-50000}
RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/shuttle \
    step flexrpc --lib orders
step scripts/test-mount.sh
FLEXRPC_C_CALLS=${CALLS:-1000000} step cargo test --locked --release -p libflexrpc --test c
step scripts/test-languages.sh
step scripts/memcheck.sh
step scripts/libhdfs-programs.sh "${FORK_ROUNDS:-100}"
step scripts/test-mpi.sh
