#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS [TARGET]: fuzzes each target of fuzz/ for SECONDS. FUZZ_SEED=N repeats
# the inputs of that seed; otherwise they are other ones each time.
#
# On the stable toolchain: LLVM's coverage counters are ordinary code-generation
# flags. AddressSanitizer would need the nightly toolchain; the crates fuzzed here
# have no unsafe code for it to watch. The C of the target c_stubs has it, by the C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh fuzz

readonly SECONDS_EACH=${1:-60}
# A message can't make the decoder take more than this; libFuzzer itself needs most of it.
readonly MEMORY_MB=512
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/fuzz

coverage=(-Cpasses=sancov-module)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=("-Cllvm-args=-sanitizer-coverage-$option")
done
host=$(rustc -vV | sed -n 's/^host: //p')

cargo run --quiet --locked --manifest-path fuzz/seeds/Cargo.toml -- fuzz/corpus
mkdir -p fuzz/corpus/frpcgen
cp tests/idl/idl/*.x fuzz/corpus/frpcgen
# With --target the flags reach only what runs, not build scripts and macros.
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 ${coverage[*]}" \
    cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml --bins --target "$host"

# A count of four billion must not become an allocation, and freed memory counts towards the limit.
export ASAN_OPTIONS=max_allocation_size_mb=80:quarantine_size_mb=16

targets=(sniff decode web frame onc frpcgen xdr c_stubs kadoop_log kadoop_sums kadoop_messages plfs_index)
(($# < 2)) || targets=("$2")

# fuzz TARGET
fuzz() {
    local target=$1 log=fuzz/artifacts/$1.log
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    # A finding's message and input are at the end of the log.
    "$CARGO_TARGET_DIR/$host/release/$target" "fuzz/corpus/$target" \
        -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$SECONDS_EACH" \
        -rss_limit_mb=$MEMORY_MB -max_len=4096 -seed="${FUZZ_SEED:-0}" -timeout=10 -print_final_stats=1 >"$log" 2>&1 || {
        tail -n 40 "$log"
        printf 'fuzz: %s: FOUND something; its input is in fuzz/artifacts/%s\n' "$target" "$target"
        return 1
    }
    printf 'fuzz: %s: %s inputs in %s s, no finding\n' "$target" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$SECONDS_EACH"
}

# A target uses one core, so as many run at a time as there are cores. After a finding the others
# of its batch end as they would, and no batch follows.
cores=$(nproc)
for ((first = 0; first < ${#targets[@]}; first += cores)); do
    running=()
    for target in "${targets[@]:first:cores}"; do
        fuzz "$target" &
        running+=($!)
    done
    found=0
    for pid in "${running[@]}"; do
        wait "$pid" || found=1
    done
    ((found == 0)) || exit 1
done
