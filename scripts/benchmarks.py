"""Writes the figures of docs/benchmarks.md from the results in bench/published.

benchmarks.py            rewrites the table and the pictures
benchmarks.py --check    compares, and writes nothing
benchmarks.py --publish SUITE --machine MACHINE
                         first copies bench/results/SUITE.json there, with today's date, and
                         the suite's own pictures, SUITE-*.svg

A published file has the harness's rows, and three more keys in each: `against` names what the
figure is compared with, `measure` says how, and `wanted` is the bound of `ratio_to_limit`.
A suite may write these itself. Publishing it again keeps them for the cases that it had before.

Every figure on the page points the same way: more is better, whatever the better direction of the
measured figure is.
"""

import argparse
import datetime
import json
import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "bench/published"
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- figures: scripts/benchmarks.py -->\n", "<!-- end of figures -->\n"
TIMES = "\N{MULTIPLICATION SIGN}"
# The words behind a row's result, by its measure.
WORDS = {"times": " as fast", "share": " of the limit", "bound": " the bound"}
# Of the pictures, in pixels: a letter of a case, the bars and their figures, a bar.
LETTER, BARS, FIGURE, BAR = 7, 300, 130, 20


@dataclass
class Row:
    """One row of the page."""

    case: str
    ours: str
    other: str
    result: float
    wanted: float | None
    measure: str

    def missed(self) -> bool:
        """Whether the result is below its bound, as far as the page shows digits."""
        bound = 1.0 if self.measure == "bound" else self.wanted
        return bound is not None and float(digits(self.result)) < float(digits(bound))

    def number(self, value: float) -> str:
        """A result, or a bound of it, in the row's measure."""
        return f"{100 * value:.0f} %" if self.measure == "share" else f"{digits(value)} {TIMES}"

    def shown(self) -> str:
        """The result in words."""
        return self.number(self.result) + WORDS[self.measure]


def digits(value: float) -> str:
    """A figure with as many digits as mean something."""
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figure(value: float | None, unit: str) -> str:
    """A measured figure and its unit; nothing if it isn't known."""
    return "" if value is None else f"{value:,} {unit}".strip()


def read_row(row: dict[str, Any]) -> Row:
    """A row of a result file, turned so that more is better."""

    def turned(ratio: float) -> float:
        return ratio if row["better"] == "higher" else 1 / ratio

    other = figure(row.get("limit"), row["unit"])
    against = "" if row["measure"] == "bound" else row["against"]
    wanted = row.get("wanted")
    return Row(
        row["case"],
        figure(row.get("ours"), row["unit"]),
        ", ".join(part for part in (against, other) if part),
        turned(row["ratio_to_limit"]),
        None if wanted is None else turned(wanted),
        row["measure"],
    )


def published() -> list[tuple[str, dict[str, Any], list[Row]]]:
    """The result files that no newer one has superseded: name, head and rows."""
    files = []
    for path in sorted(PUBLISHED.glob("*.json")):
        content = json.loads(path.read_text())
        if "superseded_by" not in content:
            files.append((path.stem, content, [read_row(row) for row in content["rows"]]))
    return files


def table() -> str:
    """The page's one table."""
    lines = [
        "| case | Strait | compared with | result | wanted |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, head, rows in published():
        picture = f"[{head['title']}](../bench/published/{name}.svg)"
        lines.append(f"| **{picture}**, {head['date']}, {head['machine']} | | | | |")
        for row in rows:
            wanted = "" if row.wanted is None else row.number(row.wanted)
            if row.missed():
                wanted = f"{wanted}, missed".strip(", ")
            cells = row.case, row.ours, row.other, row.shown(), wanted
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def picture(title: str, rows: list[Row]) -> str:
    """A bar for each row, on a scale of powers; the line marks the compared figure."""
    least = min(0.5, *(row.result for row in rows))
    most = max(2.0, *(row.result for row in rows))

    left = 24 + LETTER * max(len(row.case) for row in rows)

    def place(value: float) -> float:
        share = math.log(value / least) / math.log(most / least)
        return left + 10 + share * (BARS - 10)

    height = 44 + BAR * len(rows) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + BARS + FIGURE}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="24" font-size="17">{escape(title)}</text>',
    ]
    for number, row in enumerate(rows):
        y = 40 + BAR * number
        color = "#d98b2b" if row.missed() else "#1f6fb4"
        width = max(place(row.result) - left, 1)
        text = escape(row.case.replace("`", ""))
        out += [
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{text}</text>',
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{BAR - 5}" fill="{color}"/>',
            f'<text x="{left + width + 6:.1f}" y="{y + 13}">{row.shown()}</text>',
        ]
    line = f'x1="{place(1):.1f}" y1="36" x2="{place(1):.1f}" y2="{height - 8}"'
    out += [f'<line {line} stroke="black" stroke-dasharray="4 3"/>', "</svg>"]
    return "\n".join(out) + "\n"


def publish(suite: str, machine: str) -> None:
    """Copies the harness's newest results of a suite."""
    target = PUBLISHED / f"{suite}.json"
    before: dict[str, Any] = {"title": suite, "rows": []}
    if target.exists():
        before = json.loads(target.read_text())
    known = {row["case"]: row for row in before["rows"]}
    rows = []
    for row in json.loads((RESULTS / f"{suite}.json").read_text()):
        kept = known.get(row["case"], {})
        peers = row.get("peers", {})
        if row.get("ratio_to_limit") is not None:
            extra = {"against": "the limit", "measure": "share"}
        elif peers:
            name, value = next(iter(peers.items()))
            row |= {"limit": value, "ratio_to_limit": row["ours"] / value}
            extra = {"against": name, "measure": "times"}
        else:
            continue
        for words in (row, kept):
            extra |= {key: words[key] for key in ("against", "measure", "wanted") if key in words}
        rows.append(row | extra)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = {"suite": suite, "title": before["title"], "date": date, "machine": machine}
    content = json.dumps(head | {"rows": rows}, indent=2, ensure_ascii=False)
    target.write_text(content + "\n")
    # Pictures that the suite draws beside that of its rows.
    for drawn in RESULTS.glob(f"{suite}-*.svg"):
        if not drawn.with_suffix(".json").exists():
            (PUBLISHED / drawn.name).write_text(drawn.read_text())


def main() -> None:
    """Writes the page and the pictures, or compares them; exit code 1 where they differ."""
    parser = argparse.ArgumentParser(description="Writes the figures of docs/benchmarks.md.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--publish", metavar="SUITE", help="take bench/results/SUITE.json")
    parser.add_argument("--machine", help="the machine of --publish, and what else ran on it")
    options = parser.parse_args()
    if options.publish:
        if not options.machine:
            parser.error("--publish needs --machine")
        publish(options.publish, options.machine)
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    files = {PAGE: f"{before}{BEGIN}\n{table()}\n{END}{after}"}
    for name, head, rows in published():
        files[PUBLISHED / f"{name}.svg"] = picture(head["title"], rows)
    stale = [path for path in files if not path.exists() or path.read_text() != files[path]]
    if options.check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"benchmarks: run scripts/benchmarks.py, out of date: {names}")
    for path in stale:
        path.write_text(files[path])
    print(f"benchmarks: {len(stale)} of {len(files)} files were out of date")


if __name__ == "__main__":
    main()
