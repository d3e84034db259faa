"""Reads the PyPA advisory database: a checkout of it, or what of a checkout this project keeps in one file.

`python -m tools.pypa CHECKOUT` writes that file anew. In a checkout there is a folder for each package, in it a file
for each advisory. What is kept is of the packages that this Python's environment holds, those without an advisory as
well: of any other, the file knows nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import kept
from tools.installed import pins
from tools.kept import Advisory

KEPT = Path(__file__).with_name("pypa.json")
"""What this project keeps, for machines that reach nobody who tells of advisories."""

SOURCE = "https://github.com/pypa/advisory-database"


def advisories(database: Path, package: str, version: str) -> Iterator[Advisory]:
    """What the database, a checkout or a kept file, says of this version of a package."""
    for told in entries(database).get(canonicalize_name(package), []):
        if is_affected(version, told):
            yield Advisory(told["id"], told["title"])


def newest(database: Path) -> str | None:
    """Of which day the newest advisory of the whole database is."""
    return kept.read(database)[1] if database.is_file() else kept.newest(entries(database))


@functools.cache
def entries(database: Path) -> dict[str, list[dict[str, Any]]]:
    """What is kept of each advisory, by canonical name; what was withdrawn is left out."""
    if database.is_file():
        return kept.read(database)[0]
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(database.glob("vulns/*/*.yaml")):
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "withdrawn" not in told:
            for affected in told["affected"]:
                found.setdefault(canonicalize_name(affected["package"]["name"]), []).append(_entry(told, affected))
    return found


def _entry(told: dict[str, Any], affected: dict[str, Any]) -> dict[str, Any]:
    ranges = [found["events"] for found in affected.get("ranges", []) if found["type"] == "ECOSYSTEM"]
    events = [{name: str(version) for name, version in event.items()} for found in ranges for event in found]
    date = str(told["published"] if "published" in told else told["modified"])[:10]
    entry = {"id": told["id"], "date": date, "title": " ".join(told.get("aliases", []))}
    # Versions are listed besides; alone they count only where there is no range.
    return entry | ({"events": events} if events else {"versions": [str(one) for one in affected.get("versions", [])]})


def is_affected(version: str, told: dict[str, Any]) -> bool:
    """Whether a version lies between an event that introduces a fault and the one that ends it."""
    here = Version(version)
    if "events" not in told:
        return any(Version(one) == here for one in told["versions"])
    inside = False
    for event in told["events"]:
        if "introduced" in event:
            inside = inside or event["introduced"] == "0" or here >= Version(event["introduced"])
        elif "fixed" in event:
            inside = inside and here < Version(event["fixed"])
        elif "last_affected" in event:
            inside = inside and here <= Version(event["last_affected"])
        else:
            raise ValueError(f"{told['id']} has an event of another kind: {event}")
        # Ranges follow each other: what one of them holds, no later one lets go.
        if inside and "introduced" not in event:
            return True
    return inside


def keep(database: Path, packages: Iterable[str], file: Path = KEPT) -> None:
    """Write what is kept of a checkout."""
    found = entries(database)
    about = f"facts of {SOURCE} (CC-BY-4.0) on the packages that are used here, all that were not withdrawn"
    kept.write(file, about, newest(database), {name: found.get(name, []) for name in map(canonicalize_name, packages)})


if __name__ == "__main__":
    keep(Path(sys.argv[1]), [pin.partition("==")[0] for pin in pins()])
