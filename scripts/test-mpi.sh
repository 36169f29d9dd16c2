#!/usr/bin/env bash
# scripts/test-mpi.sh [STORE...]: MPI programs of others use the MPI-IO library, unchanged, on file,
# kadoop, gateway (of that Kadoop) and hdfs: the tests of ROMIO, from Debian's source package of MPICH, compiled with MPICH's
# mpicc; and parallel HDF5, which four ranks write and two read, by h5py on OpenMPI.
# LIBSTRAIT_BUILT=DIR has libstrait.so, strait and with-hdfs, in place of a build. SECONDS_EACH=N.
# MPI_PROGRAMS="NAME…" picks some of ROMIO's.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh

AT=$(realpath -m "${CARGO_TARGET_DIR:-target}/mpi")
readonly AT HDF5=$PWD/crates/libstrait/tests/mpi/hdf5.py
readonly SECONDS_EACH=${SECONDS_EACH:-300}
# shellcheck disable=SC2054 # the commas
# Program:ranks, and a comma for those that take the name without -fname.
readonly PROGRAMS=(simple:2 async:2 async-multiple:2 atomicity:2 coll_test:4 excl:2 file_info:4
    i_noncontig:2 noncontig:2 noncontig_coll:2 noncontig_coll2:4 misc:4 ordered_fp:4 split_coll:4
    status:1 creat_excl:2 fmisc:4 fcoll_test:4 types_with_zeros:2, darray_read:4, hindexed:4, aggregation2:4,)
# Left out: psimple (calls PMPI_File_* itself), shared_fp (pointers shared outside collective calls),
# error (wants ROMIO's text), external32 (another representation), syshints (ROMIO's hints), perf and
# coll_perf (measure), large_file, large_array and big_extents (gigabytes).

# The sources, by Debian's package manager, into lists of its own.
romio() {
    [[ -d $AT/mpich/src ]] && return
    mkdir -p "$AT/lists/partial" "$AT/download" "$AT/mpich"
    # From the same places as this machine's packages.
    apt-get indextargets --format 'deb-src $(SITE) $(CODENAME) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' | sort -u >"$AT/sources.list"
    local options=(-qq -o "Dir::Etc::sourcelist=$AT/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$AT/lists" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$AT/download" && apt-get "${options[@]}" source --download-only mpich)
    tar -xJf "$AT"/download/mpich_*.orig.tar.xz -C "$AT/mpich" --strip-components 1 \
        --wildcards '*/src/mpi/romio/test/*'
}

compile() {
    local source=$AT/mpich/src/mpi/romio/test program
    mkdir -p "$AT/programs"
    cp "$source/misc.c.in" "$source/misc.c"
    for program in "${PROGRAMS[@]%:*}"; do
        [[ ! -x $AT/programs/$program ]] || continue
        if [[ -e $source/$program.f.in ]]; then
            # As MPICH's configure fills it in.
            sed 's/@F77MPIOINC@//; s/@FORTRAN_MPI_OFFSET@/integer*8/; s/@F77IARGC@/iargc()/
                s/@F77GETARG@/call getarg(i, str)/' "$source/$program.f.in" >"$source/$program.f"
            mpif77.mpich -w -fallow-argument-mismatch -o "$AT/programs/$program" "$source/$program.f"
        else
            mpicc.mpich -w -o "$AT/programs/$program" "$source/$program.c" -lm
        fi
    done
}

# on_mpich RANKS COMMAND..., on_openmpi RANKS COMMAND...
on_mpich() {
    timeout "$SECONDS_EACH" mpirun.mpich -n "$1" \
        -genv LD_PRELOAD "$AT/with-mpich/lib/libstrait_mpi.so" "${@:2}" </dev/null 2>&1
}
on_openmpi() {
    timeout "$SECONDS_EACH" mpirun.openmpi --allow-run-as-root --oversubscribe -n "$1" \
        -x "LD_PRELOAD=$AT/with-openmpi/lib/libstrait_mpi.so" "${@:2}" </dev/null 2>&1
}

# programs_on STORE URI: each must say that it found no errors, and the store must have its file.
programs_on() {
    local spec program ranks name failed=0 output
    for spec in "${PROGRAMS[@]}"; do
        program=${spec%:*} ranks=${spec#*:}
        [[ " ${MPI_PROGRAMS:-$program} " == *" $program "* ]] || continue
        name=("-fname" "strait:$2/$program")
        [[ $ranks == *, ]] && name=("strait:$2/$program")
        if output=$(on_mpich "${ranks%,}" "$AT/programs/$program" "${name[@]}") && [[ $output == *"No Errors"* ]]; then
            echo "$1: $program: ok"
        else
            printf '%s: %s: FAILED\n%s\n' "$1" "$program" "${output::2000}"
            failed=1
        fi
    done
    return "$failed"
}

hdf5_on() {
    local file=strait:$2/ranks.h5
    on_openmpi 4 /usr/bin/python3 "$HDF5" write "$file"
    on_openmpi 2 /usr/bin/python3 "$HDF5" read "$file"
    "$strait" ckpt check "$2/ranks.h5" >/dev/null
}

on_store() {
    printf '\n== MPI programs on %s\n' "$1"
    hdf5_on "$@"
    programs_on "$@"
}

# on_cluster kadoop|gateway: a cluster and a gateway in one process.
on_cluster() {
    rm -rf "$AT/kadoop"
    "$strait" up --data "$AT/kadoop" --listen 127.0.0.1:0 >"$AT/up.log" 2>&1 &
    local server=$!
    # shellcheck disable=SC2064
    trap "kill $server; wait $server || true" EXIT
    eventually 120 "$server" grep -q ' default = ' "$AT/up.log" || { cat "$AT/up.log" >&2; exit 1; }
    if [[ $1 == gateway ]]; then
        on_store gateway "strait://$(sed -n 's/^strait .* serves on \(.*\)$/\1/p' "$AT/up.log")"
    else
        export STRAIT_KADOOP_KEY=$AT/kadoop/kadoop.key
        on_store kadoop "$(sed -n 's|.*default = \(kadoop://[^/]*\).*|\1|p' "$AT/up.log")"
    fi
}

readonly built=${LIBSTRAIT_BUILT:-${CARGO_TARGET_DIR:-target}/release}
readonly strait=$built/strait
if [[ ${1:-} == on-hdfs ]]; then
    on_store hdfs "$STRAIT_TEST_HDFS/mpi"
    exit
fi
scripts/setup.sh mpi
if [[ -z ${LIBSTRAIT_BUILT:-} ]]; then
    cargo build --quiet --locked --release -p strait -p libstrait -p strait-testkit
fi
romio
compile
LIBSTRAIT_BUILT=$built MPICC=mpicc.mpich scripts/install-libstrait.sh "$AT/with-mpich"
LIBSTRAIT_BUILT=$built MPICC=mpicc.openmpi scripts/install-libstrait.sh "$AT/with-openmpi"
(($#)) || set -- file kadoop gateway hdfs
for store in "$@"; do
    case $store in
        file)
            rm -rf "$AT/data" && mkdir "$AT/data"
            on_store file "file://$AT/data"
            ;;
        kadoop | gateway) (on_cluster "$store") ;;
        hdfs) "$built/with-hdfs" "$0" on-hdfs ;;
        *) echo "test-mpi: no store $store; there are file, kadoop, gateway, hdfs" >&2; exit 2 ;;
    esac
done
