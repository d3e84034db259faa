"""Guardrails look before the person does, and what they say is journaled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hitl import ReActAgent, tool
from hitl.messages import ChatMessage
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from hitl.tools.schema import InvalidArguments
from tests.python.support.local import LocalResult, run_locally

APPROVE = {"type": "approve"}


async def call(made: Tool[..., Any], args: dict[str, Any], answer: Any = APPROVE) -> LocalResult:
    """One turn in which the model calls the tool once."""
    client = ScriptedChatClient([{"tool_calls": [{"name": made.name, "args": args}]}, {"content": "done"}])
    return await run_locally(ReActAgent(client=client, tools=[made]), "go", answers=lambda asked: answer)


def tool_message(result: LocalResult) -> Any:
    return result.state[2].content


async def test_a_guardrail_gets_the_arguments_it_names() -> None:
    seen: list[dict[str, Any]] = []

    def one(b: int) -> None:
        seen.append({"b": b})

    async def every(**kwargs: Any) -> None:
        seen.append(kwargs)

    @tool(input_guardrails=[one, every])
    async def f(a: Path, b: int = 2) -> str:
        return "ran"

    assert tool_message(await call(f, {"a": "/x"})) == "ran"
    assert seen == [{"b": 2}, {"a": Path("/x"), "b": 2}]


async def test_a_parameter_may_have_any_name() -> None:
    names: dict[str, Any] = {"turn": 1, "function": "f", "self": "s"}

    def follows(turn: int, function: str, self: str) -> dict[str, Any]:
        return {"turn": turn + 1}

    @tool(requires_approval=True, input_guardrails=[follows])
    def play(turn: int, function: str, self: str) -> str:
        return f"{turn} {function} {self}"

    assert tool_message(await call(play, names)) == "2 f s"
    assert tool(play, requires_approval=False, input_guardrails=[])(**names) == "1 f s"

    async def agent(message: Any, state: Any) -> Any:
        return ChatMessage.assistant_message(content=await play.call(**names)), state

    assert (await run_locally(agent, "go", answers=lambda asked: APPROVE)).response.content == "2 f s"


async def test_the_person_sees_what_guardrails_made_and_exactly_that_runs() -> None:
    ran: list[str] = []

    @tool(
        requires_approval=True,
        input_guardrails=[lambda path: {"path": f"/safe{path}"}, lambda path: {"path": path + "!"}],
    )
    async def delete(path: str) -> None:
        ran.append(path)

    result = await call(delete, {"path": "/a"})
    assert result.requests[0]["payload"]["tool_args"] == {"path": "/safe/a!"}
    assert ran == ["/safe/a!"]


async def test_a_raising_guardrail_is_a_tool_error_and_nobody_is_asked() -> None:
    def refuse(path: str) -> None:
        raise PermissionError(f"{path} is outside of the workspace")

    @tool(requires_approval=True, input_guardrails=[refuse])
    async def delete(path: str) -> None:
        raise AssertionError("must not run")

    result = await call(delete, {"path": "/etc"})
    assert json.loads(tool_message(result)) == {"error": "PermissionError: /etc is outside of the workspace"}
    assert result.requests == []


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ({"path": 5}, "after guardrail 'patch': path: Input should be a valid string"),
        ({"other": 1}, "after guardrail 'patch': other: Extra inputs are not permitted"),
        ("/x", "must return None or a dict of arguments, got str"),
        (False, "must return None or a dict of arguments, got bool"),
    ],
)
async def test_a_patch_is_checked_like_the_model_s_arguments(patch: Any, complaint: str) -> None:
    def guard(path: str) -> Any:
        return patch

    guard.__name__ = "patch"

    @tool(input_guardrails=[guard])
    async def delete(path: str) -> None:
        raise AssertionError("must not run")

    assert complaint in json.loads(tool_message(await call(delete, {"path": "/a"})))["error"]


async def test_what_an_input_guardrail_changes_in_place_is_what_the_person_sees_and_what_runs() -> None:
    ran: list[dict[str, Any]] = []

    def strip(order: dict[str, Any]) -> None:
        order["lines"].pop()

    @tool(requires_approval=True, input_guardrails=[strip])
    async def place(order: dict[str, Any], note: str = "") -> None:
        ran.append(order)

    result = await call(place, {"order": {"lines": [1, 2]}})
    assert result.requests[0]["payload"]["tool_args"] == {"order": {"lines": [1]}, "note": ""}
    assert ran == [{"lines": [1]}]
    [said] = [outcome["value"] for step, outcome in result.port.steps if step["kind"] == "guardrail"]
    assert said == {"order": {"lines": [1]}}  # a replay, which does not call it, has the same


async def test_an_input_guardrail_s_changes_in_place_stand_beside_those_that_it_returns() -> None:
    def look(order: dict[str, Any], note: str) -> dict[str, Any]:
        order["lines"].pop()
        return {"note": note + "!"}

    @tool(input_guardrails=[look])
    async def place(order: dict[str, Any], note: str) -> str:
        return f"{order} {note}"

    assert tool_message(await call(place, {"order": {"lines": [1, 2]}, "note": "a"})) == "{'lines': [1]} a!"


async def test_what_an_input_guardrail_keeps_and_changes_later_does_not_reach_the_tool() -> None:
    kept: list[dict[str, Any]] = []

    def keep(order: dict[str, Any]) -> None:
        kept.append(order)

    def later(**arguments: Any) -> None:
        kept[0]["lines"].clear()

    @tool(input_guardrails=[keep, later])
    async def place(order: dict[str, Any]) -> str:
        return str(order)

    assert tool_message(await call(place, {"order": {"lines": [1]}})) == "{'lines': [1]}"


async def test_an_argument_changed_in_place_is_checked_and_outside_a_run_it_is_taken_as_well() -> None:
    class Order(BaseModel):
        lines: list[int]

    def spoil(order: Order) -> None:
        order.lines = order.lines[:1]
        order.lines.append("x")  # type: ignore[arg-type]

    def strip(order: Order) -> None:
        order.lines.pop()

    async def place(order: Order) -> str:
        return str(order.lines)

    message = tool_message(await call(tool(place, input_guardrails=[spoil]), {"order": {"lines": [1, 2]}}))
    assert "after guardrail 'spoil': order.lines.1: Input should be a valid integer" in json.loads(message)["error"]
    assert await tool(place, input_guardrails=[strip]).call(order=Order(lines=[1, 2])) == "[1]"


async def test_an_output_guardrail_keeps_replaces_or_refuses() -> None:
    def refuse_secrets(result: str) -> None:
        if "secret" in result:
            raise ValueError("not for the model")

    async def shorten(result: str) -> str:
        return result[:5]

    @tool(output_guardrails=[refuse_secrets, shorten])
    async def read(path: str) -> str:
        return path * 2

    assert tool_message(await call(read, {"path": "abcd"})) == "abcda"
    assert json.loads(tool_message(await call(read, {"path": "secret"}))) == {"error": "ValueError: not for the model"}


async def test_what_an_output_guardrail_changes_in_place_is_what_a_replay_has() -> None:
    def hide(result: dict[str, Any]) -> None:
        result["card"] = "***"

    @tool(output_guardrails=[hide])
    async def pay(cents: int) -> dict[str, Any]:
        return {"card": "4711", "paid": cents}

    result = await call(pay, {"cents": 5})
    assert json.loads(tool_message(result)) == {"card": "***", "paid": 5}
    [said] = [outcome["value"] for step, outcome in result.port.steps if step["kind"] == "guardrail"]
    assert said == {"card": "***", "paid": 5}


async def test_every_guardrail_call_is_a_step() -> None:
    @tool(input_guardrails=[lambda n: {"n": n + 1}], output_guardrails=[lambda result: None])
    async def f(n: int) -> int:
        return n

    result = await call(f, {"n": 1})
    kinds = [(step["kind"], step["name"], outcome) for step, outcome in result.port.steps[1:-1]]
    assert kinds == [
        ("guardrail", "f.<lambda>", {"value": {"n": 2}}),
        ("tool", "f", {"value": 2}),
        ("guardrail", "f.<lambda>", {"value": None}),
    ]


def test_a_guardrail_that_cannot_be_called_is_refused_at_decoration() -> None:
    async def f(path: str) -> None: ...

    with pytest.raises(TypeError, match=r"names the argument 'pth', which tool 'f' does not have \(it has: path\)"):
        tool(f, input_guardrails=[lambda pth: None])
    with pytest.raises(TypeError, match="by position"):
        tool(f, input_guardrails=[lambda *paths: None])
    with pytest.raises(TypeError, match="must take one argument"):
        tool(f, output_guardrails=[lambda: None])
    with pytest.raises(TypeError, match="must be callable, got str"):
        tool(f, input_guardrails=["check"])  # type: ignore[list-item]


def test_a_new_schema_is_checked_against_the_guardrails_that_stay() -> None:
    made = tool(lambda **_: None, name="f", schema={"properties": {"a": {}}}, input_guardrails=[lambda a: None])
    with pytest.raises(TypeError, match="names the argument 'a'"):
        tool(made, schema={"properties": {"b": {}}})


# -- of an agent -----------------------------------------------------------------------------------------------------


async def test_an_agent_s_guardrails_see_the_message_and_the_response() -> None:
    client = ScriptedChatClient([{"content": "my secret"}])
    agent = ReActAgent(
        client=client,
        input_guardrails=[lambda message: message.content.replace("password", "***")],
        output_guardrails=[lambda message: None, lambda message: "nothing to see"],
    )
    result = await run_locally(agent, "the password is x")
    assert client.requests[0]["messages"][-1]["content"] == "the *** is x"
    assert result.response.content == "nothing to see"
    assert [message.content for message in result.state] == ["the *** is x", "nothing to see"]


async def test_an_agent_s_guardrail_that_raises_ends_the_turn() -> None:
    def refuse(message: Any) -> None:
        raise PermissionError("not here")

    client = ScriptedChatClient([{"content": "never"}])
    with pytest.raises(PermissionError, match="not here"):
        await run_locally(ReActAgent(client=client, input_guardrails=[refuse]), "hi")
    assert client.requests == []
    with pytest.raises(TypeError, match="must return None, a str or a ChatMessage, got int"):
        await run_locally(ReActAgent(client=client, input_guardrails=[lambda message: 5]), "hi")


async def test_what_a_guardrail_leaves_alone_is_converted_once() -> None:
    @tool(input_guardrails=[lambda note: {"note": note.strip()}])
    async def pay(
        euros: Annotated[int, AfterValidator(lambda euros: euros * 100)],
        tags: Annotated[list[str], BeforeValidator(lambda tags: tags.split(","))],
        note: str,
    ) -> str:
        return f"{euros} {tags} {note}"

    assert tool_message(await call(pay, {"euros": 5, "tags": "a,b", "note": " x "})) == "500 ['a', 'b'] x"


@pytest.mark.parametrize("extra", ["allow", "forbid", "ignore"])
@pytest.mark.parametrize("given", ["to", "recipients"])
async def test_what_a_guardrail_changes_counts_by_whichever_name_it_was_given(extra: Any, given: str) -> None:
    class Mail(BaseModel):
        model_config = ConfigDict(extra=extra)
        to: list[str] = Field(alias="recipients")

    def add(to: list[str]) -> None:
        to.append("b")

    def name(to: list[str]) -> dict[str, Any]:
        return {"to": [*to, "c"]}

    @tool(schema=Mail, input_guardrails=[add, name])
    async def send(to: list[str], **more: Any) -> str:
        return f"{to} {more}"

    assert tool_message(await call(send, {given: ["a"]})) == "['a', 'b', 'c'] {}"


def test_an_argument_that_is_given_by_both_of_its_names_is_refused() -> None:
    class Payment(BaseModel):
        model_config = ConfigDict(extra="allow")
        cents: int = Field(alias="amount", le=100)

    @tool(schema=Payment)
    async def pay(cents: int, **more: Any) -> None: ...

    with pytest.raises(InvalidArguments, match="cents: given twice, as amount as well"):
        pay.check({"amount": 5, "cents": "999999"})
