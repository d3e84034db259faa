"""Tests as a framework may have them, some of which do not go well in a turn: see test_plugin.py."""

from __future__ import annotations

import itertools

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from inturns import world

from hitl import step
from hitl.ext.turns import is_in_turn
from hitl.tools.asking import Question, ask
from hitl.turn.runtime import current_turn

runs = itertools.count()
numbers = itertools.count()


@function_tool(needs_approval=True)
def pay(cents: int) -> str:
    done.append(cents)
    return "paid"


@function_tool
def look() -> str:
    return "seen"


done: list[int] = []


def agent(tool: str, arguments: dict[str, int]) -> Agent[None]:
    model = ScriptedModel([[function_call(tool, arguments, call_id="call-1")], [assistant_message("done")]])
    return Agent("payer", model=model, tools=[pay, look])


async def test_is_approved_by_its_own_words() -> None:
    done.clear()
    payer = agent("pay", {"cents": 5})
    paused = await Runner.run(payer, "go")
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    assert done == []
    assert (await Runner.run(payer, state)).final_output == "done"
    assert done == [5]


async def test_is_rejected_by_its_own_words() -> None:
    done.clear()
    payer = agent("pay", {"cents": 5})
    state = (await Runner.run(payer, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    assert (await Runner.run(payer, state)).final_output == "done"
    assert done == []


async def test_is_allowed_by_a_rule() -> None:
    decision = await ask(current_turn(), Question("pay", {"cents": 5}, ("approve",), required=False))
    assert decision["type"] == "approve"


def test_needs_no_turn() -> None:
    assert agent("pay", {}).name == "payer"


async def test_fails_by_itself() -> None:
    await Runner.run(agent("look", {}), "go")
    raise AssertionError("of its own")


async def test_goes_another_way_in_a_replay() -> None:
    if next(runs):
        await Runner.run(Agent("other", model=ScriptedModel([[assistant_message("hello")]])), "go")
    else:
        await Runner.run(agent("pay", {"cents": 5}), "go")


async def test_has_a_tool_that_does_otherwise_beside_the_turn() -> None:
    @function_tool(name_override="look", failure_error_function=None)
    async def look_once() -> str:
        if not is_in_turn():
            raise ValueError("only in a turn")
        return "seen"

    looker = agent("look", {})
    looker.tools = [look_once]
    await Runner.run(looker, "go")


async def test_does_more_when_its_question_was_open() -> None:
    """A process that takes up a turn with an open question does a step that the first did not."""
    asked = current_turn().port.journal[-1]["entry"] == "ask"
    payer = agent("pay", {"cents": 5})
    state = (await Runner.run(payer, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(payer, state)
    if asked:
        await step(more)


async def more() -> None: ...


async def test_does_more_after_a_second_crash() -> None:
    """What the first process has recorded is well, and what one after a crash has recorded is not."""
    number = next(numbers)

    async def numbered() -> int:
        return number

    if await step(numbered) not in (0, number):
        await step(more)


async def test_runs_a_finished_step_again() -> None:
    await Runner.run(agent("look", {}), "go")
    world.ran.append("~tool:call-1")


def test_is_left_out() -> None:
    raise AssertionError("this does not run")
