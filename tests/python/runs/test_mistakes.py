"""A mistake of hitl's own ends the run that it happened to, with that error, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ErrorResult, interrupt, step
from hitl.driver.port import ChannelPort
from hitl.runs.turns import RunTurn

State = list[ChatMessage]

FAILS = 60.0
"""Seconds after which a run that hangs has hung."""


class Mistake(Exception):
    """What should not happen."""


class Agent:
    """Does a step and asks, and knows whether it was stopped."""

    def __init__(self) -> None:
        self.stopped = 0

    async def __call__(self, message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
        try:
            await step(int)
            answer = await interrupt({"about": message.content})
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return ChatMessage.assistant_message(content=f"{message.content}: {answer}"), state


async def beside(agent: Any, *running: Any) -> list[Any]:
    """What these come to, with a run beside them that goes on to its end."""
    *came, paused = await asyncio.wait_for(
        asyncio.gather(*running, hitl.run(agent, "beside"), return_exceptions=True), FAILS
    )
    done = await asyncio.wait_for(hitl.run(agent, paused.state.answer(paused.interrupts[0], "yes")), FAILS)
    assert done.output == "beside: yes"
    return came


def fails_for_one(real: Any, monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> None:
    """``holder.name`` raises once."""
    mistakes = [Mistake("ours")]

    def fails(*args: Any, **kwargs: Any) -> Any:
        if mistakes:
            raise mistakes.pop()
        return real(*args, **kwargs)

    monkeypatch.setattr(holder, name, fails)


async def test_a_turn_that_cannot_be_made_is_how_its_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_for_one(RunTurn.__init__, monkeypatch, RunTurn, "__init__")
    agent = Agent()
    (came,) = await beside(agent, hitl.run(agent, "one"))
    assert isinstance(came, ErrorResult)
    assert (came.error, came.error_code) == ("Mistake: ours", "journal_unreadable")
    assert isinstance(came.exception, Mistake)
    assert "Mistake: ours" in capsys.readouterr().err


async def test_and_the_state_that_it_was_given_goes_on_once_that_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    paused = await hitl.run(agent, "one")
    assert paused.state is not None
    decided = paused.state.answer(paused.interrupts[0], "yes")
    fails_for_one(RunTurn.__init__, monkeypatch, RunTurn, "__init__")
    (came,) = await beside(agent, hitl.run(agent, decided))
    assert isinstance(came, ErrorResult)
    assert came.state is not None
    assert (await hitl.run(agent, came.state)).output == "one: yes"


async def test_a_word_of_the_core_that_a_turn_cannot_take_is_raised_and_stops_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fails_for_one(ChannelPort.receive, monkeypatch, ChannelPort, "receive")
    agent = Agent()
    (came,) = await beside(agent, hitl.run(agent, "one"))
    assert isinstance(came, Mistake)
    assert agent.stopped == 1
