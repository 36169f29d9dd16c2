#!/usr/bin/env bash
# `make run`: builds, starts a gateway over Kadoop (namenode and datanodes in the
# same process), proves it with a round trip, and serves until Ctrl-C.
#
#   LISTEN  where to listen (127.0.0.1:9090)
#   DATA    where its data lie (./strait-data)
set -euo pipefail

# On a terminal, Ctrl-C goes to a whole process group. A group of our own keeps
# it from make, which would report an interrupt where all ended well.
if [[ -t 0 && -z ${STRAIT_RUN_GROUP:-} ]]; then
    set -m
    STRAIT_RUN_GROUP=1 "$0" "$@"
    exit
fi

cd "$(dirname "$0")/.."
readonly LISTEN=${LISTEN:-127.0.0.1:9090} DATA=${DATA:-./strait-data}
# strait itself picks this up: target/ may be elsewhere.
readonly STRAIT=${CARGO_TARGET_DIR:-target}/release/strait
readonly RECORDS=100000
readonly READY_SECONDS=30
readonly DEMO=strait://$LISTEN/demo

say() { printf 'run: %s\n' "$*"; }
die() { printf 'run: %s\n' "$*" >&2; exit 1; }

# Before the build, to fail fast.
port_is_free() { ! (exec 3<>"/dev/tcp/${LISTEN%:*}/${LISTEN##*:}") 2>/dev/null; }
port_is_free || die "$LISTEN is in use; stop that program, or choose another: make run LISTEN=127.0.0.1:9091"

scripts/setup.sh run
cargo build --release --locked -p strait

scratch=$(mktemp -d)
server=
# Ends the gateway, which drains, and waits for it: nothing stays behind.
finish() {
    local code=$?
    trap '' INT TERM HUP
    if [[ -n $server ]] && kill -TERM "$server" 2>/dev/null; then
        wait "$server" || code=$?
    fi
    rm -rf "$scratch"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# In a process group of its own: Ctrl-C reaches this script only, which ends the gateway once. If this script is
# killed, the kernel sends SIGTERM to the gateway.
apart=()
! setpriv --pdeathsig TERM setsid true 2>/dev/null || apart=(setsid setpriv --pdeathsig TERM)
"${apart[@]}" "$STRAIT" up --data "$DATA" --listen "$LISTEN" &
server=$!

deadline=$((SECONDS + READY_SECONDS))
until "$STRAIT" ls "strait://$LISTEN/" >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { wait "$server" || exit; server=; die "the gateway ended at once"; }
    ((SECONDS < deadline)) || die "the gateway did not answer within $READY_SECONDS s"
    sleep 0.1
done

say "putting $RECORDS MalGen records into $DEMO/malgen.txt"
"$STRAIT" mkdir -p "$DEMO"
"$STRAIT" malgen "$RECORDS" | tee "$scratch/malgen.txt" | "$STRAIT" put -f - "$DEMO/malgen.txt"
"$STRAIT" locate "$DEMO/malgen.txt" | sed 's/^/run: Kadoop has /'
say "reading them back from Python through Thrift"
.venv/bin/python scripts/roundtrip.py "$DEMO/malgen.txt" "$scratch/malgen.txt"

# From here on the usual end is a signal, and that is success.
trap 'say "ending"; exit 0' INT TERM HUP
cat <<READY

Strait is ready.
  Thrift   $LISTEN (binary, compact and JSON, framed, unframed and over HTTP)
  data     $DATA (Kadoop: a namenode and three datanodes)

  $STRAIT ls $DEMO
  $STRAIT cat $DEMO/malgen.txt | head -3
  $STRAIT put -f --replication 3 README.md $DEMO/
  $STRAIT fsck $DEMO
  .venv/bin/python -c 'import strait; print(strait.connect("$LISTEN").stat("/demo/malgen.txt"))'

Ctrl-C ends it.
READY

wait "$server" && code=0 || code=$?
server=
# After SIGTERM, the gateway drains and exits with 0.
((code)) || exit 0
die "the gateway ended by itself (exit code $code)"
