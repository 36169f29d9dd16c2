# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

ocaml_language="OCaml"
ocaml_wire="framed binary"
ocaml_options=()
ocaml_driver=("$work/ocaml/build/default/tests/driver.exe")
ocaml_build() {
    local options=(--root clients/ocaml --build-dir "$work/ocaml/build")
    dune build "${options[@]}" @default @runtest
    dune install "${options[@]}" --prefix "$work/ocaml/prefix" 2>"$work/ocaml/install.log"
}

# By findlib, from the directory that has nothing but the package.
ocaml_quick_start() {
    local example=$work/ocaml/example
    rm -rf "$example"
    cmp LICENSE "$work/ocaml/prefix/doc/strait/LICENSE"
    readme ocaml "$1" "ocaml=$example/example.ml"
    (
        export OCAMLPATH=$work/ocaml/prefix/lib
        cd "$example" &&
            ocamlfind ocamlopt -w +a-4-40-41-42-44-45-70 -warn-error +a \
                -package strait -linkpkg example.ml -o example &&
            ./example
    )
}
