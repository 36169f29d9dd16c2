#!/usr/bin/env bash
# The fast gate, before every commit: lints, and the unit tests, which need no hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/lint.sh quick
python3 scripts/rust_tests.py --quiet --workspace --lib --bins
