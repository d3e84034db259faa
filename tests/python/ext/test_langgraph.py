"""What graphs of LangGraph may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, field_validator

import hitl
from hitl import ChatMessage, RunState
from hitl.driver.shapes import as_agent as load
from hitl.errors import AgentLoadError
from hitl.ext.langgraph import as_agent
from hitl.testing import HitlServer
from tests.python.ext.langgraph_runs import Calls, proved, says
from tests.python.support.local import LocalTurn
from tests.python.support.prefixes import Effects


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Stages(Chat):
    got: Annotated[list[Any], operator.add]


def reply(value: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(json.dumps(value))]}


def graph_of(*nodes: Any, state: Any = Stages) -> Any:
    """A graph of these functions, one after the other."""
    builder = StateGraph(state)
    builder.add_sequence(list(nodes))
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile(checkpointer=InMemorySaver())


def open_questions(result: Any) -> list[str]:
    """Sorted: plain functions run in threads, and ask in any order."""
    return sorted(asked.message for asked in result.interrupts)


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_what_was_sent_asks_at_once_and_each_goes_on_when_it_is_answered() -> None:
    ran: list[Any] = []

    def plan(state: Stages) -> Command[Any]:
        ran.append("plan")
        return Command(goto=[Send("ask", {"stage": 1}), Send("ask", {"stage": 2})])

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        where = interrupt({"question": f"Where to, {state['stage']}?"})
        sure = interrupt(f"Sure about {where}?")
        ran.append((state["stage"], where))
        return {"got": [[where, sure]]}

    def end(state: Stages) -> dict[str, Any]:
        return reply(sorted(state["got"]))

    builder = StateGraph(Stages).add_node("plan", plan, destinations=("ask",)).add_node("ask", ask).add_node("end", end)
    builder.add_edge(START, "plan").add_edge("ask", "end")
    graph = builder.compile()

    result = await hitl.run(graph, "go")
    assert open_questions(result) == ["Where to, 1?", "Where to, 2?"]
    for question, answer, left in (
        ("Where to, 2?", "b", ["Sure about b?", "Where to, 1?"]),
        ("Sure about b?", True, ["Where to, 1?"]),
    ):
        state = RunState.from_string(graph, result.state.to_string())
        (asked,) = [each for each in state.interrupts if each.message == question]
        result = await hitl.run(graph, state.answer(asked, answer))
        assert open_questions(result) == left
    assert ran == ["plan", (2, "b")]

    run, said = await proved(lambda effects: graph, lambda asked: asked["message"])
    assert said == [[f"Where to, {n}?", f"Sure about Where to, {n}??"] for n in (1, 2)]
    assert [asked["type"] for asked in run.requests] == ["question"] * 4


class Order(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def is_even(cls, amount: int) -> int:
        if amount % 2:
            raise ValueError("only even amounts")
        return amount


@pytest.mark.parametrize("schema", [Order, Order.model_json_schema()], ids=["type", "JSON Schema"])
async def test_an_answer_has_to_fit_the_schema_of_its_question(schema: Any) -> None:
    def ask(state: Stages) -> dict[str, Any]:
        given = interrupt({"type": "order", "prompt": "How many?"}, response_schema=schema)
        return reply(given.amount if isinstance(given, Order) else given["amount"])

    graph = graph_of(ask)
    state = (await hitl.run(graph, "go")).state
    (asked,) = state.interrupts
    assert (asked.type, asked.message) == ("order", "How many?")
    with pytest.raises(hitl.InvalidAnswer, match="amount"):
        state.answer(asked, {"amount": "many"})
    assert (await hitl.run(graph, state.answer(asked, {"amount": 4}))).output == "4"


async def test_an_answer_that_only_the_type_refuses_is_asked_for_again() -> None:
    def ask(state: Stages) -> dict[str, Any]:
        return reply(interrupt("How many?", response_schema=Order).amount)

    answers = {"How many?": {"amount": 3}}
    run, said = await proved(lambda effects: graph_of(ask), lambda asked: answers.get(asked["message"], {"amount": 8}))
    assert said == 8
    assert [asked["message"] for asked in run.requests] == [
        "How many?",
        "The answer was refused: amount: Value error, only even amounts How many?",
    ]


async def test_what_a_node_has_finished_before_it_asks_is_not_done_again() -> None:
    def make(effects: Effects) -> Any:
        async def charge(cents: int) -> str:
            effects.append(cents)
            return f"charged {cents}"

        async def pay(state: Stages) -> dict[str, Any]:
            first = await hitl.step(charge, 1)
            second = await hitl.step(charge, 2)
            where = interrupt("Where to?")
            third = await hitl.step(charge, 3)
            return reply([first, second, where, third, interrupt("Sure?")])

        return graph_of(pay)

    run, said = await proved(make, lambda asked: "yes")
    assert said == ["charged 1", "charged 2", "yes", "charged 3", "yes"]
    assert run.effects == [1, 2, 3]


async def test_a_plain_node_may_make_steps_too() -> None:
    def make(effects: Effects) -> Any:
        def note(what: str) -> str:
            effects.append(what)
            return what

        def work(state: Stages) -> dict[str, Any]:
            done = hitl.step.sync(note, "before")
            return reply([done, interrupt("Sure?"), hitl.step.sync(note, "after")])

        return graph_of(work)

    run, said = await proved(make, lambda asked: True)
    assert (said, run.effects) == (["before", True, "after"], ["before", "after"])


async def test_subgraphs_ask_and_finished_nodes_of_them_do_not_run_again() -> None:
    ran: list[str] = []

    def look(state: Stages) -> dict[str, Any]:
        ran.append("look")
        return {"got": ["looked"]}

    def ask(state: Stages) -> dict[str, Any]:
        return {"got": [interrupt("Inside?")]}

    inner = graph_of(look, ask)

    async def outer(state: Stages) -> dict[str, Any]:
        made = await inner.ainvoke({"messages": [], "got": []})
        return {"got": [*made["got"], interrupt("Outside?")]}

    def end(state: Stages) -> dict[str, Any]:
        return reply(state["got"])

    builder = StateGraph(Stages).add_node("sub", inner).add_node("outer", outer).add_node("end", end)
    graph = builder.add_edge(START, "sub").add_edge("sub", "outer").add_edge("outer", "end").compile()
    result: Any = await hitl.run(graph, "go")
    while result.interrupts:
        state = RunState.from_string(graph, result.state.to_string())
        result = await hitl.run(graph, state.answer(state.interrupts[0], state.interrupts[0].message))
    assert json.loads(result.output) == ["looked", "Inside?", "looked", "Inside?", "Outside?"]
    assert ran == ["look", "look"]  # once as a node, once inside of a function
    await proved(lambda effects: graph, lambda asked: "yes")


async def test_an_entrypoint_asks_and_its_tasks_are_made_once() -> None:
    def make(effects: Effects) -> Any:
        @task
        async def write(topic: str) -> str:
            effects.append(topic)
            return f"essay about {topic}"

        @entrypoint(checkpointer=InMemorySaver())
        async def workflow(topic: str) -> dict[str, Any]:
            essays = [write(each) for each in (topic, f"{topic}s")]
            first = await essays[0]
            approved = interrupt({"essay": first, "action": "Approve?"})
            return {"essays": [first, await essays[1]], "approved": approved}

        return workflow

    graph = make([])
    assert load(graph).name == "workflow"
    effects: list[Any] = []
    graph = make(effects)
    result = await hitl.run(graph, "cat")
    assert [asked.payload["essay"] for asked in result.interrupts] == ["essay about cat"]
    state = RunState.from_string(graph, result.state.to_string())
    result = await hitl.run(graph, state.answer(state.interrupts[0], True))
    assert json.loads(result.output or "") == {"essays": ["essay about cat", "essay about cats"], "approved": True}
    assert effects == ["cat", "cats"]


async def test_a_breakpoint_is_a_question_whether_to_go_on() -> None:
    def work(state: Stages) -> dict[str, Any]:
        return {"got": ["worked"]}

    def end(state: Stages) -> dict[str, Any]:
        return reply(state["got"])

    builder = StateGraph(Stages).add_node("work", work).add_node("end", end)
    graph = builder.add_edge(START, "work").add_edge("work", "end").compile(interrupt_before=["end"])
    run, said = await proved(lambda effects: graph, lambda asked: True)
    assert said == ["worked"]
    assert [(asked["type"], asked["message"]) for asked in run.requests] == [("breakpoint", "Go on with end?")]


# -- tools -------------------------------------------------------------------------------------------------------------


async def test_tools_of_one_node_ask_at_once_and_none_is_called_again() -> None:
    def make(effects: Effects) -> Any:
        @tool
        async def look(path: str) -> str:
            """Look."""
            effects.append(path)
            return f"saw {path}"

        @tool
        def move(path: str) -> str:
            """Move."""
            return f"moved {path} to {interrupt(f'Where to, {path}?')}"

        rounds: Calls = [("look", {"path": "a"}), ("move", {"path": "b"}), ("move", {"path": "c"})]
        model = says(rounds)
        builder = StateGraph(Chat).add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        builder.add_node("tools", ToolNode([look, move])).add_edge(START, "model").add_edge("tools", "model")
        builder.add_conditional_edges(
            "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
        )
        return builder.compile()

    graph = make([])
    assert open_questions(await hitl.run(graph, "go")) == ["Where to, b?", "Where to, c?"]
    run, said = await proved(make, lambda asked: asked["message"][-2])
    assert said == [["success", "saw a"], ["success", "moved b to b"], ["success", "moved c to c"]]
    assert run.effects == ["a"]


async def test_a_tool_may_be_gated_by_hitl_itself() -> None:
    def make(effects: Effects) -> Any:
        @tool
        @hitl.requires_approval
        async def pay(cents: int) -> str:
            """Pay."""
            effects.append(cents)
            return f"paid {cents}"

        from langchain.agents import create_agent

        return create_agent(says([("pay", {"cents": 5})]), [pay], name="payer")

    run, said = await proved(make, lambda asked: {"type": "approve"})
    assert (said, run.effects) == ([["success", "paid 5"]], [5])
    assert [(asked["type"], asked["agent"]) for asked in run.requests] == [("tool_approval", "payer")]


async def test_tools_may_steer_the_graph() -> None:
    def make(effects: Effects) -> Any:
        @tool
        def finish(result: str) -> Command[Any]:
            """End the work."""
            effects.append(result)
            return Command(goto="end", update={"got": [result]}, graph=Command.PARENT)

        def end(state: Stages) -> dict[str, Any]:
            return reply(state["got"])

        from langchain.agents import create_agent

        builder = StateGraph(Stages).add_node("agent", create_agent(says([("finish", {"result": "done"})]), [finish]))
        return builder.add_node("end", end).add_edge(START, "agent").compile()

    run, said = await proved(make)
    assert (said, run.effects) == (["done"], ["done"])


# -- conversations -----------------------------------------------------------------------------------------------------


def test_a_state_is_kept_from_turn_to_turn(hitl_server: HitlServer) -> None:
    class Counted(Chat):
        turns: Annotated[int, operator.add]
        secret: str

    seen: list[list[str]] = []

    def forget(state: Counted) -> dict[str, Any]:
        seen.append([str(message.text) for message in state["messages"]])
        old = [RemoveMessage(message.id or "") for message in state["messages"][:-1]]
        return {"messages": old if len(old) > 2 else [], "turns": 1}

    def answer(state: Counted) -> dict[str, Any]:
        return {"messages": [AIMessage(f"turn {state['turns']}, {len(state['messages'])} messages")], "secret": "kept"}

    server = hitl_server(graph_of(forget, answer, state=Counted))
    session = server.create_session([ChatMessage.user_message(content="hello")])
    said = [server.send(content, session).content for content in ("one", "two", "three")]
    assert said == ["turn 1, 2 messages", "turn 2, 1 messages", "turn 3, 3 messages"]
    assert seen == [
        ["hello", "one"],
        ["hello", "one", "turn 1, 2 messages", "two"],
        ["two", "turn 2, 1 messages", "three"],
    ]
    shown = [message.content for message in server.client.get_messages(session.session_id)]
    assert shown == ["hello", "one", said[0], "two", said[1], "three", said[2]]


def test_a_conversation_may_be_kept_by_what_is_added_to_it(hitl_server: HitlServer) -> None:
    class Delta(TypedDict):
        messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]

    def count(state: Delta) -> dict[str, Any]:
        return reply(len(state["messages"]))

    server = hitl_server(graph_of(count, state=Delta))
    session = server.create_session()
    assert [server.send(content, session).content for content in ("one", "two")] == ["1", "3"]


async def test_a_message_may_be_removed_by_its_id_in_every_replay() -> None:
    def ask(state: Stages) -> dict[str, Any]:
        return {"messages": [RemoveMessage(state["messages"][0].id or ""), HumanMessage(interrupt("What then?"))]}

    def end(state: Stages) -> dict[str, Any]:
        return reply([str(message.text) for message in state["messages"]])

    _, said = await proved(lambda effects: graph_of(ask, end), lambda asked: "this")
    assert said == ["this"]


def test_a_graph_without_messages_takes_and_returns_json(hitl_server: HitlServer) -> None:
    class Sum(TypedDict):
        one: int
        other: int
        sum: int

    def add(state: Sum) -> dict[str, int]:
        return {"sum": state["one"] + state["other"]}

    server = hitl_server(graph_of(add, state=Sum))
    assert json.loads(server.send('{"one": 1, "other": 2}').content or "") == {"one": 1, "other": 2, "sum": 3}
    params = ChatMessage.user_message(content="add", user_params={"one": 2, "other": 3})
    assert json.loads(server.send(params).content or "")["sum"] == 5
    empty = ChatMessage.user_message(content='{"one": 3, "other": 4}', user_params={})
    assert json.loads(server.send(empty).content or "")["sum"] == 7


async def test_input_and_output_may_be_made_by_functions() -> None:
    class Words(TypedDict):
        text: str

    def shout(state: Words) -> Words:
        return {"text": state["text"].upper()}

    served = as_agent(
        graph_of(shout, state=Words),
        name="shouter",
        input=lambda message: {"text": message.content},
        output=lambda state: state["text"],
    )
    assert load(served).name == "shouter"
    assert (await hitl.run(served, "hey")).output == "HEY"


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        (lambda state: len(state["got"]), "1"),
        (lambda state: {"got": state["got"]}, '{"got":[1]}'),
        (lambda state: state["messages"][-1], "go"),
    ],
    ids=["number", "JSON", "message"],
)
async def test_an_output_may_be_whatever_is_told_as_json(output: Any, reply: str) -> None:
    def add(state: Stages) -> dict[str, Any]:
        return {"got": [1]}

    assert (await hitl.run(as_agent(graph_of(add), output=output), "go")).output == reply


async def test_an_asynchronous_output_is_refused() -> None:
    async def made(state: Any) -> str:
        return "made"

    def add(state: Stages) -> dict[str, Any]:
        return {"got": [1]}

    result = await hitl.run(as_agent(graph_of(add), name="add", output=made), "go")
    assert "the output= of the graph 'add' is asynchronous; make it a plain function" in (result.error or "")


async def test_a_turn_that_began_with_empty_user_params_as_its_input_goes_on_with_them() -> None:
    class Number(TypedDict, total=False):
        number: int

    def ask(state: Number) -> dict[str, int]:
        return {"number": state.get("number", 0) + interrupt("How many?")}

    async def run(content: str, journal: Any = None) -> tuple[str | None, LocalTurn]:
        loaded = load(graph_of(ask, state=Number))
        local = LocalTurn(lambda asked: 1, agent=loaded.name, journal=journal)
        message = ChatMessage.user_message(content=content, user_params={})
        return (await local.run(loaded.run, message, []))[0].content, local

    given = '{"number": 5}'
    assert (await run(given))[0] == '{"number":6}'
    journal = (await run(""))[1].port.journal  # as turns of before began with any content
    asked = next(at for at, entry in enumerate(journal) if entry["entry"] == "ask")
    assert (await run(given, journal[: asked + 1]))[0] == '{"number":1}'


async def test_a_context_is_made_anew_from_what_the_turn_began_with() -> None:
    @dataclass
    class Tenant:
        name: str

    made: list[Any] = []

    async def tenant(params: Any) -> Tenant:
        made.append(params)
        return Tenant(**params)

    def ask(state: Stages, runtime: Runtime[Tenant]) -> dict[str, Any]:
        return reply([runtime.context.name, interrupt("Sure?")])

    builder = StateGraph(Stages, context_schema=Tenant).add_node("ask", ask).add_edge(START, "ask")
    graph = builder.compile()
    target: Any = load(graph).target
    with pytest.raises(AgentLoadError, match="needs a context with name"):
        target.prepare()
    served = as_agent(graph, context=tenant)
    first = await hitl.run(served, "go", context={"name": "acme"})
    state = RunState.from_string(served, first.state.to_string())
    result = await hitl.run(served, state.answer(state.interrupts[0], True))
    assert result.output == '["acme", true]'
    assert made == [{"name": "acme"}, {"name": "acme"}]


@dataclass
class Person:
    name: str


@pytest.mark.parametrize(("schema", "seen"), [(None, {"name": "Ada"}), (Person, Person("Ada"))], ids=["any", "typed"])
async def test_without_such_a_function_the_context_is_the_run_s(schema: Any, seen: Any) -> None:
    def ask(state: Stages, runtime: Runtime[Any]) -> dict[str, Any]:
        contexts.append(runtime.context)
        return reply(interrupt("Sure?"))

    contexts: list[Any] = []
    graph = StateGraph(Stages, context_schema=schema).add_node("ask", ask).add_edge(START, "ask").compile()
    asked = await hitl.run(graph, "go", context={"name": "Ada"})
    state = RunState.from_string(graph, asked.state.to_string())
    assert (await hitl.run(graph, state.answer(state.interrupts[0], 1))).output == "1"
    assert contexts == [seen] * 3

    sent = ChatMessage.user_message(content="go", user_params={"name": "whoever may send"})
    await hitl.run(graph, sent)
    assert contexts[3:] == [None]


# -- what cannot be ----------------------------------------------------------------------------------------------------


class Opaque:
    """Nothing that can be written down."""


async def test_what_cannot_be_kept_is_an_error_that_names_it() -> None:
    def work(state: Stages) -> dict[str, Any]:
        return {"got": [Opaque()]}

    result = await hitl.run(graph_of(work), "go")
    assert result.status == "error"
    assert "Opaque, which cannot be stored" in (result.error or "")


async def test_an_error_of_a_node_keeps_its_class() -> None:
    def work(state: Stages) -> dict[str, Any]:
        raise LookupError("no such account")

    result = await hitl.run(graph_of(work), "go")
    assert (result.status, result.error) == ("error", "LookupError: no such account")


def test_a_graph_that_is_not_compiled_says_what_is_taken() -> None:
    with pytest.raises(AgentLoadError, match="app:graph is of type StateGraph, not an agent") as caught:
        load(StateGraph(Chat), "app:graph")
    assert caught.value.hint == "of langgraph, a compiled graph of LangGraph is taken"


async def test_outside_of_turns_everything_is_as_it_was() -> None:
    def ask(state: Stages) -> dict[str, Any]:
        return reply(interrupt("Where to?"))

    graph = graph_of(ask)
    config: Any = {"configurable": {"thread_id": "1"}}
    for stopped in (graph.invoke({"messages": []}, config), await graph.ainvoke({"messages": []}, config)):
        assert [each.value for each in stopped["__interrupt__"]] == ["Where to?"]
    assert graph.invoke(Command(resume="home"), config)["messages"][-1].content == '"home"'
