"""Requests shown in the documents, sent as shown to a real server, whose replies are those that are shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.python.docs.blocks import DOCUMENTS, agrees, blocks, commands
from tests.python.support.served import Served

CONSOLE = {
    document: found
    for document in DOCUMENTS
    if (found := [block for block in blocks(document) if block.mark == "console"])
}
DOCUMENTED_URL = "http://127.0.0.1:8000"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served("hitl.examples.file_agent:agent", environment={"HITL_FILES": str(tmp_path / "files")}) as server:
        yield server


@pytest.mark.parametrize("document", CONSOLE)
def test_replies_are_as_shown(document: str, served: Served) -> None:
    reader = Reader(served.url)
    for block in CONSOLE[document]:
        for command, shown in commands(block.text):
            reply = reader.run(command)
            try:
                agrees(shown, reply)
            except AssertionError as error:
                raise AssertionError(f"{document}, block of line {block.line}\n$ {command}\n{reply}") from error


class Reader:
    """Somebody who follows a document: types its commands, with the ids that the replies brought."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._variables: dict[str, str] = {}

    def run(self, command: str) -> Any:
        for name, value in self._variables.items():
            command = command.replace(f"${name}", value)
        assert "$" not in command, f"nothing before has told the value of a variable in: {command}"
        reply = curl(shlex.split(command.replace(DOCUMENTED_URL, self._url)))
        self._variables.setdefault("SESSION", reply.get("session_id", ""))
        if reply.get("interrupts"):
            self._variables["INTERRUPT"] = reply["interrupts"][0]["interrupt_id"]
        return reply


def curl(words: list[str]) -> Any:
    """What `curl` would print, for the options that the documents use: it is not on every machine."""
    assert words.pop(0) == "curl"
    method, headers, body, url = None, {}, None, ""
    while words:
        match words.pop(0):
            case "-s":
                pass
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(":")
                headers[name.strip()] = value.strip()
            case "-d":
                body = words.pop(0)
            case word:
                assert not word.startswith("-"), f"an option this test does not know: {word}"
                url = word
    with httpx2.Client(timeout=100, trust_env=False) as http:
        return http.request(method or ("GET" if body is None else "POST"), url, headers=headers, content=body).json()
