"""`hitl replay-check` as a document shows it: on its own agent, in two versions that differ as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hitl import Server
from hitl.client import Client
from tests.python.cli.terminal import Terminal
from tests.python.docs.blocks import DOCUMENTS, Block, blocks, commands

CHECKS = [block for document in DOCUMENTS for block in blocks(document) if block.mark == "check"]
_DIFFERS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=Python )[\d.]+|(?<=shop\.py:)\d+|─+")


def lines(text: str) -> list[str]:
    """Without what differs from machine to machine, and how wide a table is."""
    words = (" ".join(_DIFFERS.sub("_", line).split()) for line in text.splitlines())
    return [line for line in words if line]


@pytest.mark.parametrize("block", CHECKS, ids=lambda block: f"{block.document}:{block.line}")
def test_the_report_is_as_shown(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((command, shown),) = commands(block.text)
    program, *arguments = command.split()
    assert program == "hitl"
    source = next(other.text for other in blocks(block.document) if "async def buyer(" in other.text)
    source = source.partition("\n\n\ndef test_")[0].replace("async def buyer(", "{0}\nasync def buyer(")
    shop = Path("shop.py")
    shop.write_text(source.replace("{0}", '@hitl.agent(version="1")'))
    with Server("shop:buyer", port=0, store="sqlite:hitl.db", park_after=0) as server, Client(server.url) as client:
        assert client.ask(client.create_session().session_id, "a hat ").status == "interrupted"
    edited = source.replace("{0}", '@hitl.agent(version="2")').replace(
        'message.content or "")', '(message.content or "").strip())'
    )
    shop.write_text(edited)
    with Terminal(*arguments) as terminal:
        assert terminal.finish() == 1
        assert lines(terminal.seen) == lines(shown)
