#!/usr/bin/env python3
"""The tables of languages, compared with what ran.

languages_table.py results RESULTS PAGE [--update]: the table of docs/languages.md, from the results
of scripts/test-languages.sh. A line of the results is language, wire, store and what was run; only
what passed is in it.

languages_table.py stores RESULTS README LANGUAGE...: the stores in README.md's table. RESULTS is as
above, or the log of scripts/test.sh with a line of each client and store, such as `conformance Go
kadoop: 212 run`. The named languages must be in RESULTS. If one language of a row is, all of them
must be, with the row's stores.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

BEGIN = "<!-- by scripts/languages_table.py -->\n"
END = "<!-- end -->\n"
HEAD = "| language | wires | stores | what was run |\n| --- | --- | --- | --- |\n"
# The package of a language alone; its cases ran elsewhere.
PAGE = "its page's code"
STORES = {"directory": "file", "Kadoop": "kadoop", "HDFS": "hdfs"}
RAN = re.compile(r"conformance (\S+) (\w+): [1-9]\d* (?:run|passed)\b")


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


def compare_table(results: str, page: str, *options: str) -> list[str]:
    text = Path(page).read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = before + BEGIN + table(Path(results).read_text()) + END + after
    if options == ("--update",):
        Path(page).write_text(new)
    elif new != text:
        return [
            f"{page} doesn't say what passed: run `make test-languages UPDATE=1`, and look at it"
        ]
    return []


def stores_that_ran(results: str) -> dict[str, set[str]]:
    ran: dict[str, set[str]] = {}
    for line in results.splitlines():
        fields = line.split("\t")
        if found := RAN.search(line):
            ran.setdefault(found[1], set()).add(found[2])
        elif len(fields) == 4 and fields[2] in STORES.values() and fields[3] != PAGE:
            ran.setdefault(fields[0], set()).add(fields[2])
    return ran


def compare_stores(results: str, readme: str, *languages: str) -> list[str]:
    ran = stores_that_ran(Path(results).read_text())
    rows, _, _ = Path(readme).read_text().partition(HEAD)[2].partition("\n\n")
    wrong = [f"{name} didn't run" for name in languages if name not in ran]
    named = set()
    for row in rows.splitlines():
        listed, _, stores, _ = (cell.strip() for cell in row.strip("|").split(" | "))
        names = listed.split(", ")
        wanted = {STORES[store] for store in stores.split(", ")}
        named.update(names)
        if not ran.keys().isdisjoint(names):
            wrong += [
                f"{readme} has {sorted(wanted)} for {name}, but {sorted(ran.get(name, ()))} ran"
                for name in names
                if ran.get(name) != wanted
            ]
    return wrong + [f"{readme} has no row for {name}" for name in ran.keys() - named]


def main(what: str, *arguments: str) -> int:
    comparisons: dict[str, Callable[..., list[str]]] = {
        "results": compare_table,
        "stores": compare_stores,
    }
    wrong = comparisons[what](*arguments)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
