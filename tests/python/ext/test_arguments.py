"""What people and rules see of the arguments of another framework's tool: what its model wrote, with the defaults that
stand in its schema. It is the same in every replay, and says what runs, or a person is asked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool, set_tracing_disabled
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import InjectedToolCallId
from langchain_core.tools import Tool as SimpleTool
from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import InjectedState
from pydantic import AfterValidator, BaseModel, Field
from pydantic_ai import Agent

from hitl.driver.shapes import as_agent
from hitl.ext.arguments import says, with_defaults
from hitl.messages import ChatMessage
from tests.python.ext import langgraph_runs, openai_agents_runs, pydantic_ai_runs
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.support.prefixes import Effects

Make = Callable[..., Any]
Sees = list[dict[str, Any]]

ids = itertools.count()


@pytest.fixture(autouse=True)
def untraced() -> None:
    set_tracing_disabled(True)


class Address(BaseModel):
    city: str
    country: str = "NL"


def lowered(text: str) -> str:
    return text.lower()


async def with_rules(agent: Any, *, policy: bool = True, journal: Journal | None = None) -> tuple[Sees, str, LocalTurn]:
    """What a rule that allows all was shown, with ``asked`` where a person is asked all the same; and the reply."""
    loaded, seen = as_agent(agent), Sees()
    start = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "policy": policy}
    local = LocalTurn(agent=loaded.name, journal=journal or [start])

    def allow(request: Any) -> Any:
        is_asked = not request.get("is_run", True)
        seen.append({"args": request["payload"]["tool_args"], "asked": is_asked})
        return PENDING if is_asked else {"type": "approve", "by": "policy"}

    local.port.decide_at_once = allow
    local.port.answers = lambda request: {"type": "approve"}
    reply, _ = await local.run(loaded.run, ChatMessage.user_message(content="go"), [])
    await local.end()
    return seen, reply.content or "", local


def pydantic_ai_agent(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    return Agent(pydantic_ai_runs.says([("act", arguments)]), name="actor", tools=[function])


def langchain_agent(function: Callable[..., Any], arguments: dict[str, Any], **options: Any) -> Any:
    return create_agent(langgraph_runs.says([("act", arguments)]), [langchain_tool(function)], name="actor", **options)


def openai_agent(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    tools = [function_tool(function, strict_mode=False)]
    return OpenAIAgent(name="actor", model=openai_agents_runs.Says([("act", arguments)]), tools=tools)


EVERY = pytest.mark.parametrize("make", [pydantic_ai_agent, langchain_agent, openai_agent])
KNOWN = pytest.mark.parametrize("make", [pydantic_ai_agent, langchain_agent])
"""Where it can be told what becomes of arguments."""


# -- what is shown -----------------------------------------------------------------------------------------------------


@EVERY
async def test_a_default_is_shown_that_the_model_left_out(make: Make) -> None:
    def act(force: bool = True) -> str:
        """Act."""
        return "done"

    seen, _, _ = await with_rules(make(act, {}))
    assert seen == [{"args": {"force": True}, "asked": False}]


@EVERY
async def test_a_null_that_no_argument_may_be_is_no_default(make: Make) -> None:
    ran: list[Any] = []

    def act(count: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013 - as people write it
        """Act."""
        ran.append(count)
        return "done"

    seen, _, _ = await with_rules(make(act, {}))
    assert (seen, ran) == ([{"args": {}, "asked": False}], [None])


@EVERY
async def test_defaults_of_an_object_in_the_arguments_are_shown(make: Make) -> None:
    def act(to: Address, others: list[Address]) -> str:
        """Act."""
        return "done"

    seen, _, _ = await with_rules(make(act, {"to": {"city": "Delft"}, "others": [{"city": "Gent", "country": "BE"}]}))
    delft, gent = {"city": "Delft", "country": "NL"}, {"city": "Gent", "country": "BE"}
    assert seen == [{"args": {"to": delft, "others": [gent]}, "asked": False}]


@EVERY
async def test_what_a_model_writes_for_a_type_of_its_own_is_what_runs(make: Make) -> None:
    def act(at: datetime, price: Decimal, tags: set[str], where: Path) -> str:
        """Act."""
        return "done"

    arguments = {"at": "2026-01-01T10:00:00+00:00", "price": 1.5, "tags": ["b", "a"], "where": "a/b"}
    seen, _, _ = await with_rules(make(act, arguments))
    assert seen == [{"args": arguments, "asked": False}]


class Sum(BaseModel):
    cents: int = Field(validation_alias="amount")


async def test_what_is_written_by_another_name_than_it_is_read_by_is_shown_by_that() -> None:
    ran: list[Any] = []

    def act(sum: Sum, note: str = "") -> str:
        """Act."""
        ran.append(sum.cents)
        return "done"

    seen, _, _ = await with_rules(pydantic_ai_agent(act, {"sum": {"amount": 5}}))
    assert (seen, ran) == ([{"args": {"sum": {"amount": 5}, "note": ""}, "asked": False}], [5])


class Rows(BaseModel):
    rows: Iterable[int]


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "not gated"])
@pytest.mark.parametrize("framework", ["pydantic_ai", "langgraph", "openai_agents"])
async def test_what_is_shown_of_an_iterable_leaves_it_to_the_tool(framework: str, gated: bool) -> None:
    given = {"sheet": {"rows": [1, 2]}, "more": [3]}

    def made(effects: Effects) -> Any:
        def act(sheet: Rows, more: Iterable[int]) -> str:
            """Act."""
            effects.append((list(sheet.rows), list(more)))
            return "done"

        if framework == "pydantic_ai":
            agent = Agent(pydantic_ai_runs.says([("act", given)]), name="actor")
            agent.tool_plain(act, requires_approval=gated)
            return agent
        if framework == "langgraph":
            options: Any = {"middleware": [HumanInTheLoopMiddleware({"act": True})]} if gated else {}
            return langchain_agent(act, given, **options)
        tools = [function_tool(act, strict_mode=False, needs_approval=gated)]
        return OpenAIAgent(name="actor", model=openai_agents_runs.Says([("act", given)]), tools=tools)

    run, _ = await FRAMEWORKS[framework].proved(made, lambda asked: {"type": "approve"})
    assert run.effects == [([1, 2], [3])]
    assert [asked["payload"]["tool_args"] for asked in run.requests] == ([given] if gated else [])


@pytest.mark.parametrize("answer", ["approve", "edit"])
@pytest.mark.parametrize("framework", ["pydantic_ai", "openai_agents"])
async def test_a_gated_call_whose_parameters_are_read_by_another_name_passes(framework: str, answer: str) -> None:
    def made(effects: Effects) -> Any:
        def act(cents: Annotated[int, Field(validation_alias="amount")], sums: list[Sum]) -> str:
            """Act."""
            effects.append((cents, sums[0].cents))
            return "done"

        calls = [("act", {"amount": 5, "sums": [{"amount": 6}]})]
        if framework == "pydantic_ai":
            agent = Agent(pydantic_ai_runs.says(calls), name="actor")
            agent.tool_plain(act, requires_approval=True)
            return agent
        tools = [function_tool(act, strict_mode=False, needs_approval=True)]
        return OpenAIAgent(name="actor", model=openai_agents_runs.Says(calls), tools=tools)

    def says_so(asked: Any) -> Any:
        return {"type": "approve"} if answer == "approve" else {"type": "edit", "args": asked["payload"]["tool_args"]}

    run, _ = await FRAMEWORKS[framework].proved(made, says_so)
    (asked,) = run.requests
    assert asked["payload"]["tool_args"] == {"amount": 5, "sums": [{"amount": 6}]}
    assert run.effects == [(5, 6)]


# -- what does not say what runs ---------------------------------------------------------------------------------------


@KNOWN
async def test_a_person_is_asked_where_a_validator_changes_what_a_rule_saw(make: Make) -> None:
    ran: list[Any] = []

    def act(place: Annotated[str, AfterValidator(lowered)]) -> str:
        """Act."""
        ran.append(place)
        return "done"

    seen, _, _ = await with_rules(make(act, {"place": "PROD"}))
    assert (seen, ran) == ([{"args": {"place": "PROD"}, "asked": True}], ["prod"])


async def test_a_person_is_asked_where_a_tool_reads_another_name_than_its_model_was_told() -> None:
    class Given(BaseModel):
        force: bool = Field(default=True, alias="f")

    ran: list[Any] = []

    @langchain_tool("act", args_schema=Given)
    def act(force: bool) -> str:
        """Act."""
        ran.append(force)
        return "done"

    seen, _, _ = await with_rules(create_agent(langgraph_runs.says([("act", {"force": False})]), [act], name="actor"))
    assert (seen, ran) == ([{"args": {"force": False}, "asked": True}], [True])


async def test_a_langchain_tool_of_one_text_is_shown_as_its_model_is_told_of_it() -> None:
    search = SimpleTool("search", lambda text: f"found {text}", "Search.")
    agent = create_agent(langgraph_runs.says([("search", {"__arg1": "cats"})]), [search])
    seen, said, _ = await with_rules(agent)
    assert seen == [{"args": {"__arg1": "cats"}, "asked": False}]
    assert "found cats" in said


async def test_what_langgraph_injects_is_neither_shown_nor_needed_to_tell() -> None:
    def act(
        force: bool, state: Annotated[dict[str, Any], InjectedState], call: Annotated[str, InjectedToolCallId]
    ) -> str:
        """Act."""
        return f"{call}: {len(state['messages'])}"

    seen, said, _ = await with_rules(langchain_agent(act, {"force": False}))
    assert (seen, json.loads(said)) == ([{"args": {"force": False}, "asked": False}], [["success", "c00: 2"]])


@EVERY
async def test_what_does_not_fit_the_schema_is_not_run_while_there_are_rules(make: Make) -> None:
    ran: list[Any] = []

    def act(force: bool) -> str:
        """Act."""
        ran.append(force)
        return "done"

    seen, said, local = await with_rules(make(act, {"force": "true"}))
    assert (seen, ran) == ([], [])
    assert "act did not run, for its arguments do not fit its schema: force:" in said
    # As it went, whatever the rules are now; there is nothing in the journal but that.
    gone = [dict(entry) for entry in local.port.journal if entry["entry"] in ("start", "step")]
    taken = {"at": 2, "entry": "taken", "code": "code-1", "python": "3.11", "policy": False}
    _, again, _ = await with_rules(make(act, {"force": "true"}), journal=[*gone, taken])
    assert (again, ran) == (said, [])


# -- in a replay -------------------------------------------------------------------------------------------------------


class Order(BaseModel):
    what: str
    number: int = Field(default_factory=lambda: next(ids))


def beside(effects: Effects) -> Callable[..., str]:
    def act(what: str, number: Annotated[int, Field(default_factory=lambda: next(ids))]) -> str:
        """Act."""
        effects.append(what)
        return "done"

    return act


def inside(effects: Effects) -> Callable[..., str]:
    def act(order: Order, note: str | None = None) -> str:
        """Act."""
        effects.append(order.what)
        return "done"

    return act


def alone(effects: Effects) -> Callable[..., str]:
    def act(order: Order) -> str:
        """Act."""
        effects.append(order.what)
        return "done"

    return act


FRAMEWORKS = {"pydantic_ai": pydantic_ai_runs, "langgraph": langgraph_runs, "openai_agents": openai_agents_runs}


@pytest.mark.parametrize("answer", ["approve", "edit"])
@pytest.mark.parametrize("place", [beside, inside, alone], ids=lambda it: it.__name__)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_default_that_is_new_each_time_is_not_shown_and_the_turn_goes_on(
    framework: str, place: Callable[[Effects], Callable[..., str]], answer: str
) -> None:
    # pydantic-ai lets a model write the members of the one parameter of a tool.
    is_flat = place is beside or (place is alone and framework == "pydantic_ai")

    def given(what: str) -> dict[str, Any]:
        return {"what": what} if is_flat else {"order": {"what": what}}

    def made(effects: Effects) -> Any:
        function, calls = place(effects), [("act", given("a"))]
        if framework == "pydantic_ai":
            agent = Agent(pydantic_ai_runs.says(calls), name="actor")
            agent.tool_plain(function, requires_approval=True)
            return agent
        if framework == "langgraph":
            return langchain_agent(function, given("a"), middleware=[HumanInTheLoopMiddleware({"act": True})])
        tools = [function_tool(function, strict_mode=False, needs_approval=True)]
        return OpenAIAgent(name="actor", model=openai_agents_runs.Says(calls), tools=tools)

    says_so = {"type": "approve"} if answer == "approve" else {"type": "edit", "args": given("b")}
    run, _ = await FRAMEWORKS[framework].proved(made, lambda asked: says_so)
    (asked,) = run.requests
    shown = {"note": None} if place is inside else {}
    assert (asked["payload"]["tool_args"], run.effects) == (given("a") | shown, ["a" if answer == "approve" else "b"])


async def test_a_person_is_asked_once_about_a_call_of_an_agent_that_a_tool_asks() -> None:
    def act(force: bool) -> str:
        """Act."""
        return "done"

    inner = langchain_agent(act, {"force": False}, middleware=[HumanInTheLoopMiddleware({"act": True})])

    @langchain_tool
    async def ask() -> str:
        """Ask."""
        return str((await inner.ainvoke({"messages": [("user", "go")]}))["messages"][-1].text)

    seen, _, local = await with_rules(create_agent(langgraph_runs.says([("ask", {})]), [ask], name="outer"))
    asked = [each.request["payload"]["tool_name"] for each in local.port.interrupts if each.request["required"]]
    assert (asked, [each["args"] for each in seen]) == (["act"], [{}, {"force": False}])


# -- in words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "run", "is_it"),
    [
        ({"a": 1}, {"a": 1, "b": None, "c": []}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1.5}, {"a": "1.50"}, True),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": None}, False),
        ({"a": "x"}, {"a": "X"}, False),
        ({"a": "2026-01-01T00:00:00+00:00"}, {"a": "2026-01-01T00:00:00Z"}, True),
        ({"a": ["b", "a", "b"]}, {"a": ["a", "b"]}, True),
        ({"a": ["b", "a"]}, {"a": ["a"]}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": None}]}, True),
    ],
    ids=str,
)
def test_whether_what_is_shown_says_what_runs(shown: Any, run: Any, is_it: bool) -> None:
    assert says(shown, run, is_same_read=True) is is_it


def test_what_a_framework_reads_otherwise_is_no_other_way_to_write_it() -> None:
    assert not says({"a": "2026-01-01"}, {"a": "2026-01-02"}, is_same_read=False)
    assert not says({"a": ["b", "a"]}, {"a": ["a", "b"]}, is_same_read=False)


def test_of_two_descriptions_that_fit_neither_fills_in() -> None:
    one = {"type": "object", "properties": {"a": {"default": 1}}}
    other = {"type": "object", "properties": {"a": {"default": 2}}}
    assert with_defaults({"properties": {"x": {"anyOf": [one, other]}}}, {"x": {}}) == {"x": {}}
    assert with_defaults({"properties": {"x": {"anyOf": [one, {"type": "null"}]}}}, {"x": {}}) == {"x": {"a": 1}}


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert with_defaults(schema, {"x": 1}) == {"x": 1}
