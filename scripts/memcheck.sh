#!/usr/bin/env bash
# Runs what is `unsafe` under valgrind. There is none in crates/flexrpc, frpcgen and
# xdr, which forbid it; in the test kit there are a few blocks, each with its reason
# beside it: two closures between fork and exec, forked children, and a thread that
# moves to another network.
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
    cargo test --quiet --locked -p strait-testkit --lib --test network --no-run --message-format=json |
        grep '"profile":{[^}]*"test":true}' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Without those that measure a link: valgrind makes everything slow.
programs | while read -r program; do
    valgrind --quiet --error-exitcode=9 --leak-check=no "$program" --skip link --skip share </dev/null
done

# C programs on FlexRPC's library, whose callers also look for leaks.
FLEXRPC_VALGRIND=1 FLEXRPC_C_CALLS=300 cargo test --quiet --locked -p libflexrpc --test c
# Damaged messages under the address and undefined-behaviour sanitizers.
WIRE_DAMAGES=2000 WIRE_VALUES=3000 cargo test --quiet --locked -p libflexrpc --test generated -- damaged random
