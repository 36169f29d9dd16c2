#!/usr/bin/env bash
# Foreign file-system tests on `strait mount`, by root: fsx (20,000 random operations on a PLFS file
# over Kadoop, 1,000,000 over a directory in memory, which takes 2 GB), fio's verify jobs, and pjdfstest
# with the cases of scripts/pjdfstest-excluded.txt left out. OPERATIONS=N, and HDFS_URI=URI for a running
# HDFS whose user is root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/waits.sh
((EUID == 0)) || { echo "test-mount: mounting takes root" >&2; exit 1; }
scripts/setup.sh mount
cargo build --locked --release -p strait
strait=$(realpath "${CARGO_TARGET_DIR:-target}")/release/strait
readonly strait excluded=$PWD/scripts/pjdfstest-excluded.txt
work=$(mktemp -d) memory=$(mktemp -d -p /dev/shm)
# pjdfstest also acts as other users, who need a way to the mounts.
chmod 711 "$work"
processes=()

finish() {
    umount -l "$work"/mnt/* 2>/dev/null || true
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$work" "$memory"
}
trap finish EXIT

# mounted NAME URI FLAG...: mounts on $work/mnt/NAME.
mounted() {
    local name=$1 uri=$2
    shift 2
    mkdir -p "$work/mnt/$name"
    "$strait" mount --daemon --log-file "$work/$name.log" "$@" "$uri" "$work/mnt/$name"
}

# fsx_on NAME OPERATIONS LENGTH SIZE: a container keeps all bytes that were ever written.
fsx_on() {
    cat > "$work/fsx.toml" <<-EOF
	flen = $3
	[opsize]
	max = $4
	[weights]
	close_open = 1.0
	invalidate = 1.0
	mapread = 5.0
	mapwrite = 5.0
	read = 10.0
	write = 10.0
	truncate = 2.0
	fsync = 0.5
	fdatasync = 0.5
	sendfile = 1.0
	copy_file_range = 1.0
	EOF
    printf '\n== fsx, %s operations on %s\n' "$2" "$1"
    fsx -f "$work/fsx.toml" -N "$2" -S 1 -P "$work" "$work/mnt/$1/fsx.ckpt"
}

# fio_on NAME: random writes of PLFS files by four jobs, and a sequential one of a plain file. fio leaves files
# in its directory.
fio_on() (
    cd "$work"
    printf '\n== fio on %s\n' "$1"
    fio --minimal --directory="$work/mnt/$1" --verify=crc32c --verify_fatal=1 --ioengine=psync \
        --name=random --filename=random.ckpt --rw=randwrite --bs=47001 --size=48m --numjobs=4 \
        --offset_increment=48m --fallocate=none > /dev/null
    fio --minimal --directory="$work/mnt/$1" --verify=crc32c --verify_fatal=1 --ioengine=psync \
        --name=sequential --rw=write --bs=64k --size=128m --fallocate=none > /dev/null
)

# pjdfstest_on NAME
pjdfstest_on() {
    printf '\n== pjdfstest on %s\n' "$1"
    cat > "$work/pjdfstest.toml" <<-EOF
	[features]
	utimensat = {}
	utime_now = {}
	rename_ctime = {}
	[settings]
	naptime = 0.02
	[dummy_auth]
	entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
	EOF
    mkdir -p "$work/mnt/$1/cases"
    local code=0 case pattern ran unexpected=()
    pjdfstest -c "$work/pjdfstest.toml" -p "$work/mnt/$1/cases" > "$work/pjdfstest.txt" 2>&1 || code=$?
    ran=$(grep -acE ' (FAILED|ok|skipped)$' "$work/pjdfstest.txt" || true)
    # It exits with 1 if a case failed.
    if ((code > 1 || ran == 0)); then
        echo "pjdfstest ended with $code after $ran cases:" >&2
        tail -n 20 "$work/pjdfstest.txt" >&2
        return 1
    fi
    for case in $(grep -a ' FAILED$' "$work/pjdfstest.txt" | awk '{print $1}'); do
        while read -r pattern _; do
            # shellcheck disable=SC2053 # the patterns are patterns
            [[ $case == $pattern || $1/$case == $pattern ]] && continue 2
        done < <(grep -v '^#' "$excluded" | grep .)
        unexpected+=("$case")
        grep -aF -A 1 -- "$case " "$work/pjdfstest.txt" >&2
    done
    echo "$ran"
    if ((${#unexpected[@]})); then
        echo "cases that fail and aren't excluded: ${unexpected[*]}" >&2
        return 1
    fi
}

mkdir -p "$work/data" "$work/mnt"
"$strait" up --data "$work/kadoop" --listen 127.0.0.1:0 > "$work/up.log" 2>&1 &
processes+=($!)
eventually 60 "${processes[-1]}" grep -q kadoop:// "$work/up.log" || { cat "$work/up.log" >&2; exit 1; }
kadoop=$(grep -o 'kadoop://[0-9.:]*' "$work/up.log" | head -n 1)

mounted file "file://$work/data" --plfs '*.ckpt'
mounted kadoop "$kadoop/" --allow-other --plfs '*.ckpt' --kadoop-key "$work/kadoop/kadoop.key"
stores=(file kadoop)
if [[ -n ${HDFS_URI:-} ]]; then
    mounted hdfs "$HDFS_URI" --allow-other --plfs '*.ckpt'
    stores+=(hdfs)
fi
for store in "${stores[@]}"; do
    fsx_on "$store" "${OPERATIONS:-20000}" 1000000 65536
    fio_on "$store"
done
mounted memory "file://$memory" --plfs '*.ckpt'
fsx_on memory "${OPERATIONS:-1000000}" 131072 6000
# It changes users, so it needs a mount that acts as each.
for store in "${stores[@]}"; do
    [[ $store = file ]] || pjdfstest_on "$store"
done
