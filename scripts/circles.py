"""Fails if modules of a crate that lie side by side name each other in a circle.

It reads `use` and paths, outside of the tests at a file's end. If a module on a path has the next
name from a `use`, the path leads on to the module that defines the name. A module may use those
above and below it. Calls of methods name no module, so they don't count.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

Module = tuple[str, ...]

SOURCES = ("crates/*/src", "bench/src", "tests/*/src")

USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
AS = re.compile(r"\s+as\s+")
PATH = re.compile(r"\b\w+(?:::\w+)+")
BRACES = re.compile(r"\{([^{}]*)\}")
DEFINED = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|mod|macro_rules!)\s+(\w+)")
COMMENT = re.compile(r"//.*")
TESTS = re.compile(r"#\[cfg\((?:test|all\(test.*)\)\]\s*mod \w+ \{.*", re.DOTALL)


def expanded(use: str) -> Iterator[str]:
    """The paths of one `use`."""
    braces = BRACES.search(use)
    if braces is None:
        yield use
        return
    for part in braces[1].split(","):
        yield from expanded(use[: braces.start()] + part + use[braces.end() :])


class Import(NamedTuple):
    """One name of a `use`; `*` for all names of a module."""

    name: str
    path: str
    public: bool


@dataclass
class Source:
    """One module's text, without comments and tests."""

    text: str

    @cached_property
    def imports(self) -> list[Import]:
        found = []
        for public, use in USE.findall(self.text):
            for part in expanded("".join(AS.sub("@", use).split())):
                path, _, alias = part.partition("@")
                path = path.removesuffix("::self")
                found.append(Import(alias or path.split("::")[-1], path, bool(public)))
        return found

    @cached_property
    def imported(self) -> dict[str, str]:
        """The path of each imported name."""
        return {one.name: one.path for one in self.imports}

    @cached_property
    def defined(self) -> set[str]:
        return set(DEFINED.findall(self.text))

    @cached_property
    def offered(self) -> set[str]:
        """The names that another module gets by `*`."""
        return self.defined | {one.name for one in self.imports if one.public}

    def paths(self) -> list[str]:
        imported = [one.path.removesuffix("::*") for one in self.imports]
        return imported + PATH.findall(USE.sub("", self.text))


@dataclass
class Crate:
    """The modules of one crate."""

    sources: dict[Module, Source]

    def origin(self, of: Module, name: str, seen: frozenset[tuple[Module, str]]) -> str | None:
        """The path by which a module imports this name, if it does."""
        source = self.sources[of]
        if name in source.imported:
            return source.imported[name]
        if name in source.defined:
            return None
        for one in source.imports:
            if one.name == "*":
                whole = one.path.removesuffix("::*")
                *_, at = self.leads_to(of, whole, seen)
                if at != of and name in self.sources[at].offered:
                    return f"{whole}::{name}"
        return None

    def leads_to(
        self, of: Module, path: str, seen: frozenset[tuple[Module, str]] = frozenset()
    ) -> Iterator[Module]:
        """The modules to which a path in a module leads; the module itself for paths elsewhere."""
        first, *rest = path.split("::")
        at = of
        if first == "crate":
            at = ()
        elif first == "super":
            at = of[:-1]
            while rest and rest[0] == "super":
                at, rest = at[:-1], rest[1:]
        elif first != "self":
            rest = [first, *rest]
        while rest and (*at, rest[0]) in self.sources:
            at, rest = (*at, rest[0]), rest[1:]
        yield at
        # A `use` can name itself, as `use json::json` of another crate does.
        if rest and (at, rest[0]) not in seen:
            seen |= {(at, rest[0])}
            origin = self.origin(at, rest[0], seen)
            if origin is not None:
                yield from self.leads_to(at, "::".join([origin, *rest[1:]]), seen)

    def uses(self) -> dict[Module, dict[Module, str]]:
        """Which modules beside it a module, or one below it, uses, and a path as proof."""
        edges: dict[Module, dict[Module, str]] = {}
        for of, source in self.sources.items():
            for path in source.paths():
                for to in self.leads_to(of, path):
                    pairs = enumerate(zip(of, to, strict=False))
                    same = next((i for i, (a, b) in pairs if a != b), None)
                    if same is not None:
                        proof = f"{path} in {'::'.join(of)}"
                        edges.setdefault(of[: same + 1], {}).setdefault(to[: same + 1], proof)
        return edges

    def circles(self) -> Iterator[tuple[Module, Module, str]]:
        """Each module in a circle, a module that it uses there, and a path as proof."""
        edges = self.uses()
        for module, direct in sorted(edges.items()):
            for to, proof in sorted(direct.items()):
                if module in reached(edges, to):
                    yield module, to, proof


def reached(edges: dict[Module, dict[Module, str]], begin: Module) -> set[Module]:
    """All modules that this one uses, and those that they use."""
    seen: set[Module] = set()
    left = [begin]
    while left:
        for to in edges.get(left.pop(), ()):
            if to not in seen:
                seen.add(to)
                left.append(to)
    return seen


def read(src: Path) -> Crate:
    """The crate in this directory."""
    sources = {}
    for file in sorted(src.rglob("*.rs")):
        parts = file.relative_to(src).with_suffix("").parts
        if parts[0] == "bin":
            continue  # a crate of its own
        name = parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts
        sources[name] = Source(COMMENT.sub("", TESTS.sub("", file.read_text())))
    return Crate(sources)


def check_itself() -> None:
    """Fails if it misses a circle by names of the parent, or finds one where none is."""
    circle = {
        (): """pub use decode::{DecodeError as Error, Decoder};
               pub use json::*;""",
        ("decode",): """use crate::Brackets;
                        pub struct Decoder(Brackets);
                        pub enum DecodeError {}""",
        ("json",): """use super::Error;
                      pub struct Brackets(Option<Error>);""",
    }
    none = {
        (): """pub use decode::*;
               pub use error::Error;
               pub use json::*;""",
        ("decode",): """use crate::{Brackets, Error};
                        pub struct Decoder(Brackets, Option<Error>);""",
        ("error",): "pub enum Error {}",
        ("json",): circle[("json",)],
    }
    for texts, expected in ((circle, ["decode", "json"]), (none, [])):
        crate = Crate({name: Source(text) for name, text in texts.items()})
        found = ["::".join(module) for module, _, _ in crate.circles()]
        if found != expected:
            sys.exit(f"circles: wrong about its own example: {found}, not {expected}")


def main() -> int:
    """Prints each use in a circle."""
    check_itself()
    failed = False
    root = Path(__file__).parent.parent
    for src in sorted(src for pattern in SOURCES for src in root.glob(pattern)):
        for module, to, proof in read(src).circles():
            failed = True
            names = f"{'::'.join(module)} uses {'::'.join(to)} in a circle"
            print(f"{src.parent.relative_to(root)}: {names}: {proof}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
