# Sourced: Thrift's runtime for Erlang, which is in no binary package, but in the source of Debian's.
# shellcheck shell=bash

# erlang_thrift DIRECTORY GENERATED EBIN PROGRAM.erl: fetches the runtime into DIRECTORY, and compiles it with the
# generated code and the program into EBIN.
erlang_thrift() {
    local directory=$1 generated=$2 ebin=$3 program=$4 lists=$1/lists apt modules
    mkdir -p "$directory/parts" "$lists/partial" "$ebin"
    sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$directory/parts/src.sources"
    apt=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$directory/parts" -o "Dir::State::lists=$lists")
    (cd "$directory" && apt-get "${apt[@]}" update && apt-get "${apt[@]}" source --download-only thrift) >&2
    tar -C "$directory" -xf "$directory"/thrift_*.orig.tar.* --wildcards --strip-components=1 '*/lib/erl/src/*' '*/lib/erl/include/*'
    local erl=$directory/lib/erl
    # Not its tests, nor what needs other packages.
    modules=$(find "$erl/src" -name '*.erl' ! -name '*_test.erl' ! -name '*json*' ! -name '*http*' ! -name '*ssl*')
    # shellcheck disable=SC2086 # a list
    erlc -W0 -o "$ebin" -I "$erl/include" -I "$generated" $modules "$generated"/*.erl "$program"
}
