"""The glossary against the code: each word is somewhere in it, and a name means one thing.

A name that means two things is looked up twice; a word that cannot be searched for is not found at all.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.python.docs.blocks import ROOT
from tests.python.docs.named_code import PAGES, named

PAGE = ROOT / "docs" / "glossary.md"
DOUBLE, UNSAID = "One name, several types", "What we do not say"
WORDS = ["What users see", "Journal and replay", "A turn on its way", "Inside the server"]


def rows(section: str) -> list[list[str]]:
    """The cells of each row of the section's table, its head left out."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith(("| ", "|-"))]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def in_backticks(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# -- the code -------------------------------------------------------------------------------------------------------

_RUST_ITEM = re.compile(
    r"^(?P<indent> *)(?P<public>pub(?:\([a-z: ]+\))? )?(?:const |async |unsafe )*"
    r"(?P<kind>struct|enum|union|trait|type|fn|mod) (?P<name>[A-Za-z]\w*)",
    re.MULTILINE,
)
_TYPES = {"struct", "enum", "union", "trait", "type", "class"}

Item = tuple[str, str, bool]
"""Kind, name, and whether others may use it."""


def rust_items(text: str) -> Iterator[Item]:
    """What Rust source declares, its tests left out. An associated type is its trait's, and none of its own."""
    code = text.split("#[cfg(test)]\nmod tests {")[0]
    for match in _RUST_ITEM.finditer(code):
        if match["kind"] == "type" and match["indent"]:
            continue
        yield match["kind"], match["name"], match["public"] is not None


def python_items(text: str) -> Iterator[Item]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield "class", node.name, not node.name.startswith("_")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "def", node.name, not node.name.startswith("_")


def is_of_tests(path: Path) -> bool:
    parts = set(path.relative_to(ROOT).parts)
    return path.name in {"tests.rs", "fuzz.rs", "fuzzing.rs"} or bool(parts & {"tests", "contract", "random_agents"})


@cache
def declared() -> dict[str, list[Item]]:
    """What each file of the core and of the package declares.

    For the tests that ask: every process of `pytest -n auto` would parse the package while it collects.
    """
    files = {}
    for path in sorted((ROOT / "src").rglob("*.rs")):
        if not is_of_tests(path):
            items = list(rust_items(path.read_text(encoding="utf-8")))
            stem = path.parent.name if path.name == "mod.rs" else path.stem
            files[str(path.relative_to(ROOT))] = [*items, ("mod", stem, True)]
    for path in sorted((ROOT / "python" / "hitl").rglob("*.py")):
        stem = path.parent.name if path.name == "__init__.py" else path.stem
        items = list(python_items(path.read_text(encoding="utf-8")))
        files[str(path.relative_to(ROOT))] = [*items, ("mod", stem, True)]
    return files


_SCHEMAS = "src/server/schema/"
"""What `/openapi.json` shows of a record is called as the record."""


def doubles(files: dict[str, list[Item]]) -> dict[str, list[str]]:
    """Type names that several files of one language declare, one of them at least for others."""
    where: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for file, items in files.items():
        for kind, name, is_public in items:
            if kind in _TYPES and not file.startswith(_SCHEMAS):
                known = where[Path(file).suffix, name]
                known[file] = known.get(file, False) or is_public
    return {name: sorted(of) for (_, name), of in where.items() if len(of) > 1 and any(of.values())}


def is_called(unsaid: str, kind: str, name: str) -> bool:
    """A word with a capital is that of a type, any other one of a function or module; a `_` in front is overlooked."""
    return name.lstrip("_") == unsaid and (kind in _TYPES) is unsaid[0].isupper()


_OF_INTERRUPTS_AND_NOTICES = (
    "src/domain/abandoned/",
    "src/domain/interrupt",
    "src/domain/notice",
    "src/domain/replay/",
    "src/domain/run_state/",
    "src/engine/journal/grants.rs",
    "src/store/",
    "python/hitl/cli/chat/",
    "python/hitl/turn/records.py",
)
"""Files whose settling is that of an interrupt or a notice."""

