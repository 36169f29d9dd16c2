# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

haskell_language=Haskell
haskell_wire="framed binary"
haskell_options=()
haskell_driver=("$work/haskell/driver")
haskell_build() {
    local compile=(ghc -v0 -O1 -Wall -Werror -iclients/haskell/src -iclients/haskell/tests -outputdir "$work/haskell/objects")
    local packages=$work/haskell/packages
    "${compile[@]}" -main-is WireTest -o "$work/haskell/wire-test" WireTest
    "$work/haskell/wire-test"
    "${compile[@]}" -main-is Driver -o "$work/haskell/driver" Driver
    # An empty configuration names no registry, so that nothing is downloaded.
    mkdir -p "$work/haskell/cabal" "$packages"
    : >"$work/haskell/cabal/config"
    (cd clients/haskell && haskell_cabal sdist --builddir "$packages/build" --output-directory "$packages")
}

# With a store and a package database of its own.
haskell_cabal() { CABAL_DIR=$work/haskell/cabal cabal -v0 "$@"; }

haskell_quick_start() {
    local project=$work/haskell/example
    rm -rf "$project"
    tar -xOf "$work"/haskell/packages/strait-fs-0.1.0.tar.gz strait-fs-0.1.0/LICENSE | cmp LICENSE -
    readme haskell "$1" "haskell=$project/Main.hs"
    echo "packages: $work/haskell/packages/*.tar.gz" >"$project/cabal.project"
    (
        cd "$project"
        haskell_cabal install -j1 --lib --package-env . strait-fs
        ghc -v0 -Wall -Werror -threaded Main.hs
        ./Main
    )
}
