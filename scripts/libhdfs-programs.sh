#!/usr/bin/env bash
# scripts/libhdfs-programs.sh [ROUNDS]: programs of others use our libhdfs, on a host where they find
# no JVM: pyarrow, and the tests of the Rust crate hdrs; each on a real HDFS, pyarrow also on Kadoop
# and through a gateway. Then, in each of ROUNDS (10), 64 forked children of one Python process read
# at once.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh

readonly ROUNDS=${1:-10} CHILDREN=64 PYARROW=pyarrow==26.0.1
AT=$(realpath -m "${CARGO_TARGET_DIR:-target}/libhdfs")
readonly AT
readonly PREFIX=$AT/prefix PROGRAMS=$PWD/crates/libhdfs/tests/programs

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

# pyarrow_on NAME PORT: on the store that pyarrow finds by these.
pyarrow_on() {
    local environment=(JAVA_HOME="$PREFIX/lib/libhdfs-jvm" ARROW_LIBHDFS_DIR="$PREFIX/lib")
    step env "${environment[@]}" "$AT/venv/bin/python" "$PROGRAMS/pyarrow_files.py" "$@"
    step env "${environment[@]}" "$AT/venv/bin/python" -W ignore "$PROGRAMS/forked.py" \
        "$PREFIX/lib/libhdfs.so" "$@" "$ROUNDS" "$CHILDREN"
}

# hdrs_on URI: the crate's own tests, linked with our library and the stub.
hdrs_on() {
    rm -rf "$AT/hdrs"
    cp -r "$(sources_of hdrs)" "$AT/hdrs"
    rm -f "$AT/hdrs/rust-toolchain.toml"
    printf '\n[workspace]\n' >>"$AT/hdrs/Cargo.toml"
    step env -C "$AT/hdrs" JAVA_HOME="$PREFIX/lib/libhdfs-jvm" HDFS_LIB_DIR="$PREFIX/lib" \
        LD_LIBRARY_PATH="$PREFIX/lib" CARGO_TARGET_DIR="$AT/hdrs-target" \
        HDRS_TEST=on HDRS_NAMENODE="$1" HDRS_WORKDIR=/hdrs/ cargo test --features async_file --test main
}

# sources_of PACKAGE: where cargo keeps them.
sources_of() {
    cargo metadata --locked --format-version 1 --manifest-path crates/libhdfs/reference/Cargo.toml |
        python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1]:
        print(os.path.dirname(package["manifest_path"]))' "$1"
}

# A cluster and a gateway in one process; sets `cluster` and `gateway`.
start_kadoop() {
    local log=$AT/up.log
    rm -rf "$AT/data"
    target_of strait up --data "$AT/data" --listen 127.0.0.1:0 >"$log" 2>&1 &
    server=$!
    trap 'kill "$server"; wait "$server" || true' EXIT
    eventually 60 "$server" grep -q 'safe mode has ended' "$log" || { cat "$log" >&2; exit 1; }
    gateway=strait://$(sed -n 's/.* serves on \(.*\)$/\1/p' "$log")
    cluster=$(sed -n 's|.*default = \(kadoop://[^/]*\).*|\1|p' "$log")
}

target_of() {
    local program=$1
    shift
    exec "${CARGO_TARGET_DIR:-target}/release/$program" "$@"
}

on_hdfs() {
    local place=${STRAIT_TEST_HDFS#hdfs://}
    pyarrow_on "${place%:*}" "${place##*:}"
    hdrs_on "$STRAIT_TEST_HDFS"
}

if [[ ${2:-} == on-hdfs ]]; then
    on_hdfs
    exit
fi
scripts/setup.sh test
cargo build --release --locked -p strait
scripts/install-libhdfs.sh "$PREFIX" --stub-jvm
[[ -x $AT/venv/bin/python ]] || python3 -m venv "$AT/venv"
"$AT/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$PYARROW"
cargo run --quiet --locked -p strait-testkit --bin with-hdfs -- "$0" "$ROUNDS" on-hdfs
start_kadoop
export STRAIT_KADOOP_KEY=$AT/data/kadoop.key
STRAIT_STORE=$cluster pyarrow_on default 0
STRAIT_STORE=$gateway pyarrow_on default 0
