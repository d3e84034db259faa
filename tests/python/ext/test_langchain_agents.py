"""What agents of LangChain (`create_agent`) may do in a turn, each from every prefix of its journal too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, field_validator

import hitl
from hitl import RunState
from hitl.ext.langgraph import as_agent
from tests.python.ext.langgraph_runs import APPROVE, Calls, Says, proved, says
from tests.python.support.local import PENDING, LocalTurn
from tests.python.support.prefixes import Effects

ALL: Any = ["approve", "edit", "reject", "respond"]
PAYS: Calls = [("pay", {"cents": n}) for n in (1, 2, 3, 4)]


def payer(effects: Effects, *rounds: Calls, middleware: Any = None, model: Any = None, **options: Any) -> Any:
    """An agent that pays, once it may."""

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        effects.append(cents)
        return f"paid {cents}"

    gate = gated(**options)
    chat = model or says(*(rounds or ([("pay", {"cents": 5})],)))
    return create_agent(chat, [pay], middleware=[gate] if middleware is None else middleware, name="payer")


def gated(mode: Any = "per_call", **config: Any) -> HumanInTheLoopMiddleware[Any, Any]:
    return HumanInTheLoopMiddleware({"pay": {"allowed_decisions": ALL, **config}}, interrupt_mode=mode)


class Watched(ThreadPoolExecutor):
    """The loop's threads, and what was given to them."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.given.append(fn)
        return super().submit(fn, *args, **kwargs)


# -- approvals ---------------------------------------------------------------------------------------------------------


def decide(asked: Any) -> Any:
    """A different decision for each of PAYS."""
    by_cents = {
        1: APPROVE,
        2: {"type": "edit", "args": {"cents": 20}},
        3: {"type": "reject", "reason": "too much"},
        4: {"type": "respond", "message": "paid in cash"},
    }
    return by_cents[asked["payload"]["tool_args"]["cents"]]


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_every_decision_reaches_the_agent_in_its_own_words(mode: Any) -> None:
    run, said = await proved(lambda effects: payer(effects, PAYS, mode=mode, description="Money"), decide)
    edited = 'Executed instead: pay with arguments {"cents": 20}.\n\nTool response:\npaid 20'
    assert [each[0] for each in said] == ["success", "success", "error", "success"]
    assert said[0][1] == "paid 1"
    assert said[1][1].endswith(edited)
    assert said[2][1] == "User rejected the tool call for `pay` with reason: too much"
    assert said[3][1] == "paid in cash"
    assert sorted(run.effects) == [1, 20]
    for asked in run.requests:
        assert (asked["type"], asked["agent"], asked["message"]) == ("tool_approval", "payer", "Money")
        assert asked["allowed_decisions"] == ALL
        assert asked["args_schema"]["properties"]["cents"]["type"] == "integer"
        assert "$defs" not in asked["args_schema"]  # it refers to none
    assert [asked["tool_call_id"] for asked in run.requests] == ["c00", "c01", "c02", "c03"]


async def test_calls_of_a_reply_are_asked_in_its_order_since_no_thread_comes_between() -> None:
    threads = Watched()
    asyncio.get_running_loop().set_default_executor(threads)
    asked = await hitl.run(payer([], PAYS), "go")
    assert [one.tool_args for one in asked.interrupts] == [args for _, args in PAYS]
    assert len(threads.given) == 1  # the model, which is a plain function


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_approvals_are_given_one_by_one_in_any_order(mode: Any) -> None:
    paid: list[Any] = []

    def make() -> Any:
        return payer(paid, PAYS[:2], mode=mode)

    first = await hitl.run(make(), "go")
    assert [asked.tool_args for asked in first.interrupts] == [{"cents": 1}, {"cents": 2}]
    state = RunState.from_string(make(), first.state.to_string())
    second = await hitl.run(make(), state.approve(state.interrupts[1]))
    # A batch is LangChain's own: it goes on once all of it is decided.
    assert (second.status, paid) == ("interrupted", [2] if mode == "per_call" else [])
    state = RunState.from_string(make(), second.state.to_string())
    last = await hitl.run(make(), state.reject(state.interrupts[0], reason="no"))
    assert (last.status, paid) == ("idle", [2])
    assert "with reason: no" in (last.output or "")


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_a_call_may_be_asked_about_only_when_it_has_to_be(mode: Any) -> None:
    def when(request: Any) -> bool:
        return bool(request.tool_call["args"]["cents"] > 1)

    run, _ = await proved(lambda effects: payer(effects, PAYS[:2], mode=mode, when=when), lambda asked: APPROVE)
    assert [asked["payload"]["tool_args"] for asked in run.requests] == [{"cents": 2}]
    assert sorted(run.effects) == [1, 2]


