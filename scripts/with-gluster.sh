#!/usr/bin/env bash
# scripts/with-gluster.sh COMMAND...: with a GlusterFS volume of one brick on this host, as root. The command gets
# STRAIT_TEST_GLUSTER, the volume's name, and STRAIT_TEST_NETWORK_DIRECTORY, where it is mounted.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh

readonly VOLUME=strait-test START_S=30
# Port and socket are GlusterFS's usual ones.
if timeout 2 bash -c '</dev/tcp/127.0.0.1/24007' 2>/dev/null; then
    echo "with-gluster: a glusterd runs on this host already" >&2
    exit 1
fi
dir=$(mktemp -d)
mkdir "$dir/state" "$dir/brick" "$dir/mount"
cat >"$dir/glusterd.vol" <<END
volume management
    type mgmt/glusterd
    option working-directory $dir/state
    option transport-type socket
    option transport.socket.listen-port 24007
end-volume
END
glusterd -N -f "$dir/glusterd.vol" -p "$dir/pid" -l "$dir/log" &
readonly daemon=$!

end() {
    umount -l "$dir/mount" 2>/dev/null || true
    gluster --mode=script volume stop $VOLUME force >/dev/null 2>&1 || true
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    rm -rf --one-file-system "$dir"
}
trap end EXIT

eventually "$START_S" "$daemon" gluster --mode=script volume list ||
    { printf 'with-gluster: glusterd does not start; its log:\n' >&2; tail -n 20 "$dir/log" >&2; exit 1; }
# It refuses names and addresses of the loopback.
host=$(hostname -I | cut -d' ' -f1)
readonly host
gluster --mode=script volume create $VOLUME "$host:$dir/brick" force >/dev/null
# Else a reader sees flushed bytes late.
gluster --mode=script volume set $VOLUME performance.write-behind off >/dev/null
gluster --mode=script volume start $VOLUME >/dev/null
mount -t glusterfs "$host:/$VOLUME" "$dir/mount"

STRAIT_TEST_GLUSTER=$VOLUME STRAIT_TEST_NETWORK_DIRECTORY=$dir/mount "$@"
