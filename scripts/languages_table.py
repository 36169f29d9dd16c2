#!/usr/bin/env python3
"""The table of languages in docs/languages.md, from the results of scripts/test-languages.sh.

languages_table.py RESULTS.tsv PAGE [--update]: compares, or rewrites. A line of the results is
language, wire, store and what was run; only what passed is in it.
"""

import sys
from pathlib import Path

BEGIN = "<!-- by scripts/languages_table.py -->\n"
END = "<!-- end -->\n"


def table(results: str) -> str:
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for line in results.splitlines():
        language, wire, store, what = line.split("\t")
        rows.setdefault((language, wire), {}).setdefault(store, []).append(what)
    lines = ["| language | wire | store | what was run |", "| --- | --- | --- | --- |"]
    for (language, wire), stores in rows.items():
        runs: dict[str, list[str]] = {}
        for store, whats in stores.items():
            runs.setdefault("; ".join(whats), []).append(store)
        for run, names in runs.items():
            lines.append(f"| {language} | {wire} | {', '.join(names)} | {run} |")
    return "\n".join(lines) + "\n"


def main(results: str, page: str, *options: str) -> int:
    text = Path(page).read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = before + BEGIN + table(Path(results).read_text()) + END + after
    if options == ("--update",):
        Path(page).write_text(new)
    elif new != text:
        print(f"{page} doesn't say what passed: run `make test-languages UPDATE=1`, and look at it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
