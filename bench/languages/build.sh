#!/usr/bin/env bash
# build.sh LANGUAGE OUT RELEASE: makes the programs of the suite `languages` for one language, in the directory OUT:
#
#   stream_file  reads or writes a file with our client
#   bare_calls   the same by bare calls
#   tls_stream   reads a bare stream of TLS
#
# RELEASE is the directory of the release build, with libstrait and the programs in Rust. Exit code 3: the toolchain
# isn't installed.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cd "$here/../.."
language=$1
out=$(realpath -m "$2")
release=$(realpath "$3")
mkdir -p "$out"

need() {
    local tool
    for tool; do
        command -v "$tool" >/dev/null && continue
        echo "no $tool; scripts/setup.sh languages installs it" >&2
        exit 3
    done
}

# launcher NAME COMMAND...: the program NAME, which runs the command with its own arguments.
launcher() {
    local name=$1
    shift
    printf '#!/bin/sh\nexec %s "$@"\n' "$(printf '%q ' "$@")" >"$out/$name"
    chmod +x "$out/$name"
}

generate() { thrift --gen "$1" -out "$out" idl/dfs.thrift; }

# The JVM's memory: as in the other suites.
java_command=(java -Xmx512m -cp)

build_cpp() {
    need cmake c++
    cmake -S "$here" -B "$out/build"
    cmake --build "$out/build" --parallel 2
    ln -sf build/stream_file build/tls_stream "$out"
}

build_go() {
    need go
    go -C "$here/go" build -o "$out" ./stream_file ./tls_stream
}

build_rust() {
    ln -sf "$release/stream_file" "$release/tls_stream" "$out"
}

build_c() {
    need cc
    cc -std=gnu11 -O2 -Wall -Wextra -Werror -Icrates/libstrait/include -o "$out/stream_file" "$here/stream_file.c" \
        "-L$release" -lstrait "-Wl,-rpath,$release"
    # Its TLS is rustls.
    ln -sf "$release/tls_stream" "$out"
}

build_node() {
    need node npm
    scripts/setup.sh node
    npm --prefix clients/node run --silent build
    launcher stream_file node "$here/stream_file.mjs"
    launcher tls_stream node "$here/tls_stream.mjs"
}

build_python() {
    launcher stream_file "$PWD/.venv/bin/python" "$here/stream_file.py"
    launcher tls_stream "$PWD/.venv/bin/python" "$here/tls_stream.py"
}

build_java() {
    need mvn javac
    mvn -q -B -f clients/java/pom.xml -DskipTests compile dependency:build-classpath -Dmdep.includeScope=runtime \
        "-Dmdep.outputFile=$out/libraries"
    local classes
    classes=$PWD/clients/java/target/classes:$out:$(cat "$out/libraries")
    javac -d "$out" -cp "$classes" "$here/StreamFile.java" "$here/TlsStream.java"
    launcher stream_file "${java_command[@]}" "$classes" StreamFile
    launcher tls_stream "${java_command[@]}" "$out" TlsStream
}

build_kotlin() {
    need mvn javac thrift
    local classes
    mvn -q -B -f clients/java/pom.xml -Dmaven.test.skip=true install
    mvn -q -B -f clients/kotlin/pom.xml -Dmaven.test.skip=true install
    mkdir -p "$out/java"
    thrift --gen java:generated_annotations=suppress -out "$out/java" idl/dfs.thrift
    mvn -q -B -f "$here/kotlin/pom.xml" "-Dout=$out" compile dependency:build-classpath "-Dmdep.outputFile=$out/libraries"
    classes=$out/classes:$(cat "$out/libraries")
    launcher stream_file "${java_command[@]}" "$classes" StreamFileKt
    launcher bare_calls "${java_command[@]}" "$classes" BareCallsKt
}

build_csharp() {
    need mcs mono
    mcs -langversion:7.2 -optimize+ -r:Mono.Security "-out:$out/StreamFile.exe" clients/csharp/src/*.cs "$here/StreamFile.cs"
    mcs -langversion:7.2 -optimize+ "-out:$out/BareCalls.exe" "$here/BareCalls.cs"
    launcher stream_file mono "$out/StreamFile.exe"
    launcher bare_calls mono "$out/BareCalls.exe"
}

build_ruby() {
    need ruby thrift
    generate rb
    launcher stream_file ruby -I "$PWD/clients/ruby/lib" "$here/stream_file.rb"
    launcher bare_calls ruby -I "$out" "$here/bare_calls.rb"
}

build_perl() {
    need perl thrift
    generate perl
    launcher stream_file perl -I "$PWD/clients/perl/lib" "$here/stream_file.pl"
    launcher bare_calls perl -I "$out" "$here/bare_calls.pl"
}

build_php() {
    need php thrift
    generate php
    launcher stream_file php "$here/stream_file.php" "$PWD/clients/php/src"
    launcher bare_calls php "$here/bare_calls.php" "$out"
}

build_erlang() {
    need erlc thrift
    # shellcheck source=scripts/erlang_thrift.sh
    . scripts/erlang_thrift.sh
    mkdir -p "$out"/{ebin,thrift}
    thrift --gen erl -out "$out/thrift" idl/dfs.thrift
    erlang_thrift "$out/runtime" "$out/thrift" "$out/ebin" "$here/bare_calls.erl"
    erlc -o "$out/ebin" clients/erlang/src/*.erl "$here/stream_file.erl"
    cp clients/erlang/src/strait.app.src "$out/ebin/strait.app"
    local program
    for program in stream_file bare_calls; do
        launcher "$program" erl -noinput -pa "$out/ebin" -run "$program" main
    done
}

# The compiler writes beside its sources.
build_ocaml() {
    need dune ocamlfind ocamlopt
    local package=$out/package
    dune build --root clients/ocaml --build-dir "$out/build" @install
    dune install --root clients/ocaml --build-dir "$out/build" --prefix "$package" 2>"$out/install.log"
    cp "$here"/{stream_file,bare_calls}.ml "$out"
    (
        cd "$out"
        OCAMLPATH=$package/lib ocamlfind ocamlopt -package strait -linkpkg stream_file.ml -o stream_file
        ocamlfind ocamlopt -package unix -linkpkg bare_calls.ml -o bare_calls
    )
}

build_haskell() {
    need ghc
    local program
    for program in stream_file bare_calls; do
        # -threaded, as the client's page says.
        ghc -v0 -O1 -threaded -Wall -iclients/haskell/src -outputdir "$out/$program.objects" -o "$out/$program" "$here/$program.hs"
    done
}

build_objc() {
    need gnustep-config make
    local flags libraries program
    read -ra flags < <(gnustep-config --objc-flags)
    read -ra libraries < <(gnustep-config --base-libs)
    make -s -C clients/objc "GNUSTEP_BUILD_DIR=$out/build"
    for program in stream_file bare_calls; do
        gcc -std=gnu11 "${flags[@]}" -Wextra -Wno-expansion-to-defined -MF /dev/null -Iclients/objc -o "$out/$program" \
            "$here/$program.m" "-L$out/build/obj" "-Wl,-rpath,$out/build/obj" -lStraitKit "${libraries[@]}"
    done
}

build_smalltalk() {
    need node
    local modules=$PWD/tests/languages/smalltalk/node_modules program # Amber's
    [[ -d $modules ]] || need amber
    NODE_PATH=$modules node clients/smalltalk/compile.js
    for program in stream_file bare_calls; do
        launcher "$program" env "NODE_PATH=$modules" node "$PWD/clients/smalltalk/run.js" "$here/$program.st"
    done
}

"build_$language"
