"""The chat that the README shows, typed into a real terminal: everything it shows comes, in that order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.cli.terminal import Terminal
from tests.python.docs.blocks import DOCUMENTS, Block, blocks, commands
from tests.python.docs.chatting import follow
from tests.python.support.served import Served

CHATS = [block for document in DOCUMENTS for block in blocks(document) if block.mark == "chat"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served("hitl.examples.file_agent:agent", environment={"HITL_FILES": str(tmp_path / "files")}) as server:
        yield server


@pytest.mark.parametrize("block", CHATS, ids=lambda block: f"{block.document}:{block.line}")
def test_the_screen_is_as_shown(block: Block, served: Served, tmp_path: Path) -> None:
    ((command, shown),) = commands(block.text)
    assert command == "hitl chat http://127.0.0.1:8000"
    with Terminal("chat", served.url) as terminal:
        follow(terminal, shown, served.url)
    assert not (tmp_path / "files/old_logs.txt").exists()
    assert (tmp_path / "files/downloads/txt/lease.txt").exists()
