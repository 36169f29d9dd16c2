#!/usr/bin/env bash
# Writes src/generated/java, the private generated code, from idl/dfs.thrift.
#
#   ./generate.sh [DIRECTORY]
#
# Needs the compiler of Debian's package thrift-compiler (0.17). With DIRECTORY
# the code is written there instead of into the source tree.
set -euo pipefail
cd "$(dirname "$0")"

readonly PACKAGE=fs.strait.client.internal
target=$(realpath -m "${1:-src/generated/java}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# In a package of its own, so that a program can use this client beside one of
# the IDL's public namespace.
sed "s/^namespace java .*/namespace java $PACKAGE/" ../../idl/dfs.thrift > "$scratch/dfs.thrift"
mkdir "$scratch/out"
thrift --gen java:generated_annotations=suppress -out "$scratch/out" "$scratch/dfs.thrift"

# Messages only: the client frames calls itself (Method.java), so that payload
# needn't be copied, and it speaks DfsV2 alone.
package=$scratch/out/${PACKAGE//.//}
rm "$package"/{DfsService,DfsV2,DfsServiceIOException,FileStatus,ClientHandle,DfsHandle,dfsConstants}.java

rm -rf "$target"
mkdir -p "$target"
cp -r "$scratch/out/." "$target"
