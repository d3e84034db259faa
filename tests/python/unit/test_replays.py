"""Turns that run again from their journal, kind by kind; tests/python/replay does it with generated agents."""

import asyncio
import inspect
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, interrupt, step, tool
from hitl.driver.shapes import as_agent
from hitl.errors import ReplayMismatch
from hitl.testing import ScriptedChatClient
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import until_waiting
from tests.python.unit.crashed import Agent, entries, recorded, replayed
from tests.python.unit.plain_steps import named, value

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def effect(name: str) -> str:
    ran.append(name)
    return name


async def everywhere(agent: Agent, answers: Any = None) -> Any:
    """Crash the agent after every entry of its journal; what it returns must not change. Returns it."""
    local = LocalTurn(answers)
    expected = await local.run(agent)
    await local.end()
    for cut in range(1, len(local.port.journal) + 1):
        ran.clear()
        got, again = await replayed(agent, local.port.journal[:cut], answers)
        assert got == expected
        assert sorted(entries(again)) == sorted(entries(local))
        over = [entry["result"]["value"] for entry in local.port.journal[:cut] if entry["entry"] == "step"]
        assert not set(ran) & {one for one in over if isinstance(one, str)}
    return expected


# -- steps that are over ----------------------------------------------------------------------------------------------


async def test_a_finished_step_never_runs_again_and_its_value_comes_from_the_journal() -> None:
    async def agent() -> Any:
        return [await step(effect, name) for name in ("a", "b")]

    local = await recorded(agent)
    local.port.journal[1]["result"] = {"value": "from the journal"}
    ran.clear()
    got, _ = await replayed(agent, local.port.journal[:2])
    assert got == ["from the journal", "b"]
    assert ran == ["b"]


async def test_a_recorded_error_is_raised_again_without_the_body() -> None:
    async def fail() -> None:
        ran.append("fail")
        raise LookupError("gone")

    async def agent() -> str:
        try:
            await step(fail)
        except LookupError as error:
            return str(error)
        return "no error"

    local = await recorded(agent)
    assert (await replayed(agent, local.port.journal))[0] == "gone"
    assert ran == ["fail"]


async def test_the_clock_ids_and_chance_replay() -> None:
    async def agent() -> Any:
        return [await hitl.now(), await hitl.uuid(), await hitl.random(), await interrupt({"type": "q"})]

    local = LocalTurn(lambda ask: PENDING)
    local.start(agent)
    await until_waiting(local)
    await local.end()
    one, _ = await replayed(agent, local.port.journal, lambda ask: 1)
    other, _ = await replayed(agent, local.port.journal, lambda ask: 1)
    assert one == other


async def test_going_live_says_so_once_with_what_was_let_pass() -> None:
    local = await recorded(lambda: named("one"))
    _, again = await replayed(_one_and_two, local.port.journal)
    assert again.port.replays == [[]]


async def _one_and_two() -> None:
    await named("one")
    await named("two")


# -- bodies -----------------------------------------------------------------------------------------------------------


async def test_a_tool_that_asks_and_has_steps_of_its_own() -> None:
    async def shop() -> Any:
        first = await step(effect, "look")
        answers = await asyncio.gather(interrupt({"type": "a"}), interrupt({"type": "b"}))
        return [first, *answers, await step(effect, "buy")]

    async def agent() -> Any:
        return [await step(shop), await step(effect, "thank")]

    assert await everywhere(agent, lambda ask: ask["type"]) == [["look", "a", "b", "buy"], "thank"]


async def test_a_body_is_free_until_it_asks_and_ordered_from_then_on() -> None:
    async def tool() -> Any:
        def is_ordered() -> bool:
            scope = current_turn().current_step
            assert scope is not None
            return scope.ordered

        before = is_ordered()
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(5)))
        await named("inner")
        return [before, is_ordered()]

    async def agent() -> Any:
        return await step(tool)

    local = await recorded(agent)
    assert local.port.steps[-1][1] == {"value": [False, True]}
    assert (await replayed(agent, local.port.journal[:2]))[0] == [True, True]


async def test_a_sync_tool_is_replayed_in_its_thread() -> None:
    def work() -> Any:
        found = step.sync(lambda: "found")
        answer = interrupt.sync({"type": "q"})
        return [found, answer, step.sync(lambda: "done")]

    async def agent() -> Any:
        return await asyncio.gather(step(work), step(effect, "beside"))

    assert await everywhere(agent, lambda ask: "yes") == [["found", "yes", "done"], "beside"]


async def test_a_sync_agent_is_replayed() -> None:
    def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        parts = [interrupt.sync({"type": "a"}), str(step.sync(lambda: 2)), interrupt.sync({"type": "b"})]
        response = ChatMessage.assistant_message(content=" ".join(parts))
        return response, [*state, message, response]

    async def run() -> str | None:
        response, _ = await as_agent(agent).run(ChatMessage.user_message(content="hi"), [])
        return response.content

    assert await everywhere(run, lambda ask: ask["type"]) == "a 2 b"


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return await effect(f"deleted {path}")


