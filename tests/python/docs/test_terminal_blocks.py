"""What documents have their reader type, from the first block of a page to the last: everything that they show comes.

`hitl serve` goes on until the page ends, or kills it. Its port, times and ids differ; the rest is as shown.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hitl.cli.text import plain
from tests.python.cli.terminal import Terminal
from tests.python.docs.blocks import DOCUMENTS, ROOT, Block, blocks, commands, files_before
from tests.python.docs.chatting import follow
from tests.python.support.served import START, Served, as_command, clean_environment

TYPED = {
    document: found
    for document in DOCUMENTS
    if (found := [block for block in blocks(document) if block.mark == "terminal"])
}
DOCUMENTED_URL = "http://127.0.0.1:8000"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIFFERS = re.compile(
    rf"{_UUID.pattern}|\bin [\d.]+s\b|hitl_[\w-]{{20,}}|\d{{4}}-\d\d-\d\dT[\d:.]+Z"
    r"|(?<=code version )\w+|(?<=Python )[\d.]+|(?<=head \d:)\w+"
)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)
    # A reader has none of the plugins that are here.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    with ExitStack() as stack:
        yield Reader(stack, monkeypatch)


@pytest.mark.parametrize("document", TYPED)
def test_what_is_typed_shows_what_is_shown(document: str, reader: Reader, tmp_path: Path) -> None:
    written: dict[str, str] = {}
    for block in TYPED[document]:
        for name, text in files_before(document, block.line).items():
            if written.get(name) != text:  # a server with `--reload` starts again when a file is written
                (tmp_path / name).write_text(text, encoding="utf-8")
                written[name] = text
        for command, shown in commands(block.text):
            reader.type(block, command, shown)


class Reader:
    """Somebody who follows a page, with two terminals in one directory."""

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stack = stack
        self._monkeypatch = monkeypatch
        self._server: subprocess.Popen[str] | None = None
        self._url = ""
        self._session = ""

    def type(self, block: Block, command: str, shown: str) -> None:
        """Type a command, and see what is shown below it."""
        where = f"{block.document}, block of line {block.line}\n$ {command}"
        command = _UUID.sub(self._session, command.replace(DOCUMENTED_URL, self._url or DOCUMENTED_URL))
        variables, words = _taken_apart(command)
        match words:
            case ["hitl", "serve", *arguments]:
                self._serve(arguments, variables, shown)
            case ["hitl", "chat", *arguments]:
                with Terminal("chat", *arguments, **_hitl_variables()) as terminal:
                    # What follows an id that is told here for the first time is the end of its line.
                    known = shown.replace(DOCUMENTED_URL, self._url)
                    follow(terminal, re.sub(rf"(?m)(?<!Session ){_UUID.pattern}$", "", known), self._url)
                    self._session = _UUID.findall(terminal.seen)[0]
            case ["pkill", "-9", *_]:
                assert self._server is not None
                self._server.kill()
                self._server.wait(START)
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                self._monkeypatch.setenv(name, _run(f"printf %s {value}"))
            case ["hitl", *arguments]:
                with Terminal(*arguments, **_hitl_variables(), HITL_URL=self._url or DOCUMENTED_URL) as terminal:
                    terminal.finish()
                    assert _lines(terminal.seen) == _lines(shown), where
            case ["pytest", *arguments]:
                printed = _run(shlex.join([sys.executable, "-m", "pytest", "-p", "hitl.testing.plugin", *arguments]))
                assert _lines(printed)[-len(_lines(shown)) :] == _lines(shown), f"{where}\n{printed}"
            case _:
                assert _lines(_run(command)) == _lines(shown), where

    def _serve(self, arguments: list[str], variables: dict[str, str], shown: str) -> None:
        if self._server is not None and self._server.poll() is None:
            self._end(self._server)
        agent, *flags = arguments
        # That `--reload` starts a server again has tests of its own; here it would be one process more for each.
        flags = [flag for flag in flags if flag != "--reload"]
        options: dict[str, Any] = {"port": 0, "log_format": "human"}  # as on a terminal
        options |= {name.removeprefix("HITL_").lower(): value for name, value in variables.items()}
        options |= {flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
        if "api_key_file" in options:
            options["api_key"] = Path(options.pop("api_key_file")).read_text(encoding="utf-8").strip()
        path = filter(None, [os.environ.get("PYTHONPATH")])
        program = Served.quick_program(agent, options)
        assert program is not None, f"an option that this test cannot give: {options}"
        server = self._server = subprocess.Popen(
            as_command(program),
            env={**clean_environment(), "PYTHONPATH": os.pathsep.join([str(ROOT), *path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._stack.callback(self._end, server)
        assert server.stdout is not None
        said = ""
        for line in server.stdout:
            said += plain(line)
            if " is served on " in line:
                break
        assert " is served on " in said, said
        self._url = said.split()[-1]
        # Of what its log says before, a page shows what it is about.
        expected = _lines(shown)
        assert [line for line in _lines(said.replace(self._url, DOCUMENTED_URL)) if line in expected] == expected, said

    @staticmethod
    def _end(server: subprocess.Popen[str]) -> None:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        server.wait(START)
        if server.stdout is not None:
            server.stdout.close()


def _taken_apart(command: str) -> tuple[dict[str, str], list[str]]:
    """Variables before a command, and its words."""
    words = command.split() if "$(" in command else shlex.split(command)
    variables: dict[str, str] = {}
    while words and (found := re.fullmatch(r"([A-Z_]+)=(\S*)", words[0])) is not None:
        variables[found[1]] = found[2]
        words.pop(0)
    if words[:1] == ["export"]:
        words = ["export", command.partition(" ")[2]]
    return variables, words


def _hitl_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("HITL_")}


def _run(command: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    return done.stdout


def _lines(text: str) -> list[str]:
    """Without what differs from time to time, and how wide a table is."""
    lines = (" ".join(_DIFFERS.sub("_", line.replace("─", " ")).split()) for line in text.splitlines())
    return [line for line in lines if line]
