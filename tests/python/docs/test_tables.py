"""What the README and the page of options list is what there is, and what pages link to as well."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
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


def _lines_to_type() -> Iterator[tuple[str, str, str]]:
    """Of each document, template and manifest: its name, a line, and the lines that stand right above it."""
    made_from = [
        *ROOT.glob("python/hitl/cli/project/*"),
        *(path for path in ROOT.glob("deploy/**/*") if path.is_file()),
    ]
    for path in [*(ROOT / name for name in DOCUMENTS), *made_from]:
        lines = path.read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            yield str(path.relative_to(ROOT)), line, "\n".join(lines[max(0, at - 3) : at])


def test_no_server_for_others_is_shown_without_a_key() -> None:
    with_others = re.compile(r"hitl serve .*--(allowed-host|host) (?!127\.0\.0\.1|localhost)")
    shown = [(name, line, above) for name, line, above in _lines_to_type() if with_others.search(line)]
    assert shown != []
    keys = ("HITL_API_KEY", "--api-key", "--insecure")
    assert [f"{name}: {line}" for name, line, above in shown if not any(key in above + line for key in keys)] == []


def test_no_key_is_made_that_only_one_command_knows() -> None:
    made = re.compile(r"HITL_API_KEY=\"?\$\(openssl")
    alone = [f"{name}: {line}" for name, line, _ in _lines_to_type() if made.search(line) and "export HITL" not in line]
    assert alone == []


def test_the_page_names_what_work_cannot_be_told() -> None:
    from hitl.cli.work import OF_REQUESTS

    named = re.findall(r"`(--[a-z-]+)`", OPTIONS.partition("## `hitl work`")[2])
    others = {"--store", "--api-key", "--allowed-host"}
    assert sorted(set(named) - others) == sorted(f"--{name.replace('_', '-')}" for name in OF_REQUESTS)
