#!/usr/bin/env bash
# Rewrites the committed code that Thrift's compiler makes from idl/dfs.thrift.
# (The messages in Rust and Go are written by hand; crates/wire/tests/schema.rs and
# clients/go/internal/wire/wire_test.go hold them against the IDL. The C++ client's build makes its own, from a copy of the IDL: its directory
# builds without the repository.)
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test
.venv/bin/python clients/python/generate.py
clients/java/generate.sh
node clients/node/generate.mjs
cp idl/dfs.thrift clients/cpp/idl/dfs.thrift
# Packages that are built from their directories alone.
git ls-files 'clients/*/LICENSE' | xargs -n 1 cp LICENSE
