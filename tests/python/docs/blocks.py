"""Code blocks of the documents, and what makes a console block a test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "python/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]

TUTORIAL = "docs/tutorial"
"""Its pages are one story."""

_BLOCK = re.compile(
    r"(?:^<!-- (?:test: (?P<mark>[\w-]+)|file: (?P<file>[\w.-]+)) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MORE = "..."


@dataclass(frozen=True)
class Block:
    """One fenced block. `mark` is the word of an HTML comment `<!-- test: word -->` right above it; one with
    `<!-- file: name -->` is a file that whoever reads the page writes."""

    document: str
    line: int
    language: str
    mark: str | None
    text: str
    file: str | None = None


def blocks(document: str) -> list[Block]:
    source = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(
            document,
            source.count("\n", 0, found.start("text")) + 1,
            found["language"],
            found["mark"],
            found["text"],
            found["file"],
        )
        for found in _BLOCK.finditer(source)
    ]


def files_before(document: str, line: int) -> dict[str, str]:
    """The files that a reader has written down to a line of a document; in the tutorial, in the steps before too."""
    folder = str(Path(document).parent)
    before = [other for other in DOCUMENTS if folder == TUTORIAL and other.startswith(folder) and other < document]
    written = [block for other in before for block in blocks(other)]
    written += [block for block in blocks(document) if block.line <= line]
    return {block.file: block.text for block in written if block.file is not None}


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block (`$ command`), each with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def agrees(shown: str, actual: Any) -> None:
    """Check that JSON shown in a document is what came; `...` in an object stands for further members."""
    _compare(json.loads(_anonymous(re.sub(r",\s*\.\.\.", f', "{_MORE}": null', shown))), _plain(actual), "$")


def _compare(shown: Any, actual: Any, place: str) -> None:
    if isinstance(shown, dict) and isinstance(actual, dict):
        members = set(shown) - {_MORE}
        assert members <= set(actual), f"{place}: the document shows {sorted(members - set(actual))}"
        assert _MORE in shown or members == set(actual), f"{place}: there is also {sorted(set(actual) - members)}"
        for name in members:
            _compare(shown[name], actual[name], f"{place}.{name}")
    elif isinstance(shown, list) and isinstance(actual, list):
        assert len(shown) == len(actual), f"{place}: the document shows {len(shown)} entries, there are {len(actual)}"
        for index, (one, other) in enumerate(zip(shown, actual, strict=True)):
            _compare(one, other, f"{place}[{index}]")
    else:
        assert shown == actual, place


def _anonymous(text: str) -> str:
    return _UUID.sub("<uuid>", text)


def _plain(value: Any) -> Any:
    return json.loads(_anonymous(json.dumps(value)))
