"""Tasks of LangGraph that plain functions call: their thread waits for `result()` as for anything of hitl's."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

import hitl
from hitl import RunState
from hitl.driver.shapes import as_agent as load
from hitl.messages import ChatMessage
from tests.python.ext.langgraph_runs import Timeless
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes
from tests.python.unit.conditions import until, until_waiting


@task
def ask(what: str) -> str:
    return f"{what} {interrupt(f'{what}?')}"


class Letter(TypedDict):
    text: str


def started(graph: Any) -> tuple[LocalTurn, asyncio.Task[Any]]:
    """A turn that nobody answers yet."""
    loaded = load(graph)
    local = LocalTurn(lambda asked: PENDING, agent=loaded.name)
    return local, local.start(loaded.run, ChatMessage.user_message(content="go"), [])


def letters(effects: Effects) -> Any:
    @task
    def write(topic: str) -> str:
        effects.append(topic)
        return f"essay about {topic}"

    @entrypoint()
    def flow(said: str) -> list[str]:
        essay = write("cats").result()
        asked = [ask("Print"), ask("Send")]
        return [essay, *(each.result() for each in asked), write("dogs").result()]

    return flow


async def test_a_plain_entrypoint_is_paused_while_its_tasks_ask_and_goes_on_elsewhere() -> None:
    effects: Effects = []
    result = await hitl.run(letters(effects), "go")
    for message, left in (("Send?", ["Print?"]), ("Print?", [])):
        graph = letters(effects)
        state = RunState.from_string(graph, result.state.to_string())
        (asked,) = [each for each in state.interrupts if each.message == message]
        result = await hitl.run(graph, state.answer(asked, "it"))
        assert [each.message for each in result.interrupts] == left
    assert json.loads(result.output or "") == ["essay about cats", "Print it", "Send it", "essay about dogs"]
    assert effects == ["cats", "dogs"]


async def test_it_needs_no_more_threads_than_its_loop_has() -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    result = await hitl.run(letters([]), "go")
    assert sorted(each.message or "" for each in result.interrupts) == ["Print?", "Send?"]


async def test_so_is_a_plain_node_that_calls_a_task() -> None:
    def send(state: Letter) -> Letter:
        return {"text": ask(state["text"]).result()}

    graph = StateGraph(Letter).add_node("send", send).add_edge(START, "send").compile()
    run = await run_all_prefixes(
        lambda _: Timeless(graph, input=lambda message: {"text": message.content}), lambda asked: "yes"
    )
    assert run.response.content == '{"text":"go yes"}'


async def test_every_prefix_of_its_journal_leads_to_the_same() -> None:
    run = await run_all_prefixes(lambda effects: Timeless(letters(effects)), lambda asked: asked["message"])
    assert json.loads(run.response.content or "") == [
        "essay about cats",
        "Print Print?",
        "Send Send?",
        "essay about dogs",
    ]


async def test_its_threads_end_where_the_turn_is_parked() -> None:
    threads: list[threading.Thread] = []

    @entrypoint()
    def flow(said: str) -> Any:
        threads.append(threading.current_thread())
        try:
            return ask("Send").result()
        finally:
            threads.clear()

    local, turn = started(flow)
    await until_waiting(local)
    assert threads
    local.turn.park()
    await asyncio.wait([turn])
    await until(lambda: not threads)


async def test_a_result_may_be_waited_for_for_a_while() -> None:
    @entrypoint()
    def flow(said: str) -> Any:
        asked = ask("Send")
        with pytest.raises(TimeoutError):
            asked.result(timeout=0)
        with pytest.raises(TimeoutError):
            asked.exception(timeout=0.01)
        return [asked.done(), asked.result(timeout=1000), asked.exception(), asked.done()]

    local, turn = started(flow)
    await until(lambda: [each for each in local.port.journal if each["entry"] == "timer"])
    local.port.interrupts[0].give("it")
    reply, _ = await turn
    assert reply.content == '[false,"Send it",null,true]'


async def test_what_a_task_raises_is_raised_where_it_is_waited_for() -> None:
    @task
    def fail() -> None:
        raise ValueError(f"no {interrupt('Go on?')}")

    @entrypoint()
    def flow(said: str) -> Any:
        called = fail()
        with pytest.raises(ValueError, match="no yes"):
            called.result()
        return str(called.exception())

    result = await hitl.run(flow, "go")
    assert (await hitl.run(flow, result.state.answer(result.state.interrupts[0], "yes"))).output == "no yes"
