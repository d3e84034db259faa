"""Reads the RustSec advisory database: a checkout of it, or what of a checkout this project keeps in one file.

`python -m tools.rustsec CHECKOUT` writes that file anew. In a checkout there is a folder for each crate, in it a file
for each advisory.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import kept
from tools.kept import Advisory

_FRONT_MATTER = re.compile(r"\A```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_VERSION = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_REQUIREMENT = re.compile(r"(>=|<=|>|<|=|\^|~)?\s*(\S+)")

MERE_NOTES = frozenset({"unmaintained", "notice"})
"""Kinds of advisories that tell of no way to do harm."""

SAFE = ("patched", "unaffected")
"""Under which names an advisory lists the versions that it is not about."""

KEPT = Path(__file__).with_name("rustsec.json")
"""What this project keeps, for machines that reach no checkout."""


def advisories(database: Path, crate: str, version: str) -> Iterator[Advisory]:
    """What the database, a checkout or a kept file, says of this version of a crate."""
    for told in entries(database).get(crate, []):
        if is_affected(version, told):
            yield Advisory(told["id"], told["title"], told.get("informational") in MERE_NOTES)


def newest(database: Path) -> str | None:
    """Of which day the newest advisory of the whole database is."""
    return kept.read(database)[1] if database.is_file() else kept.newest(entries(database))


@functools.cache
def entries(database: Path) -> dict[str, list[dict[str, Any]]]:
    """What is kept of each advisory, by crate; what was withdrawn is left out."""
    if database.is_file():
        return kept.read(database)[0]
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(database.glob("crates/*/RUSTSEC-*.md")):
        if (told := _entry(path)) is not None:
            found.setdefault(path.parent.name, []).append(told)
    return found


def _entry(path: Path) -> dict[str, Any] | None:
    text = path.read_text(encoding="utf-8")
    if (found := _FRONT_MATTER.search(text)) is None:
        raise ValueError(f"{path} does not begin with TOML")
    told = tomllib.loads(found[1])
    about, versions = told["advisory"], told.get("versions", {})
    if "withdrawn" in about:
        return None
    title = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), "")
    entry = {"id": about["id"], "date": str(about["date"]), "title": title}
    beside = {"informational": about.get("informational"), **{name: versions.get(name) for name in SAFE}}
    return entry | {name: value for name, value in beside.items() if value}


def is_affected(version: str, versions: dict[str, Any]) -> bool:
    """Whether a version is neither patched nor was ever affected."""
    return not any(matches(version, requirement) for name in SAFE for requirement in versions.get(name, []))


def matches(version: str, requirement: str) -> bool:
    """Whether a version satisfies each part of a requirement, which a comma divides: `>= 0.8.6, < 0.9.0`."""
    return all(_matches_one(version, part.strip()) for part in requirement.split(","))


def _matches_one(version: str, part: str) -> bool:
    if (found := _REQUIREMENT.fullmatch(part)) is None:
        raise ValueError(f"{part!r} is no requirement of a version")
    operator, wanted = found[1] or "^", found[2]
    here, there = _order(version), _order(wanted)
    match operator:
        case ">=":
            return here >= there
        case "<=":
            return here <= there
        case ">":
            return here > there
        case "<":
            return here < there
        case "=":
            return here == there
        case _:
            return there <= here < _end(wanted, operator)


def _end(wanted: str, operator: str) -> tuple[Any, ...]:
    """The first version that is not compatible any more: `^0.3.1` ends before 0.4.0, `~1.2.3` before 1.3.0."""
    numbers = [int(number) for number in _parts(wanted)[:3] if number is not None]
    if operator == "~":
        last = min(1, len(numbers) - 1)
    else:
        last = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
    return _order(".".join(map(str, [*numbers[:last], numbers[last] + 1])))


def _parts(version: str) -> tuple[str | None, ...]:
    if (found := _VERSION.fullmatch(version)) is None:
        raise ValueError(f"{version!r} is no version")
    return found.groups()


def _order(version: str) -> tuple[Any, ...]:
    """Sorts as Semantic Versioning says: a version comes after its pre-releases, numbers come before words."""
    *numbers, before = _parts(version)
    words = (before or "").split(".")
    pre = (1,) if before is None else (0, *((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words))
    return (*(int(number or 0) for number in numbers), pre)


def keep(database: Path, file: Path = KEPT) -> None:
    """Write what is kept of a checkout."""
    source = "https://github.com/RustSec/advisory-db"
    about = f"facts of {source} (CC0-1.0; those of GHSA ids CC-BY-4.0), all that were not withdrawn"
    kept.write(file, about, newest(database), entries(database))


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