class Bill(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def is_even(cls, cents: int) -> int:
        if cents % 2 and cents > 5:
            raise ValueError("only even amounts")
        return cents


async def test_an_edit_that_only_the_tools_type_refuses_is_asked_for_again() -> None:
    def make(effects: Effects) -> Any:
        @tool
        def pay(bill: Bill) -> str:
            """Pay."""
            effects.append(bill.cents)
            return f"paid {bill.cents}"

        return create_agent(says([("pay", {"bill": {"cents": 5}})]), [pay], middleware=[gated()], name="payer")

    edits = {False: 7, True: 8}
    run, _ = await proved(
        make,
        lambda asked: {"type": "edit", "args": {"bill": {"cents": edits["refused" in asked["message"]]}}},
    )
    assert ["only even amounts" in asked["message"] for asked in run.requests] == [False, True]
    assert run.effects == [8]


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_a_rule_refuses_a_call_whatever_the_middleware_allows(mode: Any) -> None:
    def deny(local: LocalTurn) -> None:
        local.port.decide_at_once = lambda request: {"type": "reject", "reason": "closed", "by": "policy"}

    effects: list[Any] = []
    with pytest.raises(hitl.ToolRejected, match="closed"):
        await proved(lambda current: payer(effects, mode=mode, allowed_decisions=["approve"]), setup=deny)
    assert effects == []


async def test_arguments_are_shown_with_the_definitions_that_they_refer_to() -> None:
    @tool
    def wire(to: Account, copies: list[Account]) -> str:
        """Wire money."""
        return f"wired to {to.bank.name}"

    gate = HumanInTheLoopMiddleware({"wire": True}, interrupt_mode="per_call")
    account = {"bank": {"name": "first"}}
    model = says([("wire", {"to": account, "copies": []})])
    edited = {"to": {"bank": {"name": "second"}}, "copies": [account]}
    run, said = await proved(
        lambda effects: create_agent(model, [wire], middleware=[gate]), lambda asked: {"type": "edit", "args": edited}
    )
    assert said[0][1].endswith("wired to second")
    assert sorted(run.requests[0]["args_schema"]["$defs"]) == ["Account", "Bank"]


class Bank(BaseModel):
    name: str


class Account(BaseModel):
    bank: Bank


async def test_an_edit_that_does_not_fit_is_refused_at_once() -> None:
    state = (await hitl.run(payer([]), "go")).state
    with pytest.raises(hitl.InvalidAnswer, match="cents"):
        state.edit(state.interrupts[0], {"cents": "many"})


async def test_a_state_with_two_open_calls_is_small() -> None:
    for mode in ("per_call", "batched"):
        result = await hitl.run(payer([], PAYS[:2], mode=mode), "go")
        assert len(result.state.to_string()) < 15 * 1024


async def test_a_rule_may_ask_about_any_tool_and_its_author_says_how() -> None:
    def make(effects: Effects) -> Any:
        @tool
        def pay(cents: int) -> str:
            """Pay."""
            effects.append(cents)
            return f"paid {cents}"

        pay.metadata = {"hitl": {"description": "Money"}}
        return create_agent(says([("pay", {"cents": 5})], [("pay", {"cents": 6})]), [pay], name="payer")

    def with_rules(local: LocalTurn) -> None:
        local.port.decide_at_once = lambda request: PENDING

    answers = {5: {"type": "edit", "args": {"cents": 7}}, 6: {"type": "reject", "reason": "no"}}
    run, said = await proved(
        make,
        lambda asked: answers[asked["payload"]["tool_args"]["cents"]],
        journal_start={"policy": True},
        setup=with_rules,
    )
    assert said == [
        ["success", 'paid 7\n[A person changed the arguments of this call to {"cents":7}]'],
        ["error", "User rejected pay: no"],
    ]
    assert [(asked["message"], asked["required"]) for asked in run.requests] == [("Money", False)] * 2
    assert run.effects == [7]


# -- agents inside -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["async", "plain"])
async def test_an_agent_in_a_tool_asks_in_its_own_name_and_does_nothing_twice(how: str) -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects, PAYS[:2])

        if how == "async":

            @tool
            async def delegate(to: str) -> str:
                """Delegate."""
                made = await inner.ainvoke({"messages": [("user", to)]})
                return str(made["messages"][-1].text)
        else:

            @tool
            def delegate(to: str) -> str:
                """Delegate."""
                return str(inner.invoke({"messages": [("user", to)]})["messages"][-1].text)

        return create_agent(says([("delegate", {"to": "a"})]), [delegate], name="outer")

    run, said = await proved(make, lambda asked: APPROVE)
    assert said == [["success", json.dumps([["success", "paid 1"], ["success", "paid 2"]])]]
    assert sorted(run.effects) == [1, 2]
    assert {asked["agent"] for asked in run.requests} == {"payer"}
    assert {step["kind"] for step, _ in run.port.steps if "~tool:" not in step["path"]} == {"step", "model"}


