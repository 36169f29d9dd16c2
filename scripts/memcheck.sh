#!/usr/bin/env bash
# Runs under valgrind what is `unsafe` in the test kit, in crates/fork, in the store's
# values for each process and in libflexrpc; each block has its reason beside it. There is none in crates/flexrpc, frpcgen and xdr,
# which forbid it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh memcheck

for crate in flexrpc frpcgen xdr; do
    grep -q '^#!\[forbid(unsafe_code)\]' "crates/$crate/src/lib.rs" || {
        printf 'memcheck: crates/%s does not forbid unsafe code\n' "$crate" >&2
        exit 1
    }
done

# The test programs that cargo builds, one a line.
programs() {
    cargo test --quiet --locked --no-run --message-format=json "$@" |
        grep '"profile":{[^}]*"test":true}' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# FILTER... of the test programs' tests.
checked() {
    local program
    while read -r program; do
        valgrind --quiet --error-exitcode=9 --leak-check=no "$program" "$@" </dev/null
    done
}

# Without those that measure a link, since valgrind makes everything slow.
programs -p strait-fork -p strait-testkit --lib --test network --test generations |
    checked --skip link --skip share
programs -p strait-store --lib | checked process::

# C programs on FlexRPC's library, whose callers also look for leaks.
FLEXRPC_VALGRIND=1 FLEXRPC_C_CALLS=300 cargo test --quiet --locked -p libflexrpc --test suite c_programs::
# Damaged messages under the address and undefined-behaviour sanitizers.
WIRE_DAMAGES=2000 WIRE_VALUES=3000 cargo test --quiet --locked -p libflexrpc --test suite -- damaged random
