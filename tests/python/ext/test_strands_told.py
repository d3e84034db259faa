"""What agents of Strands are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from typing import Any

from strands import Agent
from strands.multiagent import GraphBuilder

from hitl.agents.abandoned import UNFINISHED
from hitl.ext.strands.messages import history_of
from hitl.ext.strands.steps import read_result
from tests.python.ext.proof import GIVEN_UP
from tests.python.ext.strands_runs import Speaking, Timeless
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

CALL = {"toolUseId": "t1", "name": "pay", "input": {"cents": 5}}
RESULT = {"toolUseId": "t1", "status": "success", "content": [{"text": "told"}]}
TOLD = [
    {"role": "user", "content": [{"text": "Pay five."}]},
    {"role": "assistant", "content": [{"toolUse": CALL}]},
    {"role": "user", "content": [{"toolResult": RESULT}, {"text": "Did you?"}]},
]
"""Roles take turns, for models of Bedrock that take nothing else."""


def plain(messages: list[Any]) -> list[Any]:
    return [{"role": each["role"], "content": list(each["content"])} for each in messages]


async def told(several: bool = False) -> tuple[list[Any], Run]:
    """What the model is shown of a conversation that begins so."""
    seen: list[Any] = []

    def reply(messages: list[Any]) -> str:
        seen.append(plain(messages))
        return "Yes."

    def make(effects: Effects) -> Any:
        agent = Agent(Speaking(reply), name="payer")
        if not several:
            return Timeless(agent)
        builder = GraphBuilder()
        builder.add_node(agent, "only")
        return Timeless(builder.set_max_node_executions(9).build())

    run = await run_all_prefixes(make, None, message="Did you?", journal_start={"abandoned": GIVEN_UP})
    return seen[0], run


async def test_the_messages_begin_with_it_and_go_on_so() -> None:
    shown, run = await told()
    assert shown == TOLD
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]
    assert plain(history_of(run.state).messages)[:3] == TOLD


async def test_the_task_of_a_graph_begins_with_it_as_text() -> None:
    [message], run = await told(several=True)
    (block,) = message["content"]
    said = ["user: Pay five.", 'called pay (t1) with {"cents": 5}', "pay (t1) came to: told", "", "Did you?"]
    assert block["text"].splitlines()[1:] == said
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]


def test_of_a_record_of_the_framework_s_the_model_is_told_what_it_would_have_been() -> None:
    assert read_result("paid") == "paid"
    assert read_result({"strands": {"result": {"status": "error", "content": [{"text": "no"}]}}}) == "no"
    assert read_result({"strands": {"interrupts": [["i", "n", None]]}}) is UNFINISHED
