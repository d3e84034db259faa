"""Doing in a chat what leaves the lines on the screen that a document shows."""

from __future__ import annotations

import re

from tests.python.cli.terminal import CTRL_C, CTRL_D, DOWN, ENTER, Terminal

_ASKED = "Answer as JSON (Ctrl-C to leave it for later): "
LEFT = "Not answered; it stays open."
"""What a chat says that was left at a question with Ctrl-C."""


def follow(terminal: Terminal, shown: str, url: str) -> None:
    """Do and see all that is shown, then leave. One that ends at a question, or with `^D`, has left by that."""
    answered = asked = ""
    for line in shown.splitlines():
        if line.startswith("Session "):
            terminal.expect(f"at {url}")
        elif line == "> ^D":
            terminal.expect(">")
            terminal.send(CTRL_D)
        elif answered and re.fullmatch(rf"> \w+: {re.escape(answered)}", line):
            terminal.expect(line)
            answered = ""
        elif (title := re.match(r"╭─ The agent asks \((\w+)\)", line)) is not None:
            asked = title[1]
            terminal.expect(line)
        elif asked and (choice := re.fullmatch(rf"> {asked}: (.+)", line)) is not None:
            _expect_menu(terminal, "Your answer?")
            terminal.send(choice[1] + ENTER)
            terminal.expect(line)
        elif line.startswith("> "):
            act(terminal, line.removeprefix("> "))
        elif line == LEFT:
            _expect_menu(terminal, "?")
            terminal.send(CTRL_C)
            terminal.expect(line)
        elif line.startswith(_ASKED):
            terminal.expect(_ASKED)
            answered = line.removeprefix(_ASKED)
            terminal.send(answered + ENTER)
        else:
            terminal.expect(line)
    if f"{LEFT}\n" in shown:
        assert terminal.finish() == 130
        return
    if "> ^D\n" in shown:
        assert terminal.finish() == 0
        return
    terminal.expect(">")
    terminal.send(CTRL_D)
    assert terminal.finish() == 0


def _expect_menu(terminal: Terminal, title: str) -> None:
    terminal.expect(title)
    terminal.expect("to leave it for later")


def act(terminal: Terminal, line: str) -> None:
    """Do what leaves `line` on the screen: choose an answer, or type a message."""
    if (choice := re.fullmatch(r"(\w+): (?:(Yes)|No: (.+))", line)) is not None:
        _expect_menu(terminal, f"Run {choice[1]}?")
        if choice[2]:
            terminal.send(DOWN + ENTER)
        else:
            terminal.send(DOWN + DOWN + DOWN + ENTER)
            terminal.expect("Why not?")
            terminal.send(choice[3] + ENTER)
        terminal.expect(line)
    elif (answer := re.fullmatch(r"(.+\?): By type", line)) is not None:
        _expect_menu(terminal, answer[1])
        terminal.send(DOWN + ENTER)
        terminal.expect(line)
    else:
        terminal.expect(">")
        terminal.send(line + ENTER)