_OF_TURNS_THAT_ARE_HELD = (
    "src/engine/inbox.rs",
    "src/engine/mod.rs",
    "src/engine/placement/",
    "src/engine/ports/",
    "src/server/schema/records.rs",
    "src/supervisor/frames/incoming.rs",
    "python/hitl/driver/",
    "python/hitl/journal/ports.py",
    "python/hitl/turn/holding.py",
)
"""Files whose holding is that of a turn, kept from being parked."""


# -- the page -------------------------------------------------------------------------------------------------------


def test_each_word_says_where_it_is_in_the_code() -> None:
    # That it is there is held for this page as for all about the inside: tests/python/docs/test_named_code.py.
    assert not [row[0] for section in WORDS for row in rows(section) if not named(row[2])]
    assert str(PAGE.relative_to(ROOT)) in PAGES


def test_a_word_has_one_row() -> None:
    words = [row[0] for section in WORDS for row in rows(section)]
    assert len(words) > 40
    assert sorted(set(words)) == sorted(words)


def test_a_type_name_means_one_thing_or_is_listed_with_the_reason() -> None:
    listed = {name: row[1] for row in rows(DOUBLE) for name in in_backticks(row[0])}
    assert all(listed.values())
    found = doubles(declared())
    new = {name: found[name] for name in found.keys() - listed.keys()}
    assert not new, f"give them names of their own, or list them in docs/glossary.md with the reason: {new}"
    assert not listed.keys() - found.keys(), "docs/glossary.md lists what has one meaning by now"


def test_nothing_is_called_by_a_word_that_we_do_not_say() -> None:
    unsaid = [word for row in rows(UNSAID) for word in in_backticks(row[0])]
    assert len(unsaid) > 20
    said = [
        f"{file}: {name} ({word})"
        for file, items in declared().items()
        for kind, name, _ in items
        for word in unsaid
        if is_called(word, kind, name)
    ]
    assert not said


def test_only_interrupts_and_notices_are_settled() -> None:
    settling = re.compile(r"settl(e|es|ed|ing)(?![a-z])", re.IGNORECASE)
    others = [
        f"{file}: {name}"
        for file, items in declared().items()
        if not file.startswith(_OF_INTERRUPTS_AND_NOTICES)
        for _, name, _ in items
        if settling.search(name)
    ]
    assert not others


def test_only_turns_are_held() -> None:
    holding = re.compile(r"(?<![a-z])(un)?(hold(s|ing)?|held)(?![a-z])", re.IGNORECASE)
    others = [
        f"{file}: {name}"
        for file, items in declared().items()
        if not file.startswith(_OF_TURNS_THAT_ARE_HELD)
        for _, name, _ in items
        if holding.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    ]
    assert not others


# -- what finds it --------------------------------------------------------------------------------------------------


def test_a_name_is_double_where_one_of_its_files_shows_it_to_others() -> None:
    one = list(rust_items("pub(super) struct Place {}\nstruct Own;\nimpl Error for Place {\n    type Error = ();\n}\n"))
    other = list(rust_items("enum Place { Here }\nstruct Own;\n#[cfg(test)]\nmod tests {\n    pub struct Sample;\n}\n"))
    assert doubles({"a.rs": one, "b.rs": other, "c.rs": [("struct", "Sample", True)]}) == {"Place": ["a.rs", "b.rs"]}
    assert doubles({"a.rs": one, "a.py": list(python_items("class Place: ..."))}) == {}
    assert doubles({"a.rs": one, f"{_SCHEMAS}records.rs": one}) == {}


@pytest.mark.parametrize(
    ("word", "kind", "name", "is_it"),
    [
        ("Desk", "struct", "Desk", True),
        ("Desk", "class", "_Desk", True),
        ("Desk", "struct", "FrontDesk", False),
        ("Desk", "fn", "Desk", False),
        ("owed", "mod", "owed", True),
        ("rouse", "fn", "rouse", True),
        ("rouse", "fn", "rouse_all", False),
    ],
)
def test_a_word_is_said_where_it_is_the_whole_name(word: str, kind: str, name: str, is_it: bool) -> None:
    assert is_called(word, kind, name) is is_it
