"""What a program gives to a run by mistake is told by its name, and what to give instead."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import ReActAgent, Server, StoreError
from hitl.testing import ScriptedChatClient
from tests.python.runs.support import Files


def answering() -> ReActAgent:
    return ReActAgent(ScriptedChatClient([{"content": "done"}]), "scripted")


async def test_the_state_of_a_run_that_waits_for_nothing_is_none() -> None:
    agent = answering()
    done = await hitl.run(agent, "clean up")
    assert (done.status, done.state) == ("idle", None)
    with pytest.raises(TypeError, match=r"got NoneType\n\nhint: result.state is None unless result.status is 'interr"):
        await hitl.run(agent, done.state)


@pytest.mark.parametrize("given", [3, {"role": "user", "content": "hello"}, ["hello"]])
async def test_what_is_no_message_is_told_with_one(given: Any) -> None:
    with pytest.raises(TypeError, match=r"a ChatMessage or a RunState, got \w+\n\nhint: hitl.run\(agent, 'he"):
        await hitl.run(answering(), given)


async def test_a_formatter_that_is_none_is_refused_before_anything_runs() -> None:
    with pytest.raises(TypeError, match=r"is a function \(tool_name, args, error\) -> str, got str"):
        await hitl.run(answering(), "clean up", tool_error_formatter="no: {error}")  # type: ignore[arg-type]


async def test_edited_arguments_are_a_dict() -> None:
    paused = await hitl.run(Files().agent("/a"), "clean up")
    assert paused.state is not None
    with pytest.raises(TypeError, match="args is a dict with all arguments of the tool, got str"):
        paused.state.edit(paused.interrupts[0], '{"path": "/b"}')  # type: ignore[arg-type]


def test_what_is_not_json_is_named_by_its_type() -> None:
    paused = hitl.run_sync(Files().agent("/a"), "clean up")
    assert paused.state is not None
    with pytest.raises(TypeError, match="value is of type object, which is not JSON"):
        paused.state.answer(paused.interrupts[0], object())


async def test_a_traceback_says_what_to_do_about_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        await hitl.run(answering(), "clean up", store=tmp_path)
    assert refused.value.hint is not None
    assert f"hint: {refused.value.hint}" in traceback.format_exception(refused.value)[-1]


@pytest.mark.parametrize(
    ("agent", "options"), [("shop:agent", {"port": 70000}), ("nothing_of_this_name:agent", {"port": 0})]
)
def test_a_traceback_says_what_to_do_about_a_server(agent: str, options: dict[str, Any]) -> None:
    with pytest.raises(hitl.HitlError) as refused:
        Server(agent, store="memory", **options).start()
    hint: str = refused.value.hint  # type: ignore[attr-defined]
    assert hint
    assert f"hint: {hint}" in traceback.format_exception(refused.value)[-1]


@pytest.mark.parametrize("take", [Server, hitl.serve])
def test_an_option_that_there_is_not_is_told_with_one_that_is_like_it(take: Any) -> None:
    with pytest.raises(TypeError, match=r"has no option 'worker'\n\nhint: did you mean .*\bworkers\b"):
        take("shop:agent", worker=3)
    with pytest.raises(TypeError, match=r"has no option 'xyz'$"):
        take("shop:agent", xyz=3)


@pytest.mark.parametrize(("script", "kind"), [("done", "str"), ({"content": "done"}, "dict")])
def test_a_script_is_a_list(script: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f'takes a list of replies, got {kind}\n\nhint: [{{"content"')):
        ScriptedChatClient(script)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: hitl.interrupt({"type": "pick"}, expires=60),
            "interrupt() got an unexpected keyword argument 'expires'",
        ),
        (lambda: hitl.interrupt.sync({"type": "pick"}, expires=60), "interrupt.sync() got an unexpected keyword"),
        (lambda: hitl.approval("pay"), "approval() missing 1 required positional argument: 'args'"),
        (lambda: hitl.step(onse=True), "step() got an unexpected keyword argument 'onse'"),
    ],
)
def test_what_there_is_not_is_said_of_the_name_that_one_has_called(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match="^" + re.escape(said)):
        call()
