"""Reads a copy of the RustSec advisory database: a folder for each crate, in it a file for each advisory."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FRONT_MATTER = re.compile(r"\A```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DATE = re.compile(r'^date = "(\d{4}-\d{2}-\d{2})"$', re.MULTILINE)
_VERSION = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_REQUIREMENT = re.compile(r"(>=|<=|>|<|=|\^|~)?\s*(\S+)")

MERE_NOTES = frozenset({"unmaintained", "notice"})
"""Kinds of advisories that tell of no way to do harm."""


@dataclass(frozen=True)
class Advisory:
    id: str
    title: str
    is_mere_note: bool


def advisories(database: Path, crate: str, version: str) -> Iterator[Advisory]:
    """What the database says of this version of a crate; what was withdrawn is left out."""
    for path in sorted((database / "crates" / crate).glob("RUSTSEC-*.md")):
        text = path.read_text(encoding="utf-8")
        if (found := _FRONT_MATTER.search(text)) is None:
            raise ValueError(f"{path} does not begin with TOML")
        told = tomllib.loads(found[1])
        about: dict[str, Any] = told["advisory"]
        if "withdrawn" not in about and is_affected(version, told.get("versions", {})):
            title = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), "")
            yield Advisory(about["id"], title, about.get("informational") in MERE_NOTES)


def newest(database: Path) -> datetime.date | None:
    """The date of its newest advisory: there is one every few days, so a copy is not much younger."""
    dates = (_DATE.search(path.read_text(encoding="utf-8")) for path in database.glob("crates/*/RUSTSEC-*.md"))
    return max((datetime.date.fromisoformat(found[1]) for found in dates if found), default=None)


def is_affected(version: str, versions: dict[str, list[str]]) -> bool:
    """Whether a version is neither patched nor was ever affected."""
    safe = [*versions.get("patched", []), *versions.get("unaffected", [])]
    return not any(matches(version, requirement) for requirement in safe)


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
