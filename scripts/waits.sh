# shellcheck shell=bash
# The waits of test scripts, which source this file: scripts/sleeps.py rejects sleeps elsewhere.

# eventually SECONDS PROCESS COMMAND...: waits until the command succeeds. It fails after that time,
# and once the process has ended.
eventually() {
    local deadline=$((SECONDS + $1)) process=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "$process" 2>/dev/null && ((SECONDS <= deadline)) || return 1
        sleep 0.1
    done
}
