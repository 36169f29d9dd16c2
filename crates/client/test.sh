# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

clients=(rust)

rust_language=Rust
rust_wire="framed binary"
rust_build() { :; } # Cargo builds a dependency's sources

# The page's program, by Cargo. The lock file names versions that are here already.
rust_quick_start() {
    local project=$work/rust/example
    rm -rf "$project"
    readme ../crates/client "$1" "rust,no_run=$project/src/main.rs" "text=$project/expected"
    cp Cargo.lock "$project"
    cat >"$project/Cargo.toml" <<EOT
[package]
name = "example"
edition = "2024"

[dependencies]
strait-client = { path = "$PWD/crates/client" }
EOT
    (cd "$project" && cargo run --quiet --offline --target-dir "$work/rust/target" >printed)
    # A store's message may begin with a capital letter.
    diff --ignore-case "$project/printed" "$project/expected"
}
