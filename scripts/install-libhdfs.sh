#!/usr/bin/env bash
# scripts/install-libhdfs.sh PREFIX [--stub-jvm] [--library FILE]: installs Hadoop's C library over
# every store: PREFIX/lib/libhdfs.so, PREFIX/include/hdfs.h, and packages for pkg-config and CMake.
# DESTDIR goes before PREFIX.
#
#   --stub-jvm      also PREFIX/lib/libhdfs-jvm/lib/server/libjvm.so, for programs that load or link
#                   libjvm.so first: JAVA_HOME=PREFIX/lib/libhdfs-jvm finds it, and no Java
#   --library FILE  install this build in place of a new one
set -euo pipefail

die() { printf 'install-libhdfs: %s\n' "$*" >&2; exit 2; }

prefix='' library='' stub=
while (($#)); do
    case $1 in
        --stub-jvm) stub=1 ;;
        --library)
            (($# > 1)) || die "--library wants a file"
            library=$(realpath "$2")
            shift
            ;;
        -*) die "no option $1" ;;
        *) prefix=$1 ;;
    esac
    shift
done
[[ -n $prefix ]] || die "usage: scripts/install-libhdfs.sh PREFIX [--stub-jvm] [--library FILE]"
prefix=$(realpath -m "$prefix")
cd "$(dirname "$0")/.."

if [[ -z $library ]]; then
    scripts/setup.sh build
    cargo build --release --locked -p libhdfs
    library=${CARGO_TARGET_DIR:-target}/release/libhdfs.so
fi
readonly SOURCES=crates/libhdfs AT=${DESTDIR:-}$prefix
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

install -D -m 755 "$library" "$AT/lib/libhdfs.so.0.0.0"
ln -sf libhdfs.so.0.0.0 "$AT/lib/libhdfs.so"
install -D -m 644 "$SOURCES/include/hdfs.h" "$AT/include/hdfs.h"
# Some programs include <hdfs/hdfs.h>.
install -d "$AT/include/hdfs"
ln -sf ../hdfs.h "$AT/include/hdfs/hdfs.h"
install -d "$AT/lib/pkgconfig"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$SOURCES/packaging/libhdfs.pc.in" \
    >"$AT/lib/pkgconfig/libhdfs.pc"
install -D -m 644 "$SOURCES/packaging/hdfs-config.cmake" "$AT/lib/cmake/hdfs/hdfs-config.cmake"
if [[ -n $stub ]]; then
    server=$AT/lib/libhdfs-jvm/lib/server
    install -d "$server"
    cc -shared -fPIC -O2 -Wl,-soname,libjvm.so -o "$server/libjvm.so" "$SOURCES/jvm/libjvm.c"
fi
