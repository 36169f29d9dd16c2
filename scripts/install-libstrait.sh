#!/usr/bin/env bash
# scripts/install-libstrait.sh PREFIX: builds Strait's C library, and installs it with its header, a
# pkg-config file and a CMake package. DESTDIR=DIR puts all of it below DIR, for packagers.
# MPICC=COMPILER, such as mpicc, also installs the MPI-IO library for the MPI of that compiler.
# LIBSTRAIT_BUILT=DIR takes the C library from there instead of building it.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly PREFIX=${1:?the prefix, such as /usr/local}
readonly TO=${DESTDIR:-}$PREFIX
readonly ROOM=crates/libstrait

built=${LIBSTRAIT_BUILT:-}
if [[ -z $built ]]; then
    cargo build --quiet --locked --release -p libstrait
    built=${CARGO_TARGET_DIR:-target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

install -d "$TO"/{include,lib/pkgconfig,lib/cmake/libstrait}
install -m 644 "$ROOM/include/strait.h" "$TO/include"
install -m 755 "$built/libstrait.so" "$TO/lib"
sed "s|@PREFIX@|$PREFIX|; s|@VERSION@|$version|" "$ROOM/packaging/libstrait.pc.in" \
    >"$TO/lib/pkgconfig/libstrait.pc"
install -m 644 "$ROOM/packaging/libstrait-config.cmake" "$TO/lib/cmake/libstrait"
if [[ -n ${MPICC:-} ]]; then
    # It finds libstrait.so beside itself.
    # shellcheck disable=SC2016
    "$MPICC" -std=c11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -pthread -I"$TO/include" \
        "$ROOM"/mpi/*.c -o "$TO/lib/libstrait_mpi.so" -L"$TO/lib" -lstrait -Wl,-rpath,'$ORIGIN'
fi
printf 'installed libstrait %s below %s\n' "$version" "$TO"
