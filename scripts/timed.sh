#!/usr/bin/env bash
# Cargo's runner under `make test`: each test reports its time. The standard harness takes this
# option only under this variable, which would rebuild everything if cargo saw it.
case $1 in
*/deps/*) exec env RUSTC_BOOTSTRAP=1 "$@" -Zunstable-options --report-time ;;
*) exec "$@" ;;
esac
