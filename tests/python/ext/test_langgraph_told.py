"""What graphs of LangGraph are told of a turn that was given up, from every prefix of the journal too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from pydantic import BaseModel

from hitl import ChatMessage
from hitl.driver.shapes import as_agent as load
from hitl.ext.langgraph.tools import read_result
from tests.python.ext.langgraph_runs import Timeless
from tests.python.ext.proof import GIVEN_UP
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects, run_all_prefixes

TOLD = [("human", "Pay five."), ("ai", ""), ("tool", "told"), ("human", "Did you?")]


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]


@dataclass
class Fields:
    messages: Annotated[list[AnyMessage], add_messages]


def recalling(seen: list[Any], schema: Any = MessagesState) -> Any:
    """A graph that notes the messages of its state."""

    def note(state: Any) -> Any:
        messages = state["messages"] if isinstance(state, dict) else state.messages
        seen.append([(message.type, message.text) for message in messages])
        return {"messages": [AIMessage("Yes.")]}

    return StateGraph(schema).add_node("note", note).add_edge(START, "note").compile()


def given(message: ChatMessage) -> Any:
    return {"messages": ("user", message.content)}


@pytest.mark.parametrize("options", [{}, {"input": given}], ids=["message", "input"])
async def test_the_graph_s_messages_begin_with_it_and_go_on_so(options: Any) -> None:
    seen: list[Any] = []

    def make(effects: Effects) -> Any:
        return Timeless(recalling(seen), **options)

    start = {"abandoned": GIVEN_UP}
    run = await run_all_prefixes(make, None, message="Did you?", journal_start=start)
    assert seen[0] == TOLD
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]


@pytest.mark.parametrize("schema", [Model, Fields], ids=["model", "dataclass"])
async def test_an_input_that_is_no_mapping_has_it_as_well(schema: Any) -> None:
    seen: list[Any] = []

    def make(effects: Effects) -> Any:
        made = recalling(seen, schema)
        return Timeless(made, input=lambda message: schema(messages=[HumanMessage(message.content)]))

    run = await run_all_prefixes(make, None, message="Did you?", journal_start={"abandoned": GIVEN_UP})
    assert seen[0] == TOLD
    assert [message.content for message in run.state] == ["Pay five.", None, "told", "Did you?", "Yes."]


async def test_where_an_input_has_no_place_for_it_the_session_does_not_say_that_it_was_told() -> None:
    seen: list[Any] = []

    def make(effects: Effects) -> Any:
        def command(message: ChatMessage) -> Any:
            return Command(update={"messages": [HumanMessage(message.content, id="1")]})

        return Timeless(recalling(seen), input=command)

    run = await run_all_prefixes(make, None, message="Did you?", journal_start={"abandoned": GIVEN_UP})
    assert seen[0] == TOLD[-1:]
    assert [message.content for message in run.state] == ["Did you?", "Yes."]


async def test_the_next_turn_goes_on_from_it() -> None:
    seen: list[Any] = []
    loaded = load(recalling(seen))
    state: list[ChatMessage] = []
    starts = [{"abandoned": GIVEN_UP}, {}, {"abandoned": GIVEN_UP}]
    for number, start in enumerate(starts):
        entry = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", **start}
        turn = LocalTurn(agent=loaded.name, turn_id=f"turn-{number}", journal=[entry])
        _, state = await turn.run(loaded.run, ChatMessage.user_message(content="Did you?"), state)
    yes = ("ai", "Yes.")
    # Where the conversation has it, it is not told again.
    assert seen[-1] == [*TOLD, yes, TOLD[-1], yes, TOLD[-1]]


def test_of_a_record_of_the_framework_s_the_model_is_told_what_it_would_have_been() -> None:
    assert read_result("paid") == "paid"
    message = {"$langchain": "message", "value": {"type": "tool", "data": {"content": "paid", "tool_call_id": "t1"}}}
    assert read_result({"langchain": message}) == "paid"
    update: Any = {"graph": None, "update": {"messages": [message]}, "resume": None, "goto": []}
    assert read_result({"langchain": {"$langchain": "command", "value": update}}) == "paid"
