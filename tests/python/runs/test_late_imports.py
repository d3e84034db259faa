"""The code version of an agent that imports something while it runs is that of its first run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hitl
from tests.python.support.imported import forget

AGENT = """
import hitl
from hitl import ChatMessage, interrupt

@hitl.agent(pin=True)
async def agent(message, state):
    from late_words import greeting

    return ChatMessage.assistant_message(content=f"{greeting} {await interrupt({'type': 'name'})}"), state
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("late_words.py").write_text("greeting = 'Hello'\n")
    Path("pinned_agent.py").write_text(AGENT)
    yield importlib.import_module("pinned_agent")
    forget(tmp_path)


async def test_a_pinned_turn_goes_on_in_the_process_that_has_imported_something_since(module: Any) -> None:
    paused = await hitl.run(module.agent, "hi")
    assert paused.state is not None
    done = await hitl.run(module.agent, paused.state.answer(paused.interrupts[0], "Ann"))
    assert (done.status, done.output, done.error) == ("idle", "Hello Ann", None)


async def test_a_module_that_is_loaded_again_has_the_version_of_what_stands_there_now(module: Any) -> None:
    paused = await hitl.run(module.agent, "hi")
    assert paused.state is not None
    Path("pinned_agent.py").write_text(AGENT.replace("{greeting}", "{greeting}, dear"))
    importlib.reload(module)
    done = await hitl.run(module.agent, paused.state.answer(paused.interrupts[0], "Ann"))
    assert (done.status, done.error_code) == ("error", "code_pinned")
