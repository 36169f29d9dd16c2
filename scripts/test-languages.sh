#!/usr/bin/env bash
# scripts/test-languages.sh [NAME...]: tests libraries and programs in many languages, on a directory and on Kadoop, and
# prints a row for each. NAME is
# - that of a clients/NAME with a test.sh, or rust: the installed package, and the shared cases if it has a driver;
# - story-LANGUAGE: a program by Thrift's generator and runtime, a codec of ours, or REST;
# - story-fsspec or story-spark: the libraries above fsspec, and a job of Spark.
# Without names, all run. Then the script also compares the tables of docs/languages.md and README.md with the results;
# UPDATE=1 rewrites the first. STRAIT_BIN names the command; else it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh
. scripts/erlang_thrift.sh
scripts/setup.sh languages

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if [[ -z ${STRAIT_BIN:-} ]]; then
    cargo build --locked -p strait
    STRAIT_BIN=$target/debug/strait
fi
export STRAIT_BIN
work=$target/languages
rm -rf "$work"
mkdir -p "$work"/{thrift/{rb,perl,php,erl},ebin,store,sources,stories}
only=("$@")
wanted() { ((!${#only[@]})) || [[ " ${only[*]} " == *" $1 "* ]]; }

gateways=()
end_gateways() {
    local process
    for process in "${gateways[@]}"; do
        kill "$process" 2>/dev/null && wait "$process" || true
    done
}
trap end_gateways EXIT

# gateway ADDRESS ARGUMENTS...: until it answers.
gateway() {
    local address=$1
    shift
    "$STRAIT_BIN" "$@" --listen "$address" 2>>"$work/gateways.log" >/dev/null &
    gateways+=($!)
    eventually 60 "${gateways[-1]}" "$STRAIT_BIN" ls "strait://$address/" && return
    echo "no gateway at $address: $(cat "$work/gateways.log")" >&2
    return 1
}

free_port() {
    .venv/bin/python -c 'import random, socket
while True:
    port = random.randrange(10_000, 32_768)
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        continue
    print(port)
    break'
}

passed=0
failed=0
tested=()
# row LANGUAGE WIRE STORE WHAT COMMAND...: runs it. WHAT is what the table says; `cases`: as its last line says; or -:
# it isn't in the table.
row() {
    local language=$1 wire=$2 store=$3 what=$4 result=passed
    shift 4
    # In the background, since `set -e` has no effect on the commands of a function that is a condition; in a
    # subshell, since programs in the background ignore Ctrl-C.
    ("$@") >"$work/log" 2>&1 &
    if wait $!; then
        passed=$((passed + 1))
        [[ $what == cases ]] && what=$(sed -n "\$s/^$store: //p" "$work/log")
        [[ $what == - ]] || printf '%s\t%s\t%s\t%s\n' "$language" "$wire" "$store" "$what" >>"$work/results.tsv"
    else
        result=failed failed=$((failed + 1))
        cat "$work/log"
    fi
    printf '%-22s %-16s %-7s %s\n' "$language" "$wire" "$store" "$result"
}

# story LANGUAGE WIRE WHAT COMMAND...: on both stores; the last two arguments become PORT and DIRECTORY.
story() {
    local language=$1 wire=$2 what=$3 store
    shift 3
    wanted "story-${language,,}" || return 0
    for store in file kadoop; do
        row "$language" "$wire" "$store" "$what" "$@" "${ports[$store]}" "/story-$RANDOM"
    done
}

# client NAME: a client with a driver of the shared cases, and the code of its page against the installed package.
# clients/NAME/test.sh, or crates/client/test.sh for Rust, has these, each with the prefix NAME_. It may set `clients`
# to the names of several that have them:
#   language, wire   its row in the table
#   options          of tests/languages/shared_cases.py
#   driver           the driver's command, once `build` has run
#   build            makes the driver and the package, below $work/NAME
#   quick_start      HOST:PORT: runs the code of the client's page in an empty directory, with the package
# Without a driver, only the package is tested here: the client's own tests run the shared cases.
client() {
    local name=$1 store
    local -n language=${name}_language wire=${name}_wire options=${name}_options driver=${name}_driver
    mkdir -p "$work/$name"
    "${name}_build"
    for store in file kadoop; do
        row "$language" "$wire" "$store" cases .venv/bin/python tests/languages/shared_cases.py \
            "${options[@]}" "127.0.0.1:${ports[$store]}" "$store" "$work/dfs.json" "${driver[@]}"
        row "$language" "$wire" "$store" "its page's code" "${name}_quick_start" "127.0.0.1:${ports[$store]}"
    done
}

# package NAME: a client without a driver.
package() {
    local name=$1 store
    local -n language=${name}_language wire=${name}_wire
    mkdir -p "$work/$name"
    "${name}_build"
    for store in file kadoop; do
        row "$language" "$wire" "$store" "its page's code" "${name}_quick_start" "127.0.0.1:${ports[$store]}"
    done
}

# readme LANGUAGE ADDRESS BLOCK=FILE...: code of a client's page.
readme() {
    local page=clients/$1/README.md
    shift
    .venv/bin/python tests/languages/readme.py "$page" "$@"
}

# maven PROJECT GOAL: compiles a project with an empty repository; its class path is in PROJECT/classes. Packages come
# from this user's repository, which has those of the clients' builds.
maven() {
    local project=$1 goal=$2 plugins=org.apache.maven.plugins
    cat >"$project/settings.xml" <<EOF
<settings>
  <localRepository>$project/repository</localRepository>
  <mirrors>
    <mirror><id>user</id><mirrorOf>*</mirrorOf><url>file://$HOME/.m2/repository</url></mirror>
  </mirrors>
</settings>
EOF
    mvn -q -B -Dkotlin.compiler.daemon=false -s "$project/settings.xml" -f "$project/pom.xml" \
        "$goal" "$plugins:maven-dependency-plugin:3.8.1:build-classpath" "-Dmdep.outputFile=$project/classes"
}

spark_job() {
    local module modules=() classes
    for module in lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic; do
        modules+=("--add-opens=java.base/java.$module=ALL-UNNAMED")
    done
    for module in nio.ch nio.cs security.action util.calendar; do
        modules+=("--add-opens=java.base/sun.$module=ALL-UNNAMED")
    done
    classes=$(cat "$work/spark-classes")
    java "${modules[@]}" -cp "$work/spark:$classes" SparkJob "strait://127.0.0.1:$1$2"
}

frames() {
    "$work/venv/bin/python" clients/python/examples/frames.py "strait://127.0.0.1:$1$2"
}

# LANGUAGE_story_build makes a program of tests/languages/story.* in the directory $1.
haskell_story_build() {
    ghc -v0 -Wall -Werror -iclients/haskell/src -outputdir "$1" -o "$1/story" tests/languages/story.hs
}

objective_c_story_build() {
    gcc -std=gnu11 -Wall -Werror -fobjc-exceptions -fconstant-string-class=NSConstantString -I/usr/include/GNUstep \
        -Iclients/objc -o "$1/story" tests/languages/story.m clients/objc/StraitKit/StraitWire.m -lgnustep-base -lobjc
}

# With the codec of the client's library. The compiler writes beside its sources.
ocaml_story_build() {
    cp clients/ocaml/src/wire.ml* tests/languages/story.ml "$1"
    (cd "$1" && ocamlopt -w +a-4-70 -warn-error +a unix.cmxa str.cmxa wire.mli wire.ml story.ml -o story)
}

# built LANGUAGE WIRE WHAT: the story of a language that is compiled.
built() {
    local name=${1,,}
    wanted "story-$name" || return 0
    mkdir -p "$work/stories/$name"
    "${name//-/_}_story_build" "$work/stories/$name"
    story "$@" "$work/stories/$name/story" 127.0.0.1
}

smalltalk_story() { node tests/languages/smalltalk/run.js 127.0.0.1 "$@"; }
php_story() { php tests/languages/story.php "$work/thrift/php" 127.0.0.1 "$@"; }
ruby_story() { ruby -I "$work/thrift/rb" tests/languages/story.rb 127.0.0.1 "$@"; }
perl_story() { perl -I "$work/thrift/perl" tests/languages/story.pl 127.0.0.1 "$@"; }
erlang_story() { erl -noshell -pa "$work/ebin" -run story main 127.0.0.1 "$@"; }

thrift_languages() {
    local language
    for language in rb perl php erl; do
        thrift --gen "$language" -out "$work/thrift/$language" idl/dfs.thrift
    done
    erlang_thrift "$work/sources" "$work/thrift/erl" "$work/ebin" tests/languages/story.erl
}

java_packages() {
    mvn -q -B -f clients/java/pom.xml -Dmaven.test.skip=true install
    mvn -q -B -f clients/java/hadoop/pom.xml -Dmaven.test.skip=true install
    mvn -q -B -f tests/languages/spark/pom.xml dependency:build-classpath "-Dmdep.outputFile=$work/spark-classes"
    javac -cp "$(cat "$work/spark-classes")" -d "$work/spark" tests/languages/spark/SparkJob.java
}

# The client as users install it, with its entry point; the libraries from .venv.
python_package() {
    local site
    python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps ./clients/python
    site=$("$work/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
    # Behind its own, so that the installed client comes first.
    .venv/bin/python -c 'import site; print(site.getsitepackages()[0])' >"$site/zz-libraries.pth"
}

thrift --gen json -out "$work" idl/dfs.thrift
declare -A ports=([file]=$(free_port) [kadoop]=$(free_port) [pages]=$(free_port))
pages=(--allow-anonymous --http-origin "http://127.0.0.1:${ports[pages]}")
gateway "127.0.0.1:${ports[file]}" serve --store "file://$work/store" "${pages[@]}"
gateway "127.0.0.1:${ports[kadoop]}" up --data "$work/kadoop" "${pages[@]}"
if wanted story-ruby || wanted story-perl || wanted story-php || wanted story-erlang; then
    thrift_languages
fi
calls="calls of 2009 and of today, typed errors"
story Ruby binary "$calls" ruby_story
story Perl binary "$calls" perl_story
story PHP binary "$calls" php_story
story Erlang "framed binary" "$calls" erlang_story
built Haskell "framed binary" "$calls"
built Objective-C "framed binary" "$calls"
built OCaml "framed binary" "$calls"
story Smalltalk REST "a file, typed errors" smalltalk_story
for script in clients/*/test.sh crates/client/test.sh; do
    clients=("$(basename "$(dirname "$script")")")
    # shellcheck source=/dev/null # each is checked by itself
    source "$script"
    wanted "${clients[0]}" || continue
    for name in "${clients[@]}"; do
        if [[ ! -v ${name}_driver ]]; then
            package "$name"
            continue
        fi
        client "$name"
        declare -n label=${name}_language
        tested+=("$label")
    done
done
if wanted story-fsspec; then
    python_package
    story fsspec "framed binary" - frames
fi
if wanted story-spark; then
    java_packages
    story Spark "framed binary" - spark_job
fi
if ((!${#only[@]})); then
    table=(.venv/bin/python scripts/languages_table.py)
    row "table of the page" - - - "${table[@]}" results "$work/results.tsv" docs/languages.md ${UPDATE:+--update}
    row "README's table" - - - "${table[@]}" stores "$work/results.tsv" README.md "${tested[@]}"
elif ((passed + failed == 0)); then
    echo "nothing has such a name: ${only[*]}" >&2
    failed=1
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
((!failed))