async def test_a_graph_that_blocks_the_loop_runs_as_ever_and_its_calls_are_part_of_the_tool() -> None:
    def make(effects: Effects) -> Any:
        inner = payer(effects, PAYS[:2], middleware=[])

        @tool
        async def delegate(to: str) -> str:
            """Delegate, as one should not."""
            return str(inner.invoke({"messages": [("user", to)]})["messages"][-1].text)

        return create_agent(says([("delegate", {"to": "a"})]), [delegate], name="outer")

    effects: list[Any] = []
    result = await hitl.run(make(effects), "go")
    assert (result.status, sorted(effects)) == ("idle", [1, 2])


async def test_a_graph_that_blocks_the_loop_and_asks_is_an_error_that_says_how_to_call_it() -> None:
    inner = payer([])

    @tool
    async def delegate(to: str) -> str:
        """Delegate, as one cannot."""
        return str(inner.invoke({"messages": [("user", to)]})["messages"][-1].text)

    agent = create_agent(says([("delegate", {"to": "a"})]), [delegate], name="outer")
    result = await hitl.run(agent, "go")
    assert result.status == "error"
    assert "await graph.ainvoke(...)" in (result.error or "")


# -- middleware --------------------------------------------------------------------------------------------------------


async def test_middleware_of_plain_functions_works_around_steps() -> None:
    def make(effects: Effects) -> Any:
        @wrap_model_call
        def around_model(request: Any, handler: Any) -> Any:
            return handler(request)

        @wrap_tool_call
        def around_tool(request: Any, handler: Any) -> Any:
            result = handler(request)
            return result.model_copy(update={"content": f"<{result.content}>"})

        return payer(effects, middleware=[gated(), around_model, around_tool])

    run, said = await proved(make, lambda asked: APPROVE)
    assert (said, run.effects) == ([["success", "<paid 5>"]], [5])


async def test_middleware_without_hooks_that_fit_is_refused_as_ever() -> None:
    agent = payer([], middleware=[wrap_model_call(lambda request, handler: handler(request))])
    with pytest.raises(NotImplementedError, match="awrap_model_call"):
        await agent.ainvoke({"messages": [("user", "go")]})


async def test_middleware_may_answer_in_the_place_of_a_tool() -> None:
    class Cached(AgentMiddleware[Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return ToolMessage("known", tool_call_id=request.tool_call["id"])

    run, said = await proved(lambda effects: payer(effects, middleware=[Cached()]))
    assert (said, run.effects) == ([["success", "known"]], [])


class Flaky(Says):
    """A model that is away so many times."""

    away: list[int]

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        if self.away[0]:
            self.away[0] -= 1
            raise ConnectionError("away")
        return self._generate(messages)


def flaky(away: int) -> Flaky:
    return Flaky(rounds=[], away=[away])


@pytest.mark.parametrize(
    "middleware",
    [lambda: ModelFallbackMiddleware(says()), lambda: ModelRetryMiddleware(max_retries=1, initial_delay=0.0)],
    ids=["another model", "again"],
)
async def test_an_error_of_a_model_is_its_middlewares_first(middleware: Callable[[], Any]) -> None:
    result = await hitl.run(payer([], model=flaky(1), middleware=[middleware()]), "go")
    assert (result.status, result.output) == ("idle", "[]")


async def test_a_model_that_is_away_may_suspend_the_turn() -> None:
    model = flaky(1)
    agent = payer([], model=model)
    assert (await hitl.run(agent, "go")).error == "ConnectionError: away"
    model.away[0] = 1
    served = as_agent(agent, transient="suspend")
    result = await hitl.run(served, "go")
    assert (result.status, result.error_code) == ("error", "model_unavailable")
    assert (await hitl.run(served, result.state)).output == "[]"


# -- models ------------------------------------------------------------------------------------------------------------


class Streams(Says):
    """A model that says its words one by one."""

    async def _astream(self, messages: list[BaseMessage], *args: Any, **options: Any) -> AsyncIterator[Any]:
        message = self._generate(messages).generations[0].message
        if message.tool_calls:  # type: ignore[attr-defined]
            chunks = [{**each, "args": json.dumps(each["args"]), "index": 0} for each in message.tool_calls]  # type: ignore[attr-defined]
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=chunks))
        else:
            for word in ("one ", "two"):
                yield ChatGenerationChunk(message=AIMessageChunk(word))


