# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

smalltalk_language="Smalltalk"
smalltalk_wire="framed binary"
smalltalk_options=()
smalltalk_modules=$PWD/tests/languages/smalltalk/node_modules # Amber's, which setup.sh installs
smalltalk_driver=(env "NODE_PATH=$smalltalk_modules" node clients/smalltalk/run.js clients/smalltalk/tests/driver.st)
smalltalk_build() {
    local -x NODE_PATH=$smalltalk_modules
    (cd clients/smalltalk && npm pack --silent --pack-destination "$work/smalltalk" >/dev/null)
    node clients/smalltalk/tests/tests.js
}

# By npm into an empty directory.
smalltalk_quick_start() {
    local project=$work/smalltalk/example
    rm -rf "$project"
    readme smalltalk "$1" "smalltalk=$project/example.st"
    npm install --prefix "$project" --offline --no-audit --no-fund --silent \
        "$work/smalltalk/strait-fs-smalltalk-0.1.0.tgz" "$smalltalk_modules"/{@ambers/lang,requirejs}
    cmp LICENSE "$project/node_modules/strait-fs-smalltalk/LICENSE"
    [[ $(cd "$project" && npx strait-smalltalk example.st) == done* ]]
}