async def test_an_agent_as_a_tool_writes_into_the_same_journal() -> None:
    inner = ReActAgent(
        client=ScriptedChatClient(
            [{"tool_calls": [{"name": "delete", "args": {"path": "/x"}}]}, {"content": "It is gone."}]
        ),
        tools=[delete],
        name="janitor",
    )
    outer = ReActAgent(
        client=ScriptedChatClient(
            [{"tool_calls": [{"name": "janitor", "args": {"input": "clean"}}]}, {"content": "All clean."}]
        ),
        tools=[inner.as_tool()],
        name="boss",
    )

    async def run() -> str | None:
        response, _ = await outer.run_turn(ChatMessage.user_message(content="hi"), [])
        return response.content

    local = LocalTurn(lambda ask: PENDING, agent="boss")
    local.start(run)
    await until_waiting(local)
    await local.end()
    [asked] = local.port.interrupts
    assert asked.request["agent"] == "janitor"
    assert asked.step["path"].count("/") >= 1
    got, again = await replayed(run, local.port.journal, lambda ask: {"approved": True})
    assert got == "All clean."
    assert ran == ["deleted /x"]
    kinds = [entry["step"]["kind"] for entry in again.port.journal if "step" in entry]
    assert kinds.count("model") == 4


# -- edits ------------------------------------------------------------------------------------------------------------


async def _model(prompt: str) -> Any:
    return await current_turn().run_step("model", "complete", lambda: value(prompt), arguments={"prompt": prompt})


async def test_a_finished_model_call_whose_prompt_was_edited_is_not_made_again() -> None:
    local = await recorded(lambda: _model("old"))
    got, _ = await replayed(lambda: _model("new"), local.port.journal)
    assert got == "old"


async def test_the_warning_names_what_differs() -> None:
    async def before() -> Any:
        return [await _model("old"), await interrupt({"type": "q"})]

    async def after() -> Any:
        return [await _model("new"), await interrupt({"type": "q"})]

    local = LocalTurn(lambda ask: PENDING)
    local.start(before)
    await until_waiting(local)
    await local.end()
    got, again = await replayed(after, local.port.journal, lambda ask: 1)
    assert got == ["old", 1]
    [[warning]] = again.port.replays
    assert "prompt" in warning
    assert "old" not in warning  # values are not stored, and not shown


async def test_any_other_step_whose_arguments_were_edited_is_a_mismatch() -> None:
    local = await recorded(lambda: step(effect, "a"))
    with pytest.raises(ReplayMismatch, match="name"):
        await replayed(lambda: step(effect, "b"), local.port.journal)


async def test_only_the_line_may_differ() -> None:
    async def before() -> Any:
        return await step(effect, "a")

    async def after() -> Any:
        await asyncio.sleep(0)
        return await step(effect, "a")

    local = await recorded(before)
    assert local.port.steps[0][0]["location"] != f"test_replays.py:{inspect.getsourcelines(after)[1] + 2}"
    assert (await replayed(after, local.port.journal))[0] == "a"


async def test_a_marked_edit_applies_to_turns_that_had_not_come_to_it() -> None:
    async def before() -> Any:
        return [await step(effect, "one"), await interrupt({"type": "q"}), await step(effect, "two")]

    async def after() -> Any:
        first = await step(effect, "one")
        extra = await step(effect, "new") if await hitl.patched("look-first") else "as it was"
        return [first, extra, await interrupt({"type": "q"}), await step(effect, "two")]

    local = LocalTurn(lambda ask: PENDING)
    local.start(before)
    await until_waiting(local)
    await local.end()
    past, beyond = local.port.journal, local.port.journal[:2]
    got, again = await replayed(after, past, lambda ask: "yes")
    assert got == ["one", "as it was", "yes", "two"]
    assert (await replayed(after, again.port.journal))[0] == got
    got, again = await replayed(after, beyond, lambda ask: "yes")
    assert got == ["one", "new", "yes", "two"]
    assert (await replayed(after, again.port.journal))[0] == got
    assert (await recorded(after, lambda ask: "yes")).turn.patches == {("", "look-first"): True}


async def test_a_turn_that_began_under_the_edit_keeps_to_it_wherever_it_is_hit() -> None:
    """Also where something else of it was recorded while the record of the edit was on its way."""

    async def agent() -> Any:
        return await asyncio.gather(step(effect, "one"), hitl.patched("look-first"))

    first = await recorded(agent)
    assert entries(first) == ["start", "step 0.1#1", "step ~patched:look-first"]
    for length in range(2, len(first.port.journal) + 1):
        assert (await replayed(agent, first.port.journal[:length]))[0] == ["one", True]


async def test_one_that_began_before_the_edit_goes_past_it_at_once_whatever_else_it_does() -> None:
    """Its tasks share what they have done: one that waited at the edit would come too late."""

    def agent_of(edit: Any) -> Any:
        async def agent() -> Any:
            told: list[str] = []

            async def first() -> None:
                await step(effect, "one")
                is_new = await edit()
                told.append("new" if is_new else "first")
                await step(effect, "two")

            async def second() -> None:
                await step(asyncio.sleep, 0.01)
                await step(effect, f"after {told}")

            await asyncio.gather(first(), second())
            return told

        return agent

    async def without() -> bool:
        return False

    old = await recorded(agent_of(without))
    local = LocalTurn(journal=old.port.journal, code="code-2")
    assert await local.run(agent_of(lambda: hitl.patched("look-first"))) == ["first"]
    await local.end()
    assert local.port.replays == [[]]