async def test_what_a_model_says_is_shown_once_as_it_says_it() -> None:
    inner = create_agent(Streams(rounds=[]), name="inner")

    def make() -> Any:
        @tool
        async def ask() -> str:
            """Ask."""
            return str((await inner.ainvoke({"messages": [("user", "nested")]}))["messages"][-1].text)

        @tool
        def pay(cents: int) -> str:
            """Pay."""
            return f"paid {cents}"

        rounds: list[Calls] = [[("ask", {})], [("pay", {"cents": 5})]]
        return create_agent(Streams(rounds=rounds), [ask, pay], middleware=[gated()], name="outer")

    running = hitl.stream(make(), "go")
    first = [event.data["delta"] async for event in running if event.type == "message.delta"]
    state = running.result.state
    again = hitl.stream(make(), state.approve(state.interrupts[0]))
    later = [event.data["delta"] async for event in again if event.type == "message.delta"]
    assert (first, later) == ([], [{"content": "one "}, {"content": "two"}])
    assert again.result.output == "one two"


class Cut(Says):
    """One whose stream ends in the middle, with or without a reason."""

    reason: str | None = None

    async def _astream(self, messages: list[BaseMessage], *args: Any, **options: Any) -> AsyncIterator[Any]:
        for chunk in self._stream(messages):
            yield chunk

    def _stream(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Iterator[Any]:
        if self.rounds and not any(isinstance(message, AIMessage) for message in messages):
            for piece in ('{"cents": ', "5"):
                yield _chunk("", {"name": "pay", "args": piece, "id": "c1", "index": 0})
            yield _chunk("", reason=self.reason)
        else:
            yield _chunk("half of it", reason=self.reason)


def _chunk(text: str, *calls: Any, reason: str | None = None) -> ChatGenerationChunk:
    metadata = {"model_provider": "openai", **({} if reason is None else {"finish_reason": reason})}
    return ChatGenerationChunk(message=AIMessageChunk(text, tool_call_chunks=list(calls), response_metadata=metadata))


@pytest.mark.parametrize("is_plain", [True, False], ids=["in a thread", "on the loop"])
async def test_of_a_stream_that_ends_before_its_model_nothing_is_kept(is_plain: bool) -> None:
    """The model is asked for the whole at once, as LangChain would have."""
    model = Cut(rounds=[])

    def plain(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def asynchronous(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("say", plain if is_plain else asynchronous).add_edge(START, "say")
    assert (await hitl.run(graph.compile(), "go")).output == "[]"


async def test_half_a_call_is_not_made() -> None:
    effects: Effects = []
    agent = payer(effects, model=Cut(rounds=[[("pay", {"cents": 500})]], reason="length"), middleware=[])
    assert (await hitl.run(agent, "go")).status == "idle"
    assert effects == []


async def test_usage_is_counted_and_kept() -> None:
    result = await hitl.run(payer([]), "go")
    assert (result.usage["requests"], result.usage["input_tokens"]) == (1, 1)
    result = await hitl.run(payer([]), result.state.approve(result.interrupts[0]))
    assert (result.usage["requests"], result.usage["input_tokens"], result.usage["output_tokens"]) == (2, 4, 2)


class City(BaseModel):
    name: str


async def test_a_response_of_a_type_is_the_reply_as_json() -> None:
    agent = create_agent(says([("City", {"name": "Oslo"})]), response_format=City)
    result = await hitl.run(agent, "Which?")
    assert (result.error, result.output) == (None, '{"name":"Oslo"}')


async def test_a_response_of_a_type_is_kept_in_a_replay() -> None:
    async def shout(state: Any) -> Any:
        return {"messages": [("ai", state["structured_response"].name.upper())]}

    def make(effects: Effects) -> Any:
        from langgraph.graph import START, MessagesState, StateGraph

        class State(MessagesState):
            structured_response: Any

        agent = create_agent(says([("City", {"name": "Oslo"})]), response_format=City)
        builder = StateGraph(State).add_node("agent", agent).add_node("shout", shout)
        return builder.add_edge(START, "agent").add_edge("agent", "shout").compile()

    result = await hitl.run(make([]), "Which?")
    assert (result.error, result.output) == (None, "OSLO")
