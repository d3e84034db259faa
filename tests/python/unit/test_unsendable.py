"""What a turn has to say and cannot send: somebody hears of it, whenever that comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ErrorResult, ReActAgent, approval, interrupt, step
from hitl.journal.ports import InterruptRequest, PendingTimer, StepIdentity
from hitl.testing import ScriptedChatClient
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, Journal, LocalPort, LocalTurn
from tests.python.unit.conditions import until_waiting
from tests.python.unit.crashed import recorded, replayed

NO_TEXT = "report\udcff.txt"
"""As `os.listdir` has a name that is no UTF-8."""

REFUSED = ValueError("that cannot be sent")


@dataclass
class NarrowPort(LocalPort):
    """Cannot send what is called `wide`."""

    def ask(self, step: StepIdentity, interrupt: InterruptRequest) -> int:
        if interrupt["type"] == "wide":
            raise REFUSED
        return super().ask(step, interrupt)

    def intent(self, step: StepIdentity, arguments: Mapping[str, Any] | None = None) -> int:
        if step["name"].endswith("wide"):
            raise REFUSED
        return super().intent(step, arguments)

    def started(self, step: StepIdentity, arguments: Mapping[str, Any] | None) -> None:
        if step["name"] == "wide":
            raise REFUSED
        super().started(step, arguments)

    def waiting(self, seen: int | None, timers: list[PendingTimer], context: Any) -> None:
        if context == "wide":
            raise REFUSED
        super().waiting(seen, timers, context)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.python.support.local.LocalPort", NarrowPort)


async def wide() -> str:
    return "ran"


async def run_tool() -> Any:
    return await current_turn().run_step("tool", "wide", wide)


asked: Callable[[], Any] = lambda: interrupt({"type": "wide"})  # noqa: E731 - called in the turn, as the others
once: Callable[[], Any] = step(once=True)(wide)


def journal_before(journal: Journal) -> Journal:
    """Up to the answer: what comes next is asked for at the end of a replay."""
    answers = [index for index, entry in enumerate(journal) if entry["entry"] == "answer"]
    return journal[: answers[0] + 1]


# -- what the agent is told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [asked, once, run_tool])
async def test_what_cannot_be_sent_is_raised_where_it_was_asked_for(make: Callable[[], Any]) -> None:
    async def agent() -> str:
        await interrupt({"type": "narrow"})
        try:
            await make()
        except ValueError as error:
            return str(error)
        return "nothing was raised"

    local = LocalTurn(lambda ask: True)
    assert await local.run(agent) == str(REFUSED)
    await local.end()
    before = journal_before(local.port.journal)
    for cut in range(1, len(before) + 1):
        assert (await replayed(agent, before[:cut], lambda ask: True))[0] == str(REFUSED)
    assert (await replayed(agent, local.port.journal))[0] == str(REFUSED)


async def test_a_turn_that_was_told_so_waits_for_people_all_the_same() -> None:
    async def agent() -> None:
        with pytest.raises(ValueError, match="cannot be sent"):
            await interrupt({"type": "wide"})
        await hitl.step(bool)
        await current_turn().run_in_thread(bool)
        assert not current_turn().order.records.is_asking
        await interrupt({"type": "narrow"})

    local = LocalTurn(lambda ask: PENDING)
    local.start(agent)
    await until_waiting(local)
    assert [each.request["type"] for each in local.port.interrupts] == ["narrow"]
    await local.end()


async def test_a_start_that_fails_at_the_end_of_a_replay_fails_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def agent() -> None:
        await interrupt({"type": "narrow"})
        await hitl.step(wide)

    local = await recorded(agent, lambda ask: True)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("hitl.turn.bodies.start_body", broken)
    with pytest.raises(ZeroDivisionError):
        await replayed(agent, journal_before(local.port.journal))


@pytest.mark.parametrize(
    ("place", "make"), [("bodies.start_body", lambda: hitl.step(wide)), ("records.Records.send_ask", asked)]
)
async def test_nobody_waits_for_what_could_not_begin(
    monkeypatch: pytest.MonkeyPatch, place: str, make: Callable[[], Any]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(f"hitl.turn.{place}", broken)

    async def agent() -> list[bool]:
        turn = current_turn()
        path = turn._here().following_step()
        with pytest.raises(ZeroDivisionError):
            await make()
        return [turn.order.is_expected(path), turn.order.records.is_asking]

    assert await LocalTurn().run(agent) == [False, False]


async def test_a_context_that_cannot_be_sent_fails_the_turn() -> None:
    local = LocalTurn(lambda ask: PENDING, context="wide")
    with pytest.raises(TypeError, match="the context of a run that waits must be JSON: that cannot be sent"):
        await local.run(lambda: interrupt({"type": "narrow"}))


# -- text that is none -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["message", "key"])
async def test_a_question_takes_no_text_that_is_no_utf_8(option: str) -> None:
    async def agent() -> Any:
        return await interrupt({"type": "narrow"}, **{option: NO_TEXT})  # type: ignore[misc]  # either is a str

    with pytest.raises(ValueError, match=rf"interrupt\(\) {option} holds a lone surrogate, which UTF-8 cannot carry"):
        await LocalTurn().run(agent)


@pytest.mark.parametrize("option", ["description", "key", "agent", "source", "tool_call_id", "tool_name"])
async def test_nor_does_the_approval_of_a_call(option: str) -> None:
    async def agent() -> Any:
        given: dict[str, Any] = {"tool_name": "pay", "args": {}, option: NO_TEXT}
        return await approval(**given)

    with pytest.raises(ValueError, match=rf"approval\(\) {option} holds a lone surrogate, which UTF-8 cannot carry"):
        await LocalTurn(lambda ask: {"type": "approve"}).run(agent)


async def test_nor_does_a_step_as_its_key() -> None:
    with pytest.raises(ValueError, match="the key of step '.*wide' holds a lone surrogate"):
        await LocalTurn().run(step(key=NO_TEXT)(wide))


async def ask_about_files(message: ChatMessage, state: list[ChatMessage]) -> Any:
    await interrupt({"type": "confirm"})
    await interrupt({"type": "confirm"}, message=f"Delete {NO_TEXT}?")


async def test_a_run_that_asks_so_once_it_was_answered_ends_with_that() -> None:
    paused = await hitl.run(ask_about_files, "go")
    assert paused.state is not None
    ended = await hitl.run(ask_about_files, paused.state.answer(paused.interrupts[0], True))
    assert isinstance(ended, ErrorResult)
    assert "lone surrogate" in ended.error


async def test_what_a_model_says_is_kept_as_far_as_it_is_text() -> None:
    said = ScriptedChatClient([{"content": "a\ud83d\ude00b\ud83dc"}])
    stream = hitl.stream(ReActAgent(said, "scripted"), "go")
    heard = [event.delta["content"] async for event in stream if event.delta]
    assert stream.result.error is None
    assert "".join(heard) == stream.result.output == "a\U0001f600b\ufffdc"


async def test_a_run_takes_no_message_that_is_none() -> None:
    with pytest.raises(ValueError, match="^the message holds a lone surrogate, which UTF-8 cannot carry"):
        await hitl.run(ask_about_files, NO_TEXT)


async def test_nor_one_that_holds_what_is_no_json() -> None:
    message = ChatMessage.user_message(content="go", user_params={"share": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        await hitl.run(ask_about_files, message)
