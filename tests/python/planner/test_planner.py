"""Runs, their context, their events, their end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hitl.planner import PlannerEvent, PlannerFinish, ReactPlanner, ToolContext
from hitl.testing import ScriptedChatClient
from tests.python.planner.writing import APPROVED, DONE, Ok, Planner, Text, Written, paused, spec, write


@pytest.fixture
def written() -> Written:
    return Written()


async def test_an_answer_finishes(written: Written) -> None:
    planner = Planner([{"content": "42"}], written.spec)
    assert await planner.run("What is it?") == PlannerFinish(reason="answer_complete", payload="42")
    assert planner.client.requests[0]["messages"] == [{"role": "user", "content": "What is it?"}]
    (definition,) = planner.client.requests[0]["tools"]
    assert definition["function"]["name"] == "write_line"
    assert definition["function"]["description"] == "Write a line to a system (approval required)"
    assert definition["function"]["parameters"]["properties"]["text"]["type"] == "string"


async def test_a_model_that_never_answers_exhausts_the_budget(written: Written) -> None:
    planner = Planner([write("x")] * 30, written.spec)
    assert await planner.run("go", tool_context=APPROVED) == PlannerFinish("budget_exhausted")
    assert [event.extra["reason"] for event in planner.events] == ["budget_exhausted"]


async def test_the_step_limit_counts_over_pauses(written: Written) -> None:
    planner = Planner([write("x")] * 30, written.spec)
    result = await planner.run("go")
    pauses = 0
    while not isinstance(result, PlannerFinish):
        pauses += 1
        result = await planner.resume(result.resume_token)
    assert (result.reason, pauses) == ("budget_exhausted", 20)


async def test_what_the_models_client_raises_is_raised(written: Written) -> None:
    with pytest.raises(Exception, match="the script has 0 replies"):
        await Planner([], written.spec).run("go")


async def test_arguments_that_do_not_fit_are_a_tool_error(written: Written) -> None:
    planner = Planner([{"tool_calls": [{"name": "write_line", "args": {"txt": 3}}]}, DONE], written.spec)
    await planner.run("go", tool_context=APPROVED)
    assert "text: Field required" in planner.told[0]["error"]


@pytest.mark.parametrize("returned", [Ok(ok=True), {"ok": True}])
async def test_results_are_checked_against_their_model(returned: Any) -> None:
    async def give(args: Text, ctx: ToolContext) -> Any:
        return returned

    planner = Planner([write("a", tool="give"), DONE], spec(give))
    await planner.run("go")
    assert planner.told == [{"ok": True}]


async def test_a_result_that_does_not_fit_is_a_tool_error() -> None:
    async def give(args: Text, ctx: ToolContext) -> Any:
        return {"nope": 1}

    planner = Planner([write("a", tool="give"), DONE], spec(give))
    await planner.run("go")
    assert "ValidationError" in planner.told[0]["error"]


async def test_concurrent_sessions_do_not_meet() -> None:
    seen: list[tuple[str, str]] = []

    async def note(args: Text, ctx: ToolContext) -> Ok:
        await asyncio.sleep(0)
        who = ctx.tool_context["session_id"]
        if not ctx.tool_context.get("approved"):
            await ctx.pause("approval_required", {"who": who})
        seen.append((who, args.text))
        return Ok(ok=True)

    planner = Planner([write("x", tool="note"), write("y", tool="note"), DONE], spec(note))
    names = [f"session-{n}" for n in range(20)]
    pauses = await asyncio.gather(*(planner.run("go", tool_context={"session_id": name}) for name in names))
    assert [paused(pause).payload["who"] for pause in pauses] == names
    assert len({paused(pause).resume_token for pause in pauses}) == 20
    assert seen == []
    results = await asyncio.gather(
        *(
            planner.resume(paused(pause).resume_token, "ok", tool_context={"session_id": name, "approved": True})
            for name, pause in reversed(list(zip(names, pauses, strict=True)))
        )
    )
    assert results == [PlannerFinish("answer_complete", "done")] * 20
    assert sorted(seen) == sorted((name, "y") for name in names)


# -- tool_context ----------------------------------------------------------------------------------------------------


class Looks(list[Any]):
    @property
    def spec(self) -> Any:
        async def look(args: Text, ctx: ToolContext) -> Ok:
            self.append(dict(ctx.tool_context))
            ctx.tool_context["looked"] = len(self)
            if args.text == "pause":
                await ctx.pause("await_input")
            return Ok(ok=True)

        return spec(look)


async def test_without_a_context_it_is_empty() -> None:
    looks = Looks()
    await Planner([write("a", tool="look"), DONE], looks.spec).run("go")
    assert looks == [{}]


async def test_the_context_is_kept_over_a_pause_with_what_tools_changed_in_it() -> None:
    looks = Looks()
    planner = Planner([write("pause", tool="look"), write("a", tool="look"), DONE], looks.spec)
    given = {"session_id": "s", "clients": {"crm": "eu-1"}}
    pause = paused(await planner.run("go", tool_context=given))
    await planner.resume(pause.resume_token)
    assert looks == [given, {**given, "looked": 1}]
    assert given == {"session_id": "s", "clients": {"crm": "eu-1"}}, "the caller's own is not changed"


async def test_a_context_that_a_tool_makes_unstorable_is_a_type_error_at_the_pause() -> None:
    async def spoil(args: Text, ctx: ToolContext) -> Ok:
        ctx.tool_context["lock"] = object()
        await ctx.pause("await_input")
        return Ok(ok=True)

    with pytest.raises(TypeError, match="lock"):
        await Planner([write("a", tool="spoil"), DONE], spec(spoil)).run("go")


async def test_a_context_given_to_resume_replaces_it() -> None:
    looks = Looks()
    planner = Planner([write("pause", tool="look"), write("a", tool="look"), DONE], looks.spec)
    pause = paused(await planner.run("go", tool_context={"session_id": "s", "tenant": "t"}))
    await planner.resume(pause.resume_token, tool_context={"session_id": "s2"})
    assert looks[1] == {"session_id": "s2"}


@pytest.mark.parametrize("context", [{"client": object()}, {1: 2}, {"n": float("nan")}, ["a"], "s"])
async def test_a_context_that_is_not_json_is_a_type_error(written: Written, context: Any) -> None:
    planner = Planner([write("a"), DONE], written.spec)
    with pytest.raises(TypeError, match="tool_context"):
        await planner.run("go", tool_context=context)
    assert planner.client.requests == []
    pause = paused(await planner.run("go"))
    with pytest.raises(TypeError, match="tool_context"):
        await planner.resume(pause.resume_token, tool_context=context)
    assert isinstance(await planner.resume(pause.resume_token), PlannerFinish), "the token was not used up"


# -- events ----------------------------------------------------------------------------------------------------------


async def test_pause_resume_and_finish_are_events(written: Written) -> None:
    planner = Planner([write("a"), DONE], written.spec)
    pause = paused(await planner.run("go"))
    await asyncio.sleep(0.02)
    await planner.resume(pause.resume_token, "secret words")
    kinds = [(e.event_type, e.trajectory_step, e.node_name, dict(e.extra)) for e in planner.events]
    assert kinds == [
        ("pause", 1, "write_line", {"reason": "approval_required"}),
        ("resume", 1, "write_line", {"reason": "approval_required"}),
        ("finish", 2, None, {"reason": "answer_complete"}),
    ]
    latencies = [event.latency_ms for event in planner.events]
    assert latencies[0] is latencies[2] is None
    assert latencies[1] is not None
    assert 20 <= latencies[1] < 30_000
    shown = planner.events[1].to_payload()
    assert shown == {
        "event": "resume",
        "ts": planner.events[1].ts,
        "step": 1,
        "node_name": "write_line",
        "latency_ms": latencies[1],
        "reason": "approval_required",
    }


async def test_tokens_and_what_people_say_stay_out_of_events_and_logs(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    planner = Planner([write("a", "b"), DONE], written.spec)
    first = paused(await planner.run("go"))
    second = paused(await planner.resume(first.resume_token, "secret words"))
    await planner.resume(second.resume_token, "secret words")
    with pytest.raises(KeyError) as used:
        await planner.resume(first.resume_token)
    written_down = caplog.text + repr(planner.events) + repr([first, second]) + repr(used.value)
    for secret in (first.resume_token, second.resume_token, "secret words"):
        assert secret not in written_down


async def test_a_broken_callback_costs_no_pause(written: Written, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: PlannerEvent) -> None:
        raise ZeroDivisionError

    planner = Planner([write("a"), DONE], written.spec, event_callback=broken)
    pause = paused(await planner.run("go"))
    assert isinstance(await planner.resume(pause.resume_token), PlannerFinish)
    assert caplog.text.count("event_callback failed") == 3


# -- what it is made of ----------------------------------------------------------------------------------------------


def test_a_catalog_is_what_build_catalog_returns() -> None:
    with pytest.raises(TypeError, match="build_catalog"):
        ReactPlanner(llm="gpt", catalog=[print])  # type: ignore[list-item]


@pytest.mark.parametrize("llm", [None, 4, object()])
def test_llm_is_a_name_or_a_client(llm: Any) -> None:
    with pytest.raises(TypeError, match="llm is the name of a model"):
        ReactPlanner(llm=llm, catalog=[])


def test_two_tools_of_one_name_are_an_error(written: Written) -> None:
    with pytest.raises(ValueError, match="two tools are called"):
        ReactPlanner(llm=ScriptedChatClient([DONE]), catalog=[written.spec, written.spec])


def test_an_event_callback_must_be_callable(written: Written) -> None:
    with pytest.raises(TypeError, match="event_callback"):
        ReactPlanner(llm="gpt", catalog=[], event_callback="log")  # type: ignore[arg-type]


async def test_llm_may_be_the_name_of_a_model(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    import hitl.models.chat_completions

    client = ScriptedChatClient([DONE])
    monkeypatch.setattr(hitl.models.chat_completions, "OpenAIChatClient", lambda: client)
    assert (await ReactPlanner(llm="gpt-4o-mini", catalog=[]).run("go")).payload == "done"
