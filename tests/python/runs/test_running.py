"""hitl.run: pause, decide, go on, without a server."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, RunState, interrupt
from tests.python.runs.support import Files
from tests.python.support.agents import wrong_result


async def echo(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    reply = ChatMessage.assistant_message(content=f"you said {message.content}")
    return reply, [*state, message, reply]


async def test_an_agent_that_asks_nobody_answers_at_once() -> None:
    result = await hitl.run(echo, "hello")
    assert (result.status, result.output, result.interrupts, result.state) == ("idle", "you said hello", [], None)
    assert [message.content for message in result.messages] == ["hello", "you said hello"]


async def test_a_gated_tool_waits_and_runs_once_when_it_is_approved() -> None:
    files = Files()
    agent = files.agent("/a")
    paused = await hitl.run(agent, "clean up")
    [asked] = paused.interrupts
    assert (paused.status, asked.tool_name, asked.tool_args, asked.agent) == (
        "interrupted",
        "delete_file",
        {"path": "/a"},
        "ReActAgent",
    )
    assert files.deleted == []
    assert paused.state is not None
    done = await hitl.run(agent, paused.state.approve(asked))
    assert (done.status, done.output, files.deleted) == ("idle", "done", ["/a"])


async def test_decided_calls_run_and_the_others_stay_open_with_their_ids() -> None:
    files = Files()
    agent = files.agent("/a", "/b", "/c")
    first = await hitl.run(agent, "clean up")
    state = first.state
    assert state is not None
    a, b, c = first.interrupts
    second = await hitl.run(agent, state.approve(b))
    assert (second.status, files.deleted) == ("interrupted", ["/b"])
    assert [asked.id for asked in second.interrupts] == [a.id, c.id]
    state = second.state
    assert state is not None
    third = await hitl.run(agent, state.approve(a).reject(c, reason="in use"))
    assert (third.status, files.deleted) == ("idle", ["/b", "/a"])
    assert third.messages[-2].content == '{"error": "User rejected delete_file: in use"}'


async def test_an_interrupt_is_a_key_and_equal_ones_are_the_same_key() -> None:
    agent = Files().agent("/a", "/b")
    paused = await hitl.run(agent, "clean up")
    assert paused.state is not None
    a, b = paused.interrupts
    notes = {a: "first", b: "second"}
    assert notes[paused.state.interrupt(a.id)] == "first"
    assert len({a, b, *paused.state.interrupts}) == 2


async def test_a_state_without_decisions_comes_back_as_it_was() -> None:
    agent = Files().agent("/a", "/b")
    first = await hitl.run(agent, "clean up")
    assert first.state is not None
    again = await hitl.run(agent, first.state)
    assert again.interrupts == first.interrupts
    assert again.state is not None
    assert again.state.to_string() == first.state.to_string()


async def test_a_state_travels_as_text_with_its_decisions() -> None:
    files = Files()
    agent = files.agent("/a", "/b")
    first = await hitl.run(agent, "clean up")
    assert first.state is not None
    first.state.approve(first.interrupts[0])
    state = RunState.from_string(agent, first.state.to_string())
    assert state.answers == {first.interrupts[0].id: {"type": "approve"}}
    assert state.interrupts == first.interrupts[1:]
    done = await hitl.run(agent, state.reject(first.interrupts[1]))
    assert (done.output, files.deleted) == ("done", ["/a"])


@pytest.mark.parametrize("value", [False, 0, "", None, {"hex": "#fff"}])
async def test_any_json_is_an_answer(value: object) -> None:
    async def asks(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        got = await interrupt({"type": "color_picker"})
        return ChatMessage.assistant_message(content=repr(got)), state

    paused = await hitl.run(asks, "hello")
    assert paused.state is not None
    done = await hitl.run(asks, paused.state.answer(paused.interrupts[0], value))
    assert done.output == repr(value)


@pytest.mark.parametrize("seconds", [math.inf, 1e16, 1e300])
async def test_a_timer_that_never_fires_keeps_no_run_from_waiting(seconds: float) -> None:
    async def asks(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        sleeping = asyncio.ensure_future(asyncio.sleep(seconds))
        got = await asyncio.wait_for(interrupt({"type": "q"}), seconds)
        sleeping.cancel()
        return ChatMessage.assistant_message(content=got), state

    paused = await hitl.run(asks, "hello")
    assert paused.state is not None
    done = await hitl.run(asks, RunState.from_string(asks, paused.state.answer(paused.interrupts[0], "a").to_string()))
    assert done.output == "a"


async def test_a_failing_agent_is_a_result() -> None:
    async def fails(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        raise LookupError("no such thing")

    result = await hitl.run(fails, "hello")
    assert (result.status, result.error, result.error_code) == ("error", "LookupError: no such thing", "agent_error")
    assert isinstance(result.exception, LookupError)
    assert (result.output, result.state) == (None, None)


@pytest.mark.parametrize("option", ["hold", "replay_timeout"])
@pytest.mark.parametrize(
    ("given", "kind"),
    [("60", TypeError), (None, TypeError), (True, TypeError), (-1, ValueError), (math.nan, ValueError)],
)
async def test_a_time_that_is_none_is_refused(option: str, given: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=rf"hitl\.run\(\) {option} (is a number of seconds|must be 0 seconds or more), got"):
        await hitl.run(echo, "hello", **{option: given})  # type: ignore[misc]  # that is wrong


async def test_a_wrong_tool_call_is_the_error_of_its_run() -> None:
    result = await hitl.run(wrong_result, "call")
    assert (result.status, result.error_code) == ("error", "agent_error")
    assert result.error == (
        "TypeError: Agent must return a ChatMessage that can be sent as its response: "
        "ChatMessage.tool_calls[0].function.arguments must be a str of JSON, got dict"
    )


def test_without_a_loop_it_blocks() -> None:
    files = Files()
    agent = files.agent("/a")
    paused = hitl.run_sync(agent, "clean up")
    assert paused.state is not None
    assert hitl.run_sync(agent, paused.state.approve(paused.interrupts[0])).output == "done"
    assert files.deleted == ["/a"]


async def test_inside_a_loop_the_blocking_face_names_the_other_one() -> None:
    with pytest.raises(RuntimeError, match=r"use: await hitl\.run"):
        hitl.run_sync(echo, "hello")


async def test_a_session_in_a_store_goes_on_where_its_last_turn_ended(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'runs.db'}"
    await hitl.run(echo, "one", store=address, session="alice")
    second = await hitl.run(echo, "two", store=address, session="alice")
    assert [message.content for message in second.messages] == ["one", "you said one", "two", "you said two"]


async def test_a_new_message_while_a_session_waits_is_refused_with_its_state(tmp_path: Path) -> None:
    files = Files()
    agent = files.agent("/a")
    async with hitl.Store(tmp_path / "runs.db") as store:
        paused = await hitl.run(agent, "clean up", store=store, session="alice")
        with pytest.raises(hitl.RunInterrupted) as refused:
            await hitl.run(agent, "hello?", store=store, session="alice")
        state = refused.value.state
        assert state.interrupts == paused.interrupts
        assert (await hitl.run(agent, state.approve(paused.interrupts[0]), store=store)).output == "done"


async def test_the_same_state_does_not_run_a_tool_twice_with_a_store(tmp_path: Path) -> None:
    files = Files()
    agent = files.agent("/a")
    async with hitl.Store(tmp_path / "runs.db") as store:
        paused = await hitl.run(agent, "clean up", store=store)
        assert paused.state is not None
        state = paused.state.approve(paused.interrupts[0])
        assert (await hitl.run(agent, state)).output == "done"
        with pytest.raises(hitl.AlreadyResumed):
            await hitl.run(agent, state)
    assert files.deleted == ["/a"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({1: "one", None: 2}, {"1": "one", "null": 2}),
        ({"pair": (1, 2)}, {"pair": [1, 2]}),
        ({"large": 2**64}, {"large": 2.0**64}),
        ({"deep": {"er": [1.5, "\u00fc\U0001f600"]}}, {"deep": {"er": [1.5, "\u00fc\U0001f600"]}}),
    ],
)
async def test_what_an_agent_returns_is_kept_as_its_json(given: Any, kept: Any) -> None:
    """As in a worker, between which and its server there are bytes."""

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        return ChatMessage.assistant_message(content="done", user_params=given), [message]

    result = await hitl.run(agent, "go")
    assert result.response is not None
    assert result.response.user_params == kept


@pytest.mark.parametrize("given", [float("nan"), {"a set"}, "\ud800", b"bytes"])
async def test_an_agent_that_returns_what_is_no_json_fails(given: Any) -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        return ChatMessage.assistant_message(content="done", user_params={"value": given}), [message]

    result = await hitl.run(agent, "go")
    assert (result.status, result.error_code) == ("error", "agent_error")


@pytest.mark.parametrize("given", [2**70, 2**64, -(2**63) - 1])
async def test_a_message_with_a_number_that_would_come_as_another_one_is_refused(given: int) -> None:
    message = ChatMessage.user_message("go", user_params={"value": [given]})
    with pytest.raises(ValueError, match=rf"the message cannot be stored: user_params.value.0: {given} would be read"):
        await hitl.run(echo, message)


async def test_a_value_that_nests_too_deeply_fails_its_step() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        nested: Any = []
        for _ in range(200):
            nested = [nested]
        return ChatMessage.assistant_message(content="done", user_params={"value": nested}), [message]

    result = await hitl.run(agent, "go")
    assert result.status == "error"
    assert result.error is not None
    assert "nested too deeply" in result.error


async def test_code_that_raises_before_it_asks_again_says_what_it_raised() -> None:
    @hitl.agent(name="books")
    async def asks(message: ChatMessage, state: list[ChatMessage]) -> Any:
        return await interrupt({"type": "confirm"})

    @hitl.agent(name="books")
    async def raises(message: ChatMessage, state: list[ChatMessage]) -> Any:
        raise LookupError("no such table")

    paused = await hitl.run(asks, "go")
    assert paused.state is not None
    failed = await hitl.run(raises, paused.state.answer(paused.interrupts[0], True))
    assert failed.error_code == "replay_mismatch"
    assert (failed.error or "").endswith("\n\nthe agent raised LookupError: no such table")
    assert failed.state is not None


def asking(version: str) -> Any:
    @hitl.agent(pin=True, version=version)
    async def asks(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        answer = await interrupt({"type": "name"})
        return ChatMessage.assistant_message(content=f"{version}: {answer}"), state

    return asks


async def test_an_agent_that_is_pinned_goes_on_with_what_its_own_code_recorded() -> None:
    paused = await hitl.run(asking("1"), "go")
    state = paused.state
    assert state is not None
    state = state.answer(paused.interrupts[0], "Ada")
    other = await hitl.run(asking("2"), state)
    assert (other.status, other.error_code) == ("error", "code_pinned")
    assert "recorded by code 1" in (other.error or "")
    assert other.state is not None
    assert (await hitl.run(asking("1"), other.state)).output == "1: Ada"
