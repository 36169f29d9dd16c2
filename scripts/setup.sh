#!/usr/bin/env bash
# Installs what is missing, and nothing else: scripts/setup.sh GROUP...
#
#   build   a C linker for Rust; checks the Rust toolchain itself
#   run     build + Python and the client's requirements in .venv
#   power   build + the tools that make ext4 and XFS, for disks that lose power
#   go      Go, which is not installed but only looked for
#   node    Node, which is only looked for, and the client's compiler in clients/node/node_modules
#   test    run + power + go + node + Java, Maven, pytest, CMake, rpcgen and libtirpc, Thrift's compiler and C++ runtime, curl, wget and aria2
#   languages  browser + Ruby, Perl, PHP and Erlang with Thrift's runtimes, Haskell, Objective-C, OCaml, Smalltalk, C#, and libraries above fsspec
#   browser test + Chromium and Firefox, for pages that call a gateway
#   check   run + shellcheck, rustfmt, clippy, pytest, ruff, mypy
#   lint    check + go + cargo-deny, clang-format
#   fuzz    build + a C++ compiler for libFuzzer
#   memcheck  build + valgrind and what network namespaces take
#   gluster build + GlusterFS's server, client and libgfapi
#   mpi     build + MPICH, OpenMPI, and parallel HDF5 for Python
#   mount   build + fio, and the crates fsx and pjdfstest
#   bench   test + SunRPC's library and rpcgen, NFS-Ganesha, GNU parallel, libevent for Thrift's C++ server
#   slurm   test + Slurm, a cluster of which runs on one host
#   histories  test
#
# Safe to repeat: a second run only looks, in well under a second. Debian
# packages need root or sudo; elsewhere it says what to install by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest versions that the project is built and tested with.
readonly MIN_RUST=1.95 MIN_PYTHON=3.11 MIN_JAVA=17 MIN_GO=1.26 MIN_NODE=20
readonly CARGO_DENY_VERSION=0.20.2 FSX_VERSION=0.3.2 PJDFSTEST_VERSION=0.2.2

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
at_least() { printf '%s\n%s\n' "$1" "$2" | sort -C -V; } # at_least MINIMUM ACTUAL

# ------------------------------------------------------------ Debian packages

missing_packages=()

# need PACKAGE TEST...: notes the package where the test fails.
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing_packages+=("$package")
}

