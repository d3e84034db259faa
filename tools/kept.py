"""What this project keeps of advisory databases, for machines that reach none: a file of JSON for each, by package."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Entries = Mapping[str, list[dict[str, Any]]]
"""What is kept of each advisory, by package: at least its `id`, `date` and `title`."""


@dataclass(frozen=True)
class Advisory:
    id: str
    title: str
    is_mere_note: bool = False
    """It tells of no way to do harm."""


def newest(entries: Entries) -> str | None:
    """The date of the newest advisory: there is one every few days, so a copy is not much younger."""
    return max((told["date"] for package in entries.values() for told in package), default=None)


@functools.cache
def read(file: Path) -> tuple[dict[str, list[dict[str, Any]]], str | None]:
    """What is kept, and of which day the newest advisory of its source was."""
    told = json.loads(file.read_text(encoding="utf-8"))
    return told["packages"], told["newest"]


def write(file: Path, about: str, newest: str | None, entries: Entries) -> None:
    """A line for each package, so that a newer copy shows what has changed."""
    head = f'"about": {json.dumps(about)},\n"newest": {json.dumps(newest)}'
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(told)}" for name, told in sorted(entries.items()))
    file.write_text(f'{{{head},\n"packages": {{\n{lines}\n}}}}\n', encoding="utf-8")
