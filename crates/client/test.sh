# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

clients=(rust)

rust_language=Rust
rust_wire="framed binary"
# The crate, and those of ours that it depends on, as `cargo publish` would pack them.
rust_build() {
    local crates=(client store wire crc fork telemetry flexrpc xdr)
    cargo package --quiet --offline --allow-dirty --no-verify --exclude-lockfile --target-dir "$work/rust/target" \
        "${crates[@]/#/--package=strait-}"
    rm -rf "$work/rust/crates"
    mkdir "$work/rust/crates"
    local packed
    for packed in "$work"/rust/target/package/*.crate; do
        tar -xzf "$packed" -C "$work/rust/crates"
    done
}

# The page's program, by Cargo, with the unpacked crates in the place of published ones. The lock file names versions
# that are here already.
rust_quick_start() {
    local project=$work/rust/example crate
    rm -rf "$project"
    readme ../crates/client "$1" "rust,no_run=$project/src/main.rs" "text=$project/expected"
    cp Cargo.lock "$project"
    cat >"$project/Cargo.toml" <<'EOT'
[package]
name = "example"
edition = "2024"

[dependencies]
strait-client = "0.1"

[workspace]

[patch.crates-io]
EOT
    for crate in "$work"/rust/crates/*; do
        [[ -e $crate/LICENSE ]]
        printf '%s = { path = "%s" }\n' "$(basename "${crate%-0.1.0}")" "$crate"
    done >>"$project/Cargo.toml"
    (cd "$project" && cargo run --quiet --offline --target-dir "$work/rust/target" >printed)
    # A store's message may begin with a capital letter.
    diff --ignore-case "$project/printed" "$project/expected"
}