install_packages() {
    ((${#missing_packages[@]})) || return 0
    local as_root=()
    if ((EUID != 0)); then
        have sudo && as_root=(sudo)
    fi
    if ! have apt-get || { ((EUID != 0)) && ((!${#as_root[@]})); }; then
        die "please install by hand (Debian's names): ${missing_packages[*]}"
    fi
    say "installing ${missing_packages[*]}"
    "${as_root[@]}" apt-get -qq update ||
        say "the package lists could not be refreshed; trying with the old ones"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${missing_packages[@]}" >/dev/null ||
        die "apt-get failed; please install by hand: ${missing_packages[*]}"
    missing_packages=()
}

# ------------------------------------------------------------------ the groups

setup_build() {
    need gcc have cc
    need libc6-dev test -e /usr/include/stdlib.h
    install_packages
    have cargo || die "please install rustup; it installs the Rust that rust-toolchain.toml names"
    local version
    version=$(rustc --version | cut -d' ' -f2)
    at_least "$MIN_RUST" "$version" ||
        die "Rust is $version, $MIN_RUST or newer is needed: please install it with rustup"
}

setup_run() {
    setup_build
    [[ -x .venv/bin/pip ]] || setup_venv
    python_requirements run
}

setup_venv() {
    need python3 have python3
    install_packages
    local version
    version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    at_least "$MIN_PYTHON" "$version" ||
        die "Python is $version, $MIN_PYTHON or newer is needed"
    need python3-venv python3 -c 'import venv, ensurepip'
    install_packages
    python3 -m venv .venv
    # The client straight from the tree: `import strait` in .venv/bin/python.
    realpath -m clients/python/src > "$(.venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/strait.pth"
}

setup_power() {
    need xfsprogs test -x /usr/sbin/mkfs.xfs
    need e2fsprogs test -x /usr/sbin/mkfs.ext4
    install_packages
    setup_build
}

setup_go() {
    have go || die "please install Go $MIN_GO or newer: https://go.dev/dl"
    at_least "$MIN_GO" "$(go env GOVERSION | sed 's/^go//')" || die "Go is too old, $MIN_GO or newer is needed"
}

setup_node() {
    have node && have npm || die "please install Node $MIN_NODE or newer, with npm: https://nodejs.org"
    at_least "$MIN_NODE" "$(node --version | sed 's/^v//')" || die "Node is too old, $MIN_NODE or newer is needed"
    node_packages clients/node
}

# node_packages DIRECTORY: those of its lock file.
node_packages() {
    local wanted=$1/package-lock.json stamp=$1/node_modules/.strait-lock
    cmp -s "$wanted" "$stamp" && return 0
    say "installing $wanted"
    npm --prefix "$1" ci --ignore-scripts --no-audit --no-fund --silent >&2
    cp "$wanted" "$stamp"
}

setup_gluster() {
    need glusterfs-server test -x /usr/sbin/glusterd
    need glusterfs-client test -x /sbin/mount.glusterfs
    need libglusterfs-dev test -e /usr/include/glusterfs/api/glfs.h
    install_packages
    setup_build
}

setup_browser() {
    need chromium have chromium
    need firefox-esr have firefox-esr
    install_packages
    setup_test
}

setup_test() {
    setup_go
    setup_node
    setup_power
    need g++ have g++
    need thrift-compiler have thrift
    need libthrift-dev test -e /usr/include/thrift/Thrift.h
    need libboost-dev test -e /usr/include/boost/version.hpp # its headers include it
    need cmake have cmake
    need pkg-config have pkg-config
    need libssl-dev test -e /usr/include/openssl/ssl.h
    need iproute2 test -x /sbin/ip # of hosts in network namespaces
    need iptables test -x /usr/sbin/iptables
    need doctest-dev test -e /usr/include/doctest/doctest.h
    need nlohmann-json3-dev test -e /usr/include/nlohmann/json.hpp
    need rpcsvc-proto have rpcgen
    need rpcbind test -x /usr/sbin/rpcbind
    need libnsl-dev test -e /usr/include/rpcsvc/nis.x # interfaces for frpcgen's tests
    need libtirpc-dev test -e /usr/include/tirpc/rpc/rpc.h
    need default-jdk-headless have javac
    need maven have mvn
    need iproute2 have tc
    need git have git # programs in a mount
    need libnfs-utils have nfs-cp # clients of NFS
    need nfs-common test -x /usr/sbin/showmount
    need mpich have mpirun.mpich
    need libmpich-dev have mpicc.mpich
    need sqlite3 have sqlite3
    need openssh-server test -x /usr/sbin/sshd # hosts of `strait run`
    need openssh-client have ssh
    need curl have curl # clients of REST
    need wget have wget
    need aria2 have aria2c
    install_packages
    setup_run
    local version
    # From its release file: starting a JVM to ask takes half a second.
    version=$(sed -n 's/^JAVA_VERSION="\(.*\)"/\1/p' "$(dirname "$(readlink -f "$(command -v javac)")")/../release")
    at_least "$MIN_JAVA" "$version" || die "Java is $version, $MIN_JAVA or newer is needed"
    python_requirements test
    s3_server
}

# In an environment of its own.
s3_server() {
    local wanted=scripts/requirements-s3.txt stamp=.venv-s3/requirements.txt
    cmp -s "$wanted" "$stamp" && return 0
    say "installing $wanted into .venv-s3"
    python3 -m venv .venv-s3
    .venv-s3/bin/python -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2
    cp "$wanted" "$stamp"
}

setup_languages() {
    setup_browser
    need ruby have ruby
    need ruby ruby -e 'require "minitest"; require "openssl"'
    need ruby-thrift ruby -e 'require "thrift"'
    need php-cli have php
    need composer have composer
    need php-zip php -r 'exit((int) !extension_loaded("zip"));'
    need php-thrift test -e /usr/lib/php/Transport/TSocket.php
    need libio-socket-ssl-perl perl -MIO::Socket::SSL -e 1
    need libthrift-perl perl -MThrift::Socket -e 1
    need libbit-vector-perl perl -MBit::Vector -e 1
    need libclass-accessor-perl perl -MClass::Accessor -e 1
    need erlang-base have erlc
    need erlang-ssl compgen -G '/usr/lib/erlang/lib/ssl-*/ebin/ssl.app'
    need rebar3 have rebar3
    need ghc have ghc
    need cabal-install have cabal
    need libghc-network-dev compgen -G '/var/lib/ghc/package.conf.d/network-[0-9]*.conf'
    need gnustep-make have gnustep-config
    need gobjc gcc -x objective-c -fsyntax-only /dev/null
    need libgnustep-base-dev test -e /usr/include/GNUstep/Foundation/Foundation.h
    need ocaml have ocamlopt
    need ocaml-dune have dune
    need ocaml-findlib have ocamlfind
    need mono-mcs have mcs
    need mono-runtime have mono
    need libmono-system-core4.0-cil test -e /usr/lib/mono/4.5/System.Core.dll
    need nuget have nuget
    install_packages
    node_packages tests/languages/smalltalk
    python_requirements languages
}

setup_check() {
    setup_run
    need shellcheck have shellcheck
    install_packages
    have cargo-fmt && have cargo-clippy ||
        rustup component add rustfmt clippy >&2 ||
        die "please install rustfmt and clippy beside your Rust"
    python_requirements test
    python_requirements lint
}

setup_lint() {
    setup_check
    setup_go
    if ! have cargo-deny; then
        say "installing cargo-deny $CARGO_DENY_VERSION (some minutes, once)"
        cargo install --quiet --locked "cargo-deny@$CARGO_DENY_VERSION" >&2
    fi
    need clang-format have clang-format
    install_packages
}

setup_fuzz() {
    need g++ have g++
    install_packages
    setup_build
}

setup_memcheck() {
    need valgrind have valgrind
    need rpcsvc-proto have rpcgen # C programs of FlexRPC, against libtirpc's
    need libtirpc-dev test -e /usr/include/tirpc/rpc/rpc.h
    need iproute2 test -x /sbin/ip
    need iproute2 have tc
    install_packages
    setup_build
}

setup_mount() {
    need fio have fio
    install_packages
    setup_build
    have fsx || cargo install --quiet --locked "fsx@$FSX_VERSION" >&2
    have pjdfstest || cargo install --quiet --locked "pjdfstest@$PJDFSTEST_VERSION" >&2
}

setup_mpi() {
    need mpich have mpirun.mpich
    need libmpich-dev have mpicc.mpich
    need openmpi-bin have mpirun.openmpi
    need libopenmpi-dev have mpicc.openmpi
    need python3-mpi4py test -d /usr/lib/python3/dist-packages/mpi4py
    need python3-h5py-mpi test -d /usr/lib/python3/dist-packages/h5py/_debian_h5py_mpi
    install_packages
    setup_build
}

setup_bench() {
    need nfs-ganesha have ganesha.nfsd
    need nfs-ganesha-vfs test -e /usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so
    need parallel have parallel
    need libevent-dev test -e /usr/include/event.h # for Thrift's non-blocking C++ server
    install_packages
    setup_test
}

setup_slurm() {
    need slurmctld test -x /usr/sbin/slurmctld
    need slurmd test -x /usr/sbin/slurmd
    need slurm-client have srun
    need munge test -x /usr/sbin/munged
    install_packages
    setup_test
}

setup_histories() {
    setup_test
}

# python_requirements GROUP: scripts/requirements-GROUP.txt into .venv. The
# stamp holds the file last installed, so that an edit of it is noticed.
python_requirements() {
    local wanted=scripts/requirements-$1.txt stamp=.venv/requirements-$1.txt
    cmp -s "$wanted" "$stamp" && return 0
    say "installing $wanted into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2
    cp "$wanted" "$stamp"
}

(($#)) || set -- build
for group in "$@"; do
    case $group in
    build | run | power | go | node | test | browser | languages | check | lint | fuzz | memcheck | gluster | mpi | mount | bench | slurm | histories) "setup_$group" ;;
    *) die "no group $group; there are build, run, power, go, node, test, browser, languages, check, lint, fuzz, memcheck, gluster, mpi, mount, bench, slurm, histories" ;;
    esac
done
