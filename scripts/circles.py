"""Fails if modules of a crate that lie side by side use each other in a circle.

It reads `use` and paths that begin with `crate` or `super`, outside of the tests at a file's end.
A module may use those above and below it.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

Module = tuple[str, ...]

USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")
BRACES = re.compile(r"\{([^{}]*)\}")
COMMENT = re.compile(r"//.*")
TESTS = re.compile(r"#\[cfg\((?:test|all\(test.*)\)\]\s*mod \w+ \{.*", re.DOTALL)


def modules(src: Path) -> dict[Module, str]:
    """The text of each module, without comments and tests."""
    found = {}
    for file in sorted(src.rglob("*.rs")):
        parts = file.relative_to(src).with_suffix("").parts
        name = parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts
        found[name] = COMMENT.sub("", TESTS.sub("", file.read_text()))
    return found


def expanded(use: str) -> Iterator[str]:
    """The paths of one `use`."""
    braces = BRACES.search(use)
    if braces is None:
        yield use
        return
    for part in braces[1].split(","):
        yield from expanded(use[: braces.start()] + part + use[braces.end() :])


def target(of: Module, path: str, known: Iterable[Module]) -> Module:
    """The module that a path in this module leads into; the module itself for paths elsewhere."""
    first, *rest = path.split("::")
    if first == "crate":
        at: Module = ()
    elif first == "super":
        at = of[:-1]
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
    else:
        at, rest = of, [first, *rest]
    for name in rest:
        if (*at, name) not in known:
            break
        at = (*at, name)
    return at


def uses(found: dict[Module, str]) -> dict[Module, set[Module]]:
    """Which module uses which one beside it, by itself or through a module below it."""
    edges: dict[Module, set[Module]] = {}
    for of, text in found.items():
        paths = [path for use in USE.findall(text) for path in expanded("".join(use.split()))]
        for path in paths + PATH.findall(text):
            to = target(of, path, found)
            same = next((i for i, (a, b) in enumerate(zip(of, to, strict=False)) if a != b), None)
            if same is not None:
                edges.setdefault(of[: same + 1], set()).add(to[: same + 1])
    return edges


def reached(edges: dict[Module, set[Module]], begin: Module) -> set[Module]:
    """All modules that this one uses, and those that they use."""
    seen: set[Module] = set()
    left = [begin]
    while left:
        for to in edges.get(left.pop(), ()):
            if to not in seen:
                seen.add(to)
                left.append(to)
    return seen


def main() -> int:
    """Prints each module in a circle, with the modules beside it that it uses in that circle."""
    failed = False
    for src in sorted(Path(__file__).parent.parent.glob("crates/*/src")):
        edges = uses(modules(src))
        for module, direct in sorted(edges.items()):
            in_circle = [to for to in sorted(direct) if module in reached(edges, to)]
            if in_circle:
                failed = True
                names = ", ".join("::".join(to) for to in in_circle)
                of = f"{src.parent.name}: {'::'.join(module)}"
                print(f"{of} is in a circle, by {names}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
