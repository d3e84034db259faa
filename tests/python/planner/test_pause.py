"""`ctx.pause`: the call ends there, and the model decides what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, get_args

import pytest

from hitl.planner import PlannerFinish, PlannerPause, ToolContext
from hitl.planner.context import PauseReason
from tests.python.planner.writing import APPROVED, DONE, Ok, Planner, Text, Written, paused, spec, write


@pytest.fixture
def written() -> Written:
    return Written()


async def test_a_pause_shows_what_the_tool_says(written: Written) -> None:
    pause = paused(await Planner([write("hi"), DONE], written.spec).run("go"))
    assert (pause.reason, pause.payload) == ("approval_required", {"title": "Approve write", "preview": "hi"})
    assert written == []


@pytest.mark.parametrize("reason", ["approval_required", "await_input", "external_event", "constraints_conflict"])
async def test_there_are_four_reasons(reason: Any) -> None:
    async def ask(args: Text, ctx: ToolContext) -> Ok:
        await ctx.pause(reason, {"at": args.text})
        return Ok(ok=True)

    assert reason in get_args(PauseReason)
    pause = paused(await Planner([write("hi", tool="ask"), DONE], spec(ask)).run("go"))
    assert (pause.reason, pause.payload) == (reason, {"at": "hi"})


async def test_a_paused_tool_does_not_go_on_by_itself(written: Written) -> None:
    planner = Planner([write("hi"), DONE], written.spec)
    pause = paused(await planner.run("go"))
    result = await planner.resume(pause.resume_token, "rejected", tool_context=APPROVED)
    assert result == PlannerFinish("answer_complete", "done")
    assert written == [], "the model did not call it again"
    assert planner.told[0]["user_input"] == "rejected"


async def test_the_model_may_call_it_again(written: Written) -> None:
    planner = Planner([write("hi"), write("hi"), DONE], written.spec)
    pause = paused(await planner.run("go"))
    await planner.resume(pause.resume_token, "approved", tool_context=APPROVED)
    assert written == ["hi"]


async def test_approvals_of_the_pause_do_not_hold_without_the_context(written: Written) -> None:
    planner = Planner([write("hi"), write("hi"), DONE], written.spec)
    pause = paused(await planner.run("go", tool_context={"session_id": "demo"}))
    again = paused(await planner.resume(pause.resume_token, "approved"))
    assert again.resume_token != pause.resume_token
    assert written == []


async def test_pauses_may_follow_each_other(written: Written) -> None:
    planner = Planner([write("a"), write("b"), DONE], written.spec)
    first = paused(await planner.run("go"))
    second = paused(await planner.resume(first.resume_token))
    assert second.payload["preview"] == "b"
    assert isinstance(await planner.resume(second.resume_token), PlannerFinish)


@pytest.mark.parametrize("user_input", ["", None, False, 0, {"code": "1234"}])
async def test_the_model_is_told_what_the_person_said(written: Written, user_input: Any) -> None:
    planner = Planner([write("hi"), DONE], written.spec)
    pause = paused(await planner.run("go"))
    await planner.resume(pause.resume_token, user_input)
    assert planner.told[0]["user_input"] == user_input
    assert planner.told[0]["paused"] == "approval_required"


@pytest.mark.parametrize("swallow", [Exception, BaseException])
async def test_a_tool_that_swallows_it_has_paused_all_the_same(swallow: type[BaseException]) -> None:
    async def ask(args: Text, ctx: ToolContext) -> Ok:
        with contextlib.suppress(swallow):
            await ctx.pause("await_input")
        return Ok(ok=True)

    planner = Planner([write("hi", tool="ask"), DONE], spec(ask))
    pause = paused(await planner.run("go"))
    assert pause.payload == {}
    await planner.resume(pause.resume_token, "x")
    assert planner.told[0]["paused"] == "await_input"


async def test_an_except_exception_does_not_let_a_write_through() -> None:
    wrote: list[str] = []

    async def careless(args: Text, ctx: ToolContext) -> Ok:
        with contextlib.suppress(Exception):
            await ctx.pause("approval_required")
        wrote.append(args.text)
        return Ok(ok=True)

    planner = Planner([write("hi", tool="careless"), DONE], spec(careless))
    pause = paused(await planner.run("go"))
    await planner.resume(pause.resume_token, "no")
    assert wrote == []


async def test_a_tool_may_pause_inside_of_a_task_group() -> None:
    async def ask(args: Text, ctx: ToolContext) -> Ok:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.pause("await_input", {"n": 1}))
        return Ok(ok=True)

    pause = paused(await Planner([write("hi", tool="ask"), DONE], spec(ask)).run("go"))
    assert pause.payload == {"n": 1}


async def test_a_tool_that_is_cancelled_on_its_way_out_has_not_paused() -> None:
    async def ask(args: Text, ctx: ToolContext) -> Ok:
        try:
            await ctx.pause("await_input")
        finally:
            raise asyncio.CancelledError

    assert isinstance(await Planner([write("hi", tool="ask"), DONE], spec(ask)).run("go"), PlannerFinish)


class Ended(BaseException):
    """What ends a program or a test, whoever is at work."""


@pytest.mark.parametrize("ends", [Ended(), BaseExceptionGroup("several", [Ended(), ValueError()])])
async def test_what_ends_everything_is_no_pause(ends: BaseException) -> None:
    async def ask(args: Text, ctx: ToolContext) -> Ok:
        try:
            await ctx.pause("await_input")
        finally:
            raise ends

    with pytest.raises(type(ends)):
        await Planner([write("hi", tool="ask"), DONE], spec(ask)).run("go")


async def test_a_paused_call_never_runs_again(written: Written) -> None:
    calls: list[str] = []

    async def ask(args: Text, ctx: ToolContext) -> Ok:
        calls.append(args.text)
        await ctx.pause("await_input")
        return Ok(ok=True)

    planner = Planner([write("a", "b", tool="ask"), DONE], spec(ask))
    first = paused(await planner.run("go"))
    second = paused(await planner.resume(first.resume_token))
    await planner.resume(second.resume_token)
    assert calls == ["a", "b"]


async def test_no_second_pause_is_lost(written: Written) -> None:
    planner = Planner([write("a", "b"), DONE], written.spec)
    first = paused(await planner.run("go"))
    second = paused(await planner.resume(first.resume_token, "yes to a"))
    assert [first.payload["preview"], second.payload["preview"]] == ["a", "b"]
    assert len(planner.client.requests) == 1, "the model has not been asked yet"
    assert await planner.resume(second.resume_token, "no to b") == PlannerFinish("answer_complete", "done")
    assert [told["user_input"] for told in planner.told] == ["yes to a", "no to b"]


async def test_an_ungated_sibling_runs_once(written: Written) -> None:
    read: list[str] = []

    async def read_line(args: Text, ctx: ToolContext) -> Ok:
        read.append(args.text)
        return Ok(ok=True)

    both = {"tool_calls": write("a")["tool_calls"] + write("b", tool="read_line")["tool_calls"]}
    planner = Planner([both, DONE], written.spec, spec(read_line))
    pause = paused(await planner.run("go"))
    assert read == ["b"]
    await planner.resume(pause.resume_token, "no")
    assert (read, written) == (["b"], [])
    assert planner.told[1] == {"ok": True}


async def test_pause_enabled_false_makes_it_a_tool_error_once(written: Written) -> None:
    planner = Planner([write("a"), DONE], written.spec, pause_enabled=False)
    assert await planner.run("go") == PlannerFinish("answer_complete", "done")
    assert planner.told == [{"error": "write_line cannot pause: this planner has pause_enabled=False"}]
    assert len(planner.client.requests) == 2
    assert written == []


async def test_a_tool_cannot_catch_that_either() -> None:
    wrote: list[str] = []

    async def careless(args: Text, ctx: ToolContext) -> Ok:
        with contextlib.suppress(Exception):
            await ctx.pause("approval_required")
        wrote.append(args.text)
        return Ok(ok=True)

    planner = Planner([write("a", tool="careless"), DONE], spec(careless), pause_enabled=False)
    await planner.run("go")
    assert wrote == []
    assert "cannot pause" in planner.told[0]["error"]


@pytest.mark.parametrize(
    ("reason", "payload", "problem"),
    [
        ("whatever", {}, "reason is one of approval_required"),
        ("await_input", {"at": object()}, "payload of a pause is not JSON"),
        ("await_input", ["a"], "payload of a pause must be a dict"),
        ("await_input", {"text": "x" * 20_000}, "16384"),
    ],
)
async def test_a_pause_that_cannot_be_shown_is_a_tool_error(reason: Any, payload: Any, problem: str) -> None:
    wrote: list[str] = []

    async def ask(args: Text, ctx: ToolContext) -> Ok:
        await ctx.pause(reason, payload)
        wrote.append(args.text)
        return Ok(ok=True)

    planner = Planner([write("a", tool="ask"), DONE], spec(ask))
    assert isinstance(await planner.run("go"), PlannerFinish)
    assert problem.replace(",", "") in planner.told[0]["error"].replace(",", "")
    assert wrote == []


async def test_what_a_tool_asks_by_a_hitl_interrupt_is_a_pause_too() -> None:
    import hitl

    async def ask(args: Text, ctx: ToolContext) -> Ok:
        return Ok(ok=await hitl.interrupt({"type": "confirm", "text": args.text}))

    planner = Planner([write("a", tool="ask"), DONE], spec(ask))
    pause = paused(await planner.run("go"))
    assert (pause.reason, pause.payload) == ("await_input", {"type": "confirm", "text": "a"})
    await planner.resume(pause.resume_token, True)
    assert planner.told == [{"ok": True}]


def test_a_pause_does_not_print_its_token() -> None:
    pause = PlannerPause("await_input", {}, "secret")
    assert "secret" not in repr(pause)
    assert pause.resume_token == "secret"
