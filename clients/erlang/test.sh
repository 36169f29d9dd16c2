# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

erlang_language=Erlang
erlang_wire="framed binary"
erlang_options=()
erlang_driver=(erl -noinput -pa "$work/erlang/ebin" -s driver)

# rebar3 writes beside its sources, and wants a home.
erlang_rebar() {
    HOME=$work/erlang/home REBAR_OFFLINE=1 rebar3 "$@"
}

erlang_build() {
    clients/erlang/pack.sh "$work/erlang/packages"
    rm -rf "$work/erlang/library" "$work/erlang/ebin"
    mkdir -p "$work/erlang/"{library,ebin,home}
    cp -r clients/erlang/{src,test,rebar.config} "$work/erlang/library"
    (cd "$work/erlang/library" && erlang_rebar eunit)
    erlc -Werror -o "$work/erlang/ebin" clients/erlang/src/*.erl clients/erlang/tests/driver.erl
    cp clients/erlang/src/strait.app.src "$work/erlang/ebin/strait.app"
}

# As a dependency of an empty project.
erlang_quick_start() {
    local project=$work/erlang/example
    rm -rf "$project"
    readme erlang "$1" "erlang=$project/src/example.erl"
    mkdir -p "$project/_checkouts/strait"
    tar -C "$project/_checkouts/strait" --strip-components=1 -xf "$work/erlang/packages/strait-0.1.0.tar.gz"
    cmp LICENSE "$project/_checkouts/strait/LICENSE"
    (
        cd "$project"
        echo '{application, example, [{description, ""}, {vsn, "1"}, {applications, [kernel, stdlib, strait]}]}.' >src/example.app.src
        echo '{deps, [strait]}.' >rebar.config
        erlang_rebar compile
        ERL_LIBS=_build/default/lib:_build/default/checkouts erl -noinput -s example main -s init stop
    )
}
