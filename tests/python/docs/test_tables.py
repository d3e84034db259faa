"""What the README and the page of options list is what there is, and what pages link to as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.docs.blocks import DOCUMENTS, ROOT
from tests.python.support.served import clean_environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONS = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of the table of a page, without its head."""
    table = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_the_options_of_serve_are_those_of_its_help() -> None:
    environment = clean_environment() | {"COLUMNS": "400", "TERM": "dumb", "NO_COLOR": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "hitl", "serve", "--help"],
        check=True,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    ).stdout
    options = {}
    for line in shown.splitlines():
        if (found := re.match(r"\W*(--[a-z-]+) .*?(?:\[default: (.*?)\])?\W*$", line)) and found[1] != "--help":
            options[found[1]] = found[2]
    documented = {option.strip("`"): default.strip("`") for option, default, _ in rows(OPTIONS)}

    assert documented.keys() == options.keys()
    for option, default in options.items():
        if option == "--workers":
            assert default == "(8 a processor as process, 64 a processor as task)"
            assert documented[option] == "8 a processor, 64 a processor with tasks"
        elif default is None:
            assert documented[option] in ("off", "none")
        else:
            assert documented[option].replace(",", "") == default.removesuffix(".0")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_table_has_a_head(document: str) -> None:
    """A line that is empty by mistake ends a table, and the rest of it is shown as text."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"^\|.*\n?(?:\|.*\n?)*", text, re.MULTILINE):
        lines = table.splitlines()
        assert re.fullmatch(r"[|:\- ]+", lines[1] if lines[1:] else ""), lines[0]


def anchors(document: Path) -> set[str]:
    """What headings can be linked to as, the way GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    source = ROOT / document
    for target, anchor in re.findall(r"\]\(([^)#]*?)(?:#([^)]*))?\)", source.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        there = source.parent / target if target else source
        assert there.exists(), f"{document} links to {target}"
        assert not anchor or anchor in anchors(there), f"{document} links to {target}#{anchor}"


def test_every_example_is_mentioned() -> None:
    of_others = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    ours = {f"hitl.examples.{path.stem}" for path in (ROOT / "python/hitl/examples").glob("*.py")}
    beside = {"examples/__init__.py", "hitl.examples.__init__", "hitl.examples.sample_files"}
    assert [name for name in sorted((of_others | ours) - beside) if name not in README] == []


def test_the_page_names_what_work_cannot_be_told() -> None:
    from hitl.cli.work import OF_REQUESTS

    named = re.findall(r"`(--[a-z-]+)`", OPTIONS.partition("## `hitl work`")[2])
    others = {"--store", "--api-key", "--allowed-host"}
    assert sorted(set(named) - others) == sorted(f"--{name.replace('_', '-')}" for name in OF_REQUESTS)
