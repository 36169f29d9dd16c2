#!/usr/bin/env bash
# scripts/with-gluster.sh COMMAND...: with two GlusterFS volumes of one brick each, as root, in network and mount
# namespaces of its own. The command gets STRAIT_TEST_GLUSTER, the name of the first, and two mounts of it,
# STRAIT_TEST_NETWORK_DIRECTORY and STRAIT_TEST_OTHER_MOUNT. The second has 64 MiB: STRAIT_TEST_SMALL_VOLUME is its name,
# and STRAIT_TEST_SMALL_DIRECTORY its mount.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh

# Port, socket and volume are then this run's own: GlusterFS has fixed ones. Its daemons end with the run.
if [[ -z ${STRAIT_IN_GLUSTERS_NAMESPACES:-} ]]; then
    STRAIT_IN_GLUSTERS_NAMESPACES=1 exec unshare --mount --net --pid --fork --mount-proc --kill-child scripts/with-gluster.sh "$@"
fi
unset STRAIT_IN_GLUSTERS_NAMESPACES

readonly VOLUME=strait-test SMALL=strait-small START_S=30
# glusterd refuses localhost and 127.0.0.0/8.
readonly HOST=192.0.2.1
ip link set lo up
ip address add $HOST/32 dev lo
mount -t tmpfs none /run
mkdir /run/gluster
dir=$(mktemp -d)
mkdir "$dir/state" "$dir/brick" "$dir/small" "$dir/mount" "$dir/other" "$dir/small-mount"
mount -t tmpfs -o size=64m none "$dir/small"
mkdir "$dir/small/brick"
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
    umount -l "$dir/mount" "$dir/other" "$dir/small-mount" 2>/dev/null || true
    local volume
    for volume in $VOLUME $SMALL; do
        gluster --mode=script volume stop "$volume" force >/dev/null 2>&1 || true
    done
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    umount -l "$dir/small" 2>/dev/null || true
    rm -rf --one-file-system "$dir"
}
trap end EXIT

eventually "$START_S" "$daemon" gluster --mode=script volume list ||
    { printf 'with-gluster: glusterd does not start; its log:\n' >&2; tail -n 20 "$dir/log" >&2; exit 1; }
gluster --mode=script volume create $VOLUME "$HOST:$dir/brick" force >/dev/null
# Else a reader sees flushed bytes late.
gluster --mode=script volume set $VOLUME performance.write-behind off >/dev/null
gluster --mode=script volume create $SMALL "$HOST:$dir/small/brick" force >/dev/null
for volume in $VOLUME $SMALL; do
    gluster --mode=script volume start "$volume" >/dev/null
done
mount -t glusterfs "$HOST:/$VOLUME" "$dir/mount"
mount -t glusterfs "$HOST:/$VOLUME" "$dir/other"
mount -t glusterfs "$HOST:/$SMALL" "$dir/small-mount"

export STRAIT_TEST_GLUSTER=$VOLUME STRAIT_TEST_NETWORK_DIRECTORY=$dir/mount STRAIT_TEST_OTHER_MOUNT=$dir/other
export STRAIT_TEST_SMALL_VOLUME=$SMALL STRAIT_TEST_SMALL_DIRECTORY=$dir/small-mount
"$@"
