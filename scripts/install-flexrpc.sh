#!/usr/bin/env bash
# scripts/install-flexrpc.sh PREFIX: builds FlexRPC's C library and frpcgen, and installs them with the
# header, a pkg-config file and a CMake package. DESTDIR=DIR puts all of it below DIR, for packagers.
# FLEXRPC_BUILT=DIR takes the library from there instead of building it.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly PREFIX=${1:?the prefix, such as /usr/local}
readonly TO=${DESTDIR:-}$PREFIX
readonly ROOM=crates/libflexrpc

built=${FLEXRPC_BUILT:-}
if [[ -z $built ]]; then
    cargo build --quiet --locked --release -p libflexrpc -p strait-frpcgen
    built=${CARGO_TARGET_DIR:-target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

install -d "$TO"/{bin,include,lib/pkgconfig,lib/cmake/flexrpc}
install -m 644 "$ROOM/include/flexrpc.h" "$TO/include"
install -m 755 "$built/libflexrpc.so" "$TO/lib/libflexrpc.so.0"
ln -sf libflexrpc.so.0 "$TO/lib/libflexrpc.so"
install -m 644 "$built/libflexrpc.a" "$TO/lib"
[[ ! -e $built/frpcgen ]] || install -m 755 "$built/frpcgen" "$TO/bin"
sed "s|@PREFIX@|$PREFIX|; s|@VERSION@|$version|" "$ROOM/packaging/flexrpc.pc.in" >"$TO/lib/pkgconfig/flexrpc.pc"
install -m 644 "$ROOM/packaging/flexrpc-config.cmake" "$TO/lib/cmake/flexrpc"
printf 'installed flexrpc %s below %s\n' "$version" "$TO"
