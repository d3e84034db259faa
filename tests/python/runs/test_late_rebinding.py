"""What a program has imported from asyncio by name, before hitl has run anything, keeps its order in turns as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.python.support.served import clean_environment

PROGRAM = """
import asyncio, sys
from asyncio import as_completed, wait_for

import hitl
from hitl import ChatMessage

theirs = as_completed

async def asks(number):
    return number, await hitl.interrupt({"type": "number", "of": number})

async def agent(message, state):
    got = [await each for each in as_completed([asks(number) for number in range(8)])]
    return ChatMessage.assistant_message(content=str(all(answer == number for number, answer in got))), state

result = hitl.run_sync(agent, "go")
for asked in result.interrupts:
    result = hitl.run_sync(agent, result.state.answer(asked.id, asked.payload["of"]))
print(result.status, result.output, as_completed is theirs, as_completed is asyncio.as_completed)
"""


def test_tasks_of_as_completed_are_made_in_the_order_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.stdout == "idle True False True\n", done.stderr
