#!/usr/bin/env bash
# scripts/pre-commit.sh [--install]: checks what is about to be committed, in seconds: formatting,
# whitespace, the published figures. --install makes it the repository's hook before commits.
# `make check` is the whole gate.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

if [[ ${1:-} == --install ]]; then
    hook=$(git rev-parse --git-path hooks)/pre-commit
    mkdir -p "$(dirname "$hook")"
    if [[ -e $hook ]]; then
        echo "pre-commit: $hook exists; remove it first" >&2
        exit 1
    fi
    printf '#!/bin/sh\nexec scripts/pre-commit.sh\n' >"$hook"
    chmod +x "$hook"
    echo "pre-commit: installed as $hook"
    exit
fi

# changed PATTERN...: files that are about to be committed.
changed() { git diff --cached --name-only --diff-filter=d -- "$@"; }

git diff --cached --check
if [[ -n $(changed '*.rs') ]]; then
    cargo fmt --all --check
fi
if [[ -n $(changed '*.py') && -x .venv/bin/ruff ]]; then
    scripts/lint.sh ruff
fi
if [[ -n $(changed 'bench/published/*' 'docs/benchmarks.md' 'scripts/benchmarks.py') ]]; then
    python3 scripts/benchmarks.py --check
fi
