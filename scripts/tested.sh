#!/usr/bin/env bash
# scripts/tested.sh ARGUMENTS-OF-CARGO-TEST...; scripts that pick tests by name also source it, for `tested`.

# tested ARGUMENTS-OF-CARGO-TEST...: fails if no test ran, since a filter may name a test that was renamed.
tested() {
    local log code=0
    log=$(mktemp)
    cargo test --locked "$@" 2>&1 | tee "$log" || code=$?
    if ((code == 0)) && ! grep -qE '^test result: ok\. [1-9]' "$log"; then
        echo "no test has such a name: cargo test $*" >&2
        code=1
    fi
    rm "$log"
    return "$code"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    tested "$@"
fi
