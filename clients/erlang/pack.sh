#!/usr/bin/env bash
# pack.sh DIRECTORY: packs the application's sources into the directory.
set -euo pipefail
target=$(realpath -m "$1")
cd "$(dirname "$0")"
mkdir -p "$target"
tar --transform 's,^,strait-0.1.0/,' -czf "$target/strait-0.1.0.tar.gz" src rebar.config README.md -C ../.. LICENSE
