"""What the pages about the inside name is there: each file, and each function in the file where it is said to be.

A page that follows a message from function to function is worth something for as long as each of them is where it says.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.docs.blocks import ROOT
from tests.python.docs.named_code import DECISIONS, PAGES, complaint, defines, named, places

SECTIONS = ["What", "Why", "Measured", "What would change our mind"]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_function_that_a_page_names_is_there(page: str) -> None:
    wrong = [what for reference in named(text_of(page)) if (what := complaint(reference)) is not None]
    # Where files have moved: `python -m tests.python.docs.named_code` writes their new places into the pages.
    assert not wrong, "\n".join(wrong)


_PAGE_OR_EXAMPLE = re.compile(r"(?<![\w./])(?:examples/\w+\.py|docs/[\w/-]+\.md)")


def said_in(file: Path) -> Iterator[str]:
    """Comments and docstrings of a file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".rs":
        yield from re.findall(r"//.*", text)
        return
    with file.open("rb") as source:
        yield from (token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(text)):
        # Also those of attributes, which stand below them.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@pytest.mark.parametrize("folder", ["python", "examples", "tests", "tools", "benchmarks", "src", "benches"])
def test_every_page_and_example_that_a_comment_names_is_there(folder: str) -> None:
    files = [file for file in sorted((ROOT / folder).rglob("*")) if file.suffix in (".py", ".rs")]
    assert files
    named_there = [(file, name) for file in files for said in said_in(file) for name in _PAGE_OR_EXAMPLE.findall(said)]
    assert [f"{file.relative_to(ROOT)}: {name}" for file, name in named_there if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_functions_that_it_is_about(page: str) -> None:
    assert [reference for reference in named(text_of(page)) if "::" in reference]


def test_the_architecture_names_a_test_for_each_invariant() -> None:
    section = text_of("docs/architecture.md").partition("\n## Invariants\n")[2]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for row in rows:
        held_by = row.rstrip("| ").rpartition(" | ")[2]
        assert any("::" in reference and _is_of_a_test(reference) for reference in named(held_by)), row


def _is_of_a_test(reference: str) -> bool:
    return any(word in reference for word in ("test", "src/store/contract/", "properties.rs"))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_says_what_why_what_was_measured_and_what_would_change_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert len(text.splitlines()) <= 80


def test_the_index_lists_every_decision_once() -> None:
    linked = re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \|", text_of("docs/decisions/README.md"), re.MULTILINE)
    own = [link for link in linked if "/" not in link]
    assert sorted(own) == [path.name for path in DECISIONS]


HERE = "tests/python/docs/named_code.py"


@pytest.mark.parametrize("reference", [HERE, "tests/python/docs", f"{HERE}::places", f"{HERE}::PAGES"])
def test_what_is_there_is_found(reference: str) -> None:
    assert complaint(reference) is None


@pytest.mark.parametrize(
    "reference", ["src/no/such_file.rs", "tests/python/docs::places", f"{HERE}::no_such", f"{HERE}::places.no_such"]
)
def test_what_is_not_there_is_found_out(reference: str) -> None:
    assert str(complaint(reference)).startswith(f"{reference}: ")


@pytest.mark.parametrize("reference", ["tests/python/elsewhere/named_code.py", "tests/other.py::complaint"])
def test_what_has_moved_is_said_with_its_new_place(reference: str) -> None:
    name = reference.partition(".py")[2]
    assert places(reference) == [HERE + name]
    assert HERE + name in str(complaint(reference))


RUST = """
pub(super) fn free(text: &str) -> String {
    text.to_owned()
}

pub enum Entry {
    /// It began.
    Start { at: u64 },
}

impl Dispatch for Arc<Supervisor> {
    fn park(&self) {}
}

impl<'a> Reader for Handle<'a> {
    fn read(&self) {
        let written = 1;
    }
}
"""
PYTHON = """
LIMIT: int = 3

class Order:
    def settle(self) -> None: ...

    class Inner:
        async def run(self) -> None: ...
"""


@pytest.mark.parametrize(
    ("source", "name", "is_there"),
    [
        (RUST, "free", True),
        (RUST, "park", True),
        (RUST, "Dispatch::park", True),
        (RUST, "Supervisor::park", True),
        (RUST, "Handle::read", True),
        (RUST, "Entry::Start", True),
        (RUST, "Handle::park", False),
        (RUST, "Entry::read", False),
        (RUST, "began", False),
        (RUST, "written", False),
        (PYTHON, "LIMIT", True),
        (PYTHON, "Order.settle", True),
        (PYTHON, "Order.Inner.run", True),
        (PYTHON, "settle", False),
        (PYTHON, "Order.run", False),
    ],
)
def test_an_item_is_found_below_its_owner_alone(source: str, name: str, is_there: bool) -> None:
    suffix = ".rs" if source is RUST else ".py"
    assert defines(source, suffix, re.split(r"::|\.", name)) is is_there
