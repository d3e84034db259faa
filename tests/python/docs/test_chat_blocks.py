"""The chat that the README shows, typed into a real terminal: everything it shows comes, in that order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.cli.terminal import CTRL_D, DOWN, ENTER, Terminal
from tests.python.docs.blocks import DOCUMENTS, Block, blocks, commands
from tests.python.support.served import Served

CHATS = [block for document in DOCUMENTS for block in blocks(document) if block.mark == "chat"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served("hitl.examples.file_agent:agent", environment={"HITL_FILES": str(tmp_path / "files")}) as server:
        yield server


@pytest.mark.parametrize("block", CHATS, ids=lambda block: f"{block.document}:{block.line}")
def test_the_screen_is_as_shown(block: Block, served: Served, tmp_path: Path) -> None:
    ((command, shown),) = commands(block.text)
    assert command == "uv run hitl chat http://127.0.0.1:8000"
    with Terminal("chat", served.url) as terminal:
        for line in shown.splitlines():
            if line.startswith("Session "):
                terminal.expect(f"at {served.url}")
            elif line.startswith("> "):
                act(terminal, line.removeprefix("> "))
            else:
                terminal.expect(line)
        terminal.expect(">")
        terminal.send(CTRL_D)
        assert terminal.finish() == 0
    assert not (tmp_path / "files/old_logs.txt").exists()
    assert (tmp_path / "files/downloads/txt/lease.txt").exists()


def act(terminal: Terminal, line: str) -> None:
    """Do what leaves `line` on the screen: choose an answer, or type a message."""
    if (choice := re.fullmatch(r"(\w+): (?:(Yes)|No: (.+))", line)) is not None:
        terminal.expect(f"Run {choice[1]}?")
        terminal.expect("to leave it for later")
        if choice[2]:
            terminal.send(ENTER)
        else:
            terminal.send(DOWN + DOWN + ENTER)
            terminal.expect("Why not?")
            terminal.send(choice[3] + ENTER)
        terminal.expect(line)
    elif (answer := re.fullmatch(r"(.+\?): By type", line)) is not None:
        terminal.expect(answer[1])
        terminal.expect("to leave it for later")
        terminal.send(ENTER)
        terminal.expect(line)
    else:
        terminal.expect(">")
        terminal.send(line + ENTER)
