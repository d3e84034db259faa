"""Whoever asks for something does not allow it: what code of another framework asks that stands before something lets
it run, and is no question that its sender may answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
from agents import (
    Agent,
    CustomTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    function_tool,
    set_tracing_disabled,
)
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_model_call, wrap_tool_call
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from openai.types.responses import ResponseCustomToolCall

import hitl
from hitl import _core
from hitl.ext.langgraph.serving import is_agent
from tests.python.ext.langgraph_runs import Timeless, says
from tests.python.ext.openai_agents_runs import Once, Says
from tests.python.support.api import Api, ok, problem
from tests.python.support.prefixes import run_all_prefixes
from tests.python.support.served import Served

QUESTION = {"type": "gate", "question": "May it?"}
CALL = AIMessage("", tool_calls=[{"name": "pay", "args": {"cents": 5}, "id": "c1"}])


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


@tool
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool
def pick() -> str:
    """Let somebody pick."""
    return str(interrupt(QUESTION))


@tool
async def pick_by_hitl() -> str:
    """Let somebody pick."""
    return str(await hitl.interrupt(QUESTION))


# -- LangGraph, LangChain ----------------------------------------------------------------------------------------------


def agent_with(*middleware: Any, tools: Any = (pay,), call: Any = ("pay", {"cents": 5})) -> Any:
    return create_agent(says([call]), list(tools), middleware=list(middleware), name="payer")


@wrap_tool_call
async def around_a_call(request: Any, handler: Any) -> Any:
    if not interrupt(QUESTION):
        return ToolMessage("no", tool_call_id=request.tool_call["id"])
    return await handler(request)


@wrap_tool_call
def around_a_call_in_a_thread(request: Any, handler: Any) -> Any:
    return handler(request) if interrupt(QUESTION) else ToolMessage("no", tool_call_id=request.tool_call["id"])


@wrap_tool_call
async def around_a_call_by_hitl(request: Any, handler: Any) -> Any:
    if not await hitl.interrupt(QUESTION):
        return ToolMessage("no", tool_call_id=request.tool_call["id"])
    return await handler(request)


@wrap_model_call
async def around_the_model(request: Any, handler: Any) -> Any:
    interrupt(QUESTION)
    return await handler(request)


def asking(at: str) -> AgentMiddleware[Any, Any]:
    """Middleware that asks there, when the conversation is as long."""

    def ask(self: Any, state: Any, runtime: Any) -> None:
        if len(state["messages"]) <= 2 or at == "after_agent":
            interrupt(QUESTION)

    made: AgentMiddleware[Any, Any] = type("Asking", (AgentMiddleware,), {at: ask})()
    return made


def graph(ask: Callable[[Any], Any] | None = None, before: list[str] | None = None, node: Any = None) -> Any:
    """One whose model has `pay` called, and what `ask` asks before that; or it asks at the very begin."""
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [CALL]})
    builder.add_node("tools", ToolNode([pay]))
    builder.add_node("last", lambda state: {"messages": [AIMessage("done")]})
    builder.add_edge("tools", "last").add_edge("last", END)
    if node is not None:
        builder.add_node("first", node).add_edge(START, "first").add_edge("first", "say")
    else:
        builder.add_edge(START, "say")
    if ask is not None:
        builder.add_node("ask", ask).add_edge("say", "ask").add_edge("ask", "tools")
    else:
        builder.add_edge("say", "tools")
    return builder.compile(interrupt_before=before)


def ask_and_go_on(state: MessagesState) -> dict[str, Any]:
    interrupt(QUESTION)
    return {}


async def ask_by_hitl(state: MessagesState) -> dict[str, Any]:
    await hitl.interrupt(QUESTION)
    return {}


def for_a_person() -> Any:
    """The model calls what no `ToolNode` has, and a node asks a person in its place."""
    wants = AIMessage("", tool_calls=[{"name": "AskHuman", "args": {}, "id": "c1"}])
    builder = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [wants]})
    builder.add_node("tools", ToolNode([pay])).add_edge("tools", END)
    return builder.add_node("ask", ask_and_go_on).add_edge(START, "say").add_edge("say", "ask").compile()


# -- OpenAI Agents -----------------------------------------------------------------------------------------------------


async def asks(*arguments: Any) -> bool:
    return bool(await hitl.interrupt(QUESTION))


async def guards(*arguments: Any) -> Any:
    await hitl.interrupt(QUESTION)
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)


async def guards_a_tool(data: Any) -> Any:
    await hitl.interrupt(QUESTION)
    return ToolGuardrailFunctionOutput.allow()


def openai_agent(**options: Any) -> Agent[Any]:
    """Calls `act`, a tool with options of its own."""
    own = {name: options.pop(name) for name in ("needs_approval", "tool_input_guardrails") if name in options}

    @function_tool(**own)
    async def act() -> str:
        return str(await hitl.interrupt(QUESTION)) if not (own or options) else "done"

    return Agent(name="actor", model=Says([("act", {})]), tools=[act], **options)


def typist(**options: Any) -> Agent[Any]:
    async def write(context: Any, text: str) -> str:
        return "done"

    made = ResponseCustomToolCall(type="custom_tool_call", call_id="t1", name="type", input="hello")
    return Agent(name="typist", model=Once(made), tools=[CustomTool("type", "types", write, **options)])


async def decides(context: Any, item: Any) -> Any:
    return {"approve": await asks()}


LETS_RUN: dict[str, Callable[[], Any]] = {
    "breakpoint": lambda: graph(before=["tools"]),
    "node before a tool": lambda: graph(ask_and_go_on),
    "node before a tool, by hitl": lambda: graph(ask_by_hitl),
    "around a call": lambda: agent_with(around_a_call),
    "around a call, in a thread": lambda: agent_with(around_a_call_in_a_thread),
    "around a call, by hitl": lambda: agent_with(around_a_call_by_hitl),
    "around the model": lambda: agent_with(around_the_model),
    "before the agent": lambda: agent_with(asking("before_agent")),
    "before the model": lambda: agent_with(asking("before_model")),
    "after the model": lambda: agent_with(asking("after_model")),
    "needs_approval": lambda: openai_agent(needs_approval=asks),
    "guardrail of a tool": lambda: openai_agent(tool_input_guardrails=[ToolInputGuardrail(guards_a_tool)]),
    "guardrail": lambda: openai_agent(input_guardrails=[InputGuardrail(guards, run_in_parallel=False)]),
    "needs_approval of text": lambda: typist(needs_approval=asks),
    "on_approval": lambda: typist(needs_approval=True, on_approval=decides),
}
ASKS: dict[str, Callable[[], Any]] = {
    "tool": lambda: agent_with(tools=[pick], call=("pick", {})),
    "tool, by hitl": lambda: agent_with(tools=[pick_by_hitl], call=("pick_by_hitl", {})),
    "tool in middleware": lambda: agent_with(asking("after_tool"), tools=[pick], call=("pick", {})),
    "after the agent": lambda: agent_with(asking("after_agent")),
    "node": lambda: graph(node=ask_and_go_on),
    "node, by hitl": lambda: graph(node=ask_by_hitl),
    "node in the place of a tool": for_a_person,
    "function tool": openai_agent,
}


def answers(request: Any) -> Any:
    return {"type": "approve"} if request["type"] == "tool_approval" else False


@pytest.mark.parametrize("which", [*LETS_RUN, *ASKS])
async def test_what_stands_before_something_lets_it_run_and_a_question_does_not(which: str) -> None:
    """From every prefix of the journal."""
    made = (LETS_RUN.get(which) or ASKS[which])()
    run = await run_all_prefixes(lambda effects: Timeless(made) if is_agent(made) else made, answers)
    own = [each for each in run.requests if each["type"] != "tool_approval"]
    assert {each.get("lets_run", False) for each in own} == {which in LETS_RUN}


# -- on a server -------------------------------------------------------------------------------------------------------


async def agent(message: hitl.ChatMessage, state: list[hitl.ChatMessage]) -> Any:
    """The agent that the message names."""
    from hitl.driver.shapes import as_agent

    return await as_agent({**LETS_RUN, **ASKS}[message.content or ""]()).run(message, state)


def test_whoever_sent_the_message_answers_a_question_and_nothing_that_lets_a_tool_run(tmp_path: Any) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    keys = {name: _core.create_key(store, name, ["read", "send", "answer"], [])[1] for name in ("ada", "bob")}
    with Served(f"{__name__}:agent", store=store, prevent_self_approval=True) as server, ExitStack() as people:
        ada, bob = (people.enter_context(closing(Api(server.url, api_key=keys[name]))) for name in ("ada", "bob"))
        for which in ("breakpoint", "around a call", "needs_approval"):
            session = ada.create()
            assert ada.send(session, which).status_code == 202
            (asked,) = ada.wait(session)["interrupts"]
            assert (asked.get("lets_run"), asked["sent_by"]) == (True, "ada")
            assert problem(ada.resume(session, asked["interrupt_id"], True), 403)["code"] == "self_approval"
            ok(bob.resume(session, asked["interrupt_id"], True))
        session = ada.create()
        assert ada.send(session, "tool").status_code == 202
        (asked,) = ada.wait(session)["interrupts"]
        ok(ada.resume(session, asked["interrupt_id"], "red"))
        assert "red" in ada.wait(session)["response"]["content"]
