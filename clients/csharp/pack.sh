#!/usr/bin/env bash
# pack.sh DIRECTORY: builds StraitFs.dll by mono's compiler, and packs it for NuGet, into the directory.
set -euo pipefail
target=$(realpath -m "$1")
cd "$(dirname "$0")"
mkdir -p "$target/build"
# 1591: a member without documentation, whose name says it all.
mcs -langversion:7.2 -r:Mono.Security -warnaserror -nowarn:1591 -target:library "-doc:$target/build/StraitFs.xml" "-out:$target/build/StraitFs.dll" src/*.cs
cp ../../LICENSE "$target/build"
nuget pack StraitFs.nuspec -BasePath "$target" -OutputDirectory "$target" >&2
