"""`hitl policy test` as a document shows it, on the rules that it shows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.python.cli.terminal import Terminal
from tests.python.docs.blocks import DOCUMENTS, Block, blocks, commands

POLICIES = [block for document in DOCUMENTS for block in blocks(document) if block.mark == "policy"]


def words(text: str) -> list[str]:
    """The lines, without how wide a table is."""
    lines = (" ".join(line.replace("─", " ").split()) for line in text.splitlines())
    return [line for line in lines if line]


@pytest.mark.parametrize("block", POLICIES, ids=lambda block: f"{block.document}:{block.line}")
def test_the_rules_say_what_is_shown(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (rules,) = (other.text for other in blocks(block.document) if other.language == "toml")
    Path("policy.toml").write_text(rules, encoding="utf-8")
    for command, shown in commands(block.text):
        program, *arguments = shlex.split(command)
        assert program == "hitl"
        with Terminal(*arguments) as terminal:
            assert terminal.finish() == 0
            assert words(terminal.seen) == words(shown)
