#!/usr/bin/env bash
# scripts/lint.sh [quick|go|ruff]: formatting, lints, licences and advisories; the first finding ends the
# run. `quick` leaves out the workspaces beside the main one, C++, Go, licences and advisories; `go`
# leaves out all but Go, and `ruff` all but Python's formatting and lints.
set -euo pipefail
cd "$(dirname "$0")/.."

# A crate's new dependency is wanted in the lock file of each workspace that uses it.
lock_files() {
    local lock locks
    locks=$(git ls-files '*Cargo.lock')
    for lock in $locks; do
        cargo update --workspace --locked --quiet --manifest-path "${lock%.lock}.toml"
    done
}

rust() {
    lock_files
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --locked --no-deps --quiet
    python3 scripts/circles.py
    python3 scripts/sleeps.py
    python3 scripts/versions.py
}

. scripts/python_directories.sh

shell() {
    git ls-files '*.sh' .ci/run | xargs shellcheck -x --severity=warning
}

ruff() {
    .venv/bin/ruff check "${PYTHON[@]}"
    .venv/bin/ruff format --check "${PYTHON[@]}"
}

python() {
    ruff
    (cd clients/python && ../../.venv/bin/mypy . ../../scripts)
}

# Workspaces of their own.
workspaces_beside() {
    # Of the peers clippy would want a JVM and libhdfs.
    cargo fmt --manifest-path bench/peers/Cargo.toml --all --check
    cargo fmt --manifest-path bench/rpc/Cargo.toml --all --check
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/bench/rpc \
        cargo clippy --manifest-path bench/rpc/Cargo.toml --all-targets -- -D warnings
    # Its target directory is that of scripts/fuzz.sh.
    cargo fmt --manifest-path fuzz/Cargo.toml --all --check
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/fuzz \
        cargo clippy --manifest-path fuzz/Cargo.toml --workspace --bins --locked -- -D warnings
}

dependencies() {
    cargo deny --locked check --hide-inclusion-graph bans licenses sources
    # Advisories come from a database on the network; without it the rest still counts.
    if cargo deny fetch db; then
        cargo deny --locked check advisories
    else
        echo "lint: SKIPPED the security advisories: their database can't be reached" >&2
        [[ ${CI:-} != true ]] # CI may skip nothing
    fi
}

cpp() {
    git ls-files 'clients/cpp/*.[ch]pp' 'bench/*.[ch]pp' |
        xargs clang-format --style=file:clients/cpp/.clang-format --dry-run --Werror
}

go_client() {
    local unformatted
    unformatted=$(gofmt -l clients/go)
    [[ -z $unformatted ]] || { printf 'lint: gofmt -w these files:\n%s\n' "$unformatted" >&2; return 1; }
    go -C clients/go vet ./...
}

if [[ ${1:-} == go ]]; then
    scripts/setup.sh go
    go_client
    exit
fi
if [[ ${1:-} == ruff ]]; then
    ruff
    exit
fi
if [[ ${1:-} == quick ]]; then
    scripts/setup.sh check
    shell
    rust
    python
    exit
fi
scripts/setup.sh lint
shell
rust
workspaces_beside
dependencies
python
cpp
go_client
