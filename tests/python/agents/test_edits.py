"""A person who changes the arguments, or answers in the tool's place: what is checked, what runs, what is told."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field

from hitl import Decision, ReActAgent, tool
from hitl import agent as hitl_agent
from hitl.journal.ports import InterruptRequest
from hitl.messages import ChatMessage
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from hitl.tools.schema import Arguments, SchemaParameters
from tests.python.support.local import Answers, LocalTurn, run_locally
from tests.python.support.prefixes import Effects, Run, run_all_prefixes

APPROVE = {"type": "approve"}


def edit(**args: Any) -> dict[str, Any]:
    return {"type": "edit", "args": args}


def agent_with(made: Tool[..., Any], **args: Any) -> ReActAgent:
    script = [{"tool_calls": [{"name": made.name, "args": args, "id": "call_1"}]}, {"content": "done"}]
    return ReActAgent(client=ScriptedChatClient(script), tools=[made], name="payer")


async def pay(answers: Answers, cents: int = 100, **options: Any) -> Run:
    """The model calls `pay`; checked from every prefix of the journal."""

    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True, **options)
        async def pay(cents: int, to: str = "rent") -> str:
            effects.append((cents, to))
            return f"paid {cents}"

        return agent_with(pay, cents=cents)

    return await run_all_prefixes(make, answers)


def shown(run: Run) -> list[Any]:
    return [asked["payload"]["tool_args"] for asked in run.requests]


@pytest.mark.parametrize("answer", [edit(cents=5), {"approved": True, "args": {"cents": 5}}])
async def test_exactly_the_edited_arguments_run_and_the_model_is_told(answer: Any) -> None:
    run = await pay(lambda asked: answer)
    assert run.effects == [(5, "rent")]
    assert shown(run) == [{"cents": 100, "to": "rent"}]
    assert run.told == ['paid 5\n\n[A person changed the arguments of this call to {"cents":5,"to":"rent"}]']


async def test_what_the_types_make_of_an_edit_is_shown_before_it_runs() -> None:
    """What a person said, and the audit has, is what runs; else they say so of what does."""

    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def meet(at: datetime, notes: Annotated[list[str], Field(default_factory=list)]) -> str:
            effects.append((at.isoformat(), notes))
            return "met"

        return agent_with(meet, at="2026-01-05T10:00:00Z", notes=[])

    def answer(asked: InterruptRequest) -> Any:
        return APPROVE if asked["message"] else edit(at="2026-02-05T10:00:00+00:00")

    run = await run_all_prefixes(make, answer)
    assert shown(run)[1:] == [{"at": "2026-02-05T10:00:00Z", "notes": []}]
    said = "The tool reads the edited arguments like this; this is what would run."
    assert [asked["message"] for asked in run.requests] == [None, said]
    assert run.effects == [("2026-02-05T10:00:00+00:00", [])]


@pytest.mark.parametrize("said", [2, 2.0])
async def test_a_number_of_the_same_size_is_what_was_said(said: float) -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True)
        async def wait(seconds: float) -> str:
            effects.append(seconds)
            return "waited"

        return agent_with(wait, seconds=1.5)

    run = await run_all_prefixes(make, lambda asked: edit(seconds=said))
    assert (len(run.requests), run.effects) == (1, [2.0])


async def test_a_result_that_is_no_text_and_an_error_say_it_as_well() -> None:
    @tool(requires_approval=True)
    async def count(upto: int) -> list[int]:
        if upto > 3:
            raise ValueError("too far")
        return list(range(upto))

    for upto, told in ((2, "[0,1]"), (4, '{"error": "ValueError: too far"}')):
        result = await run_locally(agent_with(count, upto=1), "go", answers=lambda asked, upto=upto: edit(upto=upto))
        note = f'[A person changed the arguments of this call to {{"upto":{upto}}}]'
        assert result.state[2].content == f"{told}\n\n{note}"


async def test_python_gets_the_bare_result() -> None:
    @tool(requires_approval=True)
    async def double(number: int) -> int:
        return number * 2

    async def agent(message: Any, state: Any) -> Any:
        from hitl import ChatMessage

        return ChatMessage.assistant_message(content=str(await double(1))), state

    assert (await run_locally(agent, "go", answers=lambda asked: edit(number=4))).response.content == "8"


async def test_an_edit_that_does_not_fit_the_tool_runs_nothing_and_is_asked_for_again() -> None:
    run = await pay(
        lambda asked: edit(cents="many" if asked["message"] == "The rent." else 5), approval_description="The rent."
    )
    assert run.effects == [(5, "rent")]
    assert shown(run) == [{"cents": 100, "to": "rent"}] * 2
    said = "The answer was refused: cents: Input should be a valid integer, unable to parse string as an integer"
    assert [asked["message"] for asked in run.requests] == ["The rent.", f"{said} The rent."]
    assert run.told == ['paid 5\n\n[A person changed the arguments of this call to {"cents":5,"to":"rent"}]']


async def test_an_edit_goes_through_the_guardrails_as_the_model_s_arguments_did() -> None:
    seen: list[int] = []

    def watch(cents: int) -> None:
        seen.append(cents)
        if cents > 1000:
            raise ValueError("more than 1000")

    @tool(requires_approval=True, input_guardrails=[watch])
    async def pay(cents: int) -> str:
        raise AssertionError("it ran")

    result = await run_locally(agent_with(pay, cents=1), "go", answers=lambda asked: edit(cents=5000))
    assert seen == [1, 5000]
    assert json.loads(result.state[2].content or "")["error"] == "ValueError: more than 1000"


async def test_a_guardrail_that_changes_an_edit_asks_again_with_what_would_run() -> None:
    def at_most_50(cents: int) -> dict[str, int] | None:
        return {"cents": 50} if cents > 50 else None

    def person(asked: Any) -> Any:
        return edit(cents=80) if asked["message"] is None else APPROVE

    run = await pay(person, 10, input_guardrails=[at_most_50])
    assert shown(run) == [{"cents": 10, "to": "rent"}, {"cents": 50, "to": "rent"}]
    assert run.requests[1]["message"] == "Guardrails changed the edited arguments; this is what would run."
    assert run.requests[0]["args_digest"] != run.requests[1]["args_digest"]
    assert run.requests[0]["tool_call_id"] == run.requests[1]["tool_call_id"]
    assert run.effects == [(50, "rent")]
    assert run.told[0] is not None
    assert run.told[0].endswith('changed the arguments of this call to {"cents":50,"to":"rent"}]')


async def test_who_is_asked_again_may_still_say_no() -> None:
    def person(asked: Any) -> Any:
        return edit(cents=80) if asked["message"] is None else {"type": "reject", "reason": "not that"}

    run = await pay(person, 10, input_guardrails=[lambda cents: {"cents": 1}])
    assert run.effects == []
    assert run.told == ['{"error": "User rejected pay: not that"}']


async def test_who_is_asked_again_may_edit_again() -> None:
    def even(cents: int) -> dict[str, int] | None:
        return {"cents": cents + 1} if cents % 2 else None

    def person(asked: Any) -> Any:
        return edit(cents=asked["payload"]["tool_args"]["cents"] + (3 if asked["message"] is None else 2))

    run = await pay(person, 10, input_guardrails=[even])
    assert shown(run) == [{"cents": 10, "to": "rent"}, {"cents": 14, "to": "rent"}]
    assert run.effects == [(16, "rent")]


async def test_an_edit_goes_through_on_approval_which_may_refuse_it() -> None:
    def at_most_50(request: Any) -> Decision | None:
        return Decision.reject("more than 50") if request.tool_args["cents"] > 50 else None

    run = await pay(lambda asked: edit(cents=80), 10, on_approval=at_most_50)
    assert run.effects == []
    assert run.told == ['{"error": "User rejected pay: more than 50"}']


async def test_on_approval_may_change_an_edit_and_then_the_person_is_asked_again() -> None:
    def at_most_50(request: Any) -> Decision | None:
        return Decision.edit({"cents": 50}) if request.tool_args["cents"] > 50 else None

    def person(asked: Any) -> Any:
        return edit(cents=80) if asked["message"] is None else APPROVE

    run = await pay(person, 10, on_approval=at_most_50)
    assert shown(run) == [{"cents": 10, "to": "rent"}, {"cents": 50, "to": "rent"}]
    assert run.effects == [(50, "rent")]


@pytest.mark.parametrize("said", [None, Decision.approve()])
async def test_on_approval_of_an_edit_that_lets_it_be_changes_nothing(said: Decision | None) -> None:
    asked_about: list[int] = []

    def easy(request: Any) -> Decision | None:
        asked_about.append(request.tool_args["cents"])
        return None if request.tool_args["cents"] == 10 else said

    run = await pay(lambda asked: edit(cents=80), 10, on_approval=easy)
    assert run.effects == [(80, "rent")]
    assert asked_about[:2] == [10, 80]


def at_most_50(request: Any) -> Decision | None:
    return Decision.respond("never mind") if request.tool_args["cents"] > 50 else None


async def test_on_approval_may_answer_an_edited_call_in_the_tool_s_place() -> None:
    run = await pay(lambda asked: edit(cents=80), 10, on_approval=at_most_50, output_guardrails=[str.upper])
    assert run.effects == []
    assert run.told == ["NEVER MIND"]
    assert len(run.requests) == 1


async def test_the_next_call_of_that_tool_runs_after_one_that_on_approval_has_answered() -> None:
    async def agent(message: ChatMessage, state: list[ChatMessage]) -> Any:
        said = [await bought.call(cents=cents) for cents in (10, 20)]
        return ChatMessage.assistant_message(content=", ".join(said)), state

    effects: Effects = []

    @tool(requires_approval=lambda ctx, args: args["cents"] == 10, on_approval=at_most_50)
    async def bought(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    def make(done: Effects) -> Any:
        nonlocal effects
        effects = done
        return hitl_agent(agent)

    run = await run_all_prefixes(make, lambda asked: edit(cents=80))
    assert run.response.content == "never mind, paid 20"
    assert run.effects == [20]


@pytest.mark.parametrize("upto", [0, 1])
async def test_a_journal_in_which_an_edited_call_ran_although_on_approval_had_answered_it_goes_on_so(upto: int) -> None:
    """As releases did that took no such answer: here with an approval in its place, which the journal does not tell."""
    says: list[Decision] = [Decision.approve()]
    effects: Effects = []

    @tool(requires_approval=True, on_approval=lambda request: says[0] if request.tool_args["cents"] > 50 else None)
    async def pay(cents: int) -> str:
        effects.append(cents)
        return f"paid {cents}"

    first = await run_locally(agent_with(pay, cents=10), "go", answers=lambda asked: edit(cents=80))
    journal = json.loads(json.dumps(first.port.journal))
    said = [entry for entry in journal if entry["entry"] == "step" and entry["step"]["name"] == "pay.on_approval"]
    said[1]["result"]["value"] = Decision.respond("never mind").to_json()
    paid = next(at for at, entry in enumerate(journal) if entry["entry"] == "step" and entry["step"]["kind"] == "tool")
    assert effects == [80]

    again = LocalTurn(journal=journal[: paid + 1 + upto])
    _, state = await again.run(agent_with(pay, cents=10).run_turn, ChatMessage.user_message(content="go"), [])
    assert effects == [80]
    assert state == first.state
    assert again.port.journal[-1]["step"] == first.port.journal[-1]["step"]


async def test_an_edited_call_that_had_not_run_yet_when_on_approval_answered_it_does_not_run() -> None:
    """From a journal of such a release, that ends between the two."""
    run = await pay(lambda asked: edit(cents=80), 10, on_approval=at_most_50)
    names = [(entry["entry"], entry.get("step", {}).get("name")) for entry in run.port.journal]
    journal = run.port.journal[: names.index(("step", "pay.answered_edit"))]
    again = LocalTurn(journal=journal)

    @tool(requires_approval=True, on_approval=at_most_50)
    async def pay_again(cents: int, to: str = "rent") -> str:
        raise AssertionError("it ran")

    made = tool(pay_again, name="pay")
    _, state = await again.run(agent_with(made, cents=10).run_turn, ChatMessage.user_message(content="go"), [])
    assert state == run.state


async def test_the_description_is_of_what_would_run() -> None:
    def about(ctx: Any, args: dict[str, Any]) -> str:
        return f"Pay {args['cents']} cents."

    def person(asked: Any) -> Any:
        return edit(cents=80) if asked["payload"]["tool_args"]["cents"] == 10 else APPROVE

    run = await pay(person, 10, approval_description=about, input_guardrails=[lambda cents: {"cents": min(cents, 50)}])
    assert [asked["message"] for asked in run.requests] == [
        "Pay 10 cents.",
        "Guardrails changed the edited arguments; this is what would run. Pay 50 cents.",
    ]


async def test_a_description_that_is_made_for_the_second_question_is_no_run_of_the_tool() -> None:
    def make(effects: Effects) -> ReActAgent:
        @tool(requires_approval=True, approval_description=lambda context, args: f"book {args['when']}")
        async def book(when: datetime) -> str:
            effects.append(when)
            return "booked"

        return agent_with(book, when="2024-01-01T00:00:00Z")

    # pydantic writes it with a Z.
    answers = iter([edit(when="2025-05-05T10:00:00+00:00"), APPROVE])
    said: dict[str, Any] = {}

    def answer(asked: InterruptRequest) -> Any:
        message = str(asked["message"])
        return said.setdefault(message, next(answers, APPROVE))

    run = await run_all_prefixes(make, answer)
    assert len(run.requests) == 2
    assert len(run.effects) == 1


async def test_an_edit_of_a_once_tool_is_once_and_of_arguments_that_change_later_does_not_run() -> None:
    kept: list[list[str]] = []
    ran: list[Any] = []

    def keep(paths: list[str]) -> list[str]:
        kept.append(paths)
        return paths

    def tamper(paths: list[str]) -> None:
        if paths == ["/b"]:
            for each in kept:
                each.append("/etc/passwd")

    async def delete(paths: Annotated[list[str], AfterValidator(keep)]) -> None:
        ran.append(paths)

    made = tool(delete, requires_approval=True, input_guardrails=[tamper])
    result = await run_locally(agent_with(made, paths=["/a"]), "go", answers=lambda asked: edit(paths=["/b"]))
    assert ran == []
    assert "changed after they were approved" in (result.state[2].content or "")


async def test_an_edit_that_is_too_large_to_show_again_does_not_run() -> None:
    run = await pay(
        lambda asked: edit(cents=1, to="x" * 10),
        input_guardrails=[lambda to: {"to": to * 4000} if to != "rent" else None],
    )
    assert run.effects == []
    assert "the limit is 16384" in (run.told[0] or "")


# -- in the tool's place ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "content"),
    [("Ask again on Monday.", "Ask again on Monday."), ({"paid": 0}, '{"paid":0}'), (None, "null")],
)
async def test_a_response_is_the_result_and_the_tool_does_not_run(message: Any, content: str) -> None:
    run = await pay(lambda asked: {"type": "respond", "message": message}, allowed_decisions=["approve", "respond"])
    assert run.effects == []
    assert run.told == [content]


async def test_output_guardrails_look_at_a_response_too() -> None:
    run = await pay(
        lambda asked: {"type": "respond", "message": "secret"},
        allowed_decisions=["respond"],
        output_guardrails=[lambda value: value.replace("secret", "***")],
    )
    assert run.told == ["***"]


async def test_only_what_is_allowed_counts() -> None:
    run = await pay(lambda asked: edit(cents=5), allowed_decisions=["approve", "reject"])
    assert run.effects == []
    assert run.requests[0]["args_schema"] is None
    assert "did not run" in (run.told[0] or "")


async def test_where_arguments_cannot_be_checked_nobody_is_offered_an_edit() -> None:
    schema = {"type": "object", "properties": {"line": {"$ref": "https://tools.example/line.json"}}}

    class Unchecked(SchemaParameters):
        def check(self, given: Any) -> Arguments:
            return Arguments(dict(given), dict(given), given)

    async def write(**arguments: Any) -> str:
        return "ran"

    made = Tool.with_parameters(write, Unchecked(schema, trusted=True), name="write", requires_approval=True)
    result = await run_locally(agent_with(made, line="x"), "go", answers=lambda asked: APPROVE)
    assert (result.requests[0]["allowed_decisions"], result.requests[0]["args_schema"]) == (["approve", "reject"], None)
    assert result.state[2].content == "ran"
    only_edits = tool(made, allowed_decisions=["edit"])
    result = await run_locally(agent_with(only_edits, line="x"), "go", answers=lambda asked: {"type": "reject"})
    assert result.requests[0]["allowed_decisions"] == ["reject"]
