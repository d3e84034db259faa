"""A gated tool: nothing before the yes, exactly what was shown after it, nothing after anything else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from hitl import ChatMessage, InterruptExpired, ReActAgent, RunContext, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.definition import Tool
from tests.python.support.local import PENDING, LocalResult, LocalTurn, run_locally

APPROVE = {"type": "approve"}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "old_logs.txt"
    file.write_text("logs")
    return file


@tool(requires_approval=True, approval_description="This cannot be undone.")
async def delete_file(path: str) -> str:
    """Delete a file."""
    Path(path).unlink()
    return f"Deleted {path}"


async def call(made: Tool[..., Any], args: dict[str, Any], answer: Any) -> LocalResult:
    """One turn in which the model calls the tool once; `answer` is the person's, or makes it."""
    script = [{"tool_calls": [{"name": made.name, "args": args, "id": "call_1"}]}, {"content": "done"}]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[made], name="cleaner")
    return await run_locally(agent, "go", answers=answer if callable(answer) else lambda asked: answer)


def told(result: LocalResult) -> Any:
    """What the model was told of the call."""
    message = result.state[2]
    assert (message.role, message.tool_call_id) == ("tool", "call_1")
    return message.content


@pytest.mark.parametrize("yes", [APPROVE, {"approved": True}])
async def test_the_file_is_there_until_the_yes_and_gone_after_it(victim: Path, yes: Any) -> None:
    def person(asked: Any) -> Any:
        assert victim.exists()
        return yes

    result = await call(delete_file, {"path": str(victim)}, person)
    assert not victim.exists()
    assert told(result) == f"Deleted {victim}"


async def test_the_person_is_asked_with_the_payload_of_the_contract(victim: Path) -> None:
    result = await call(delete_file, {"path": str(victim)}, APPROVE)
    (asked,) = result.requests
    assert asked["type"] == "tool_approval"
    args = {"path": str(victim)}
    assert asked["payload"] == {"type": "tool_approval", "tool_name": "delete_file", "tool_args": args}
    assert asked["allowed_decisions"] == ["approve", "edit", "reject"]
    assert (asked["tool_call_id"], asked["agent"]) == ("call_1", "cleaner")
    assert asked["message"] == "This cannot be undone."
    assert asked["args_schema"] == delete_file.parameters.json_schema
    assert (asked["required"], asked["proposed"], asked["tool_source"]) == (True, None, None)
    from hitl import _core

    assert asked["args_digest"] == _core.digest(args)


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        ({"type": "reject", "reason": None, "message": None}, "User rejected delete_file"),
        ({"type": "reject"}, "User rejected delete_file"),
        ({"approved": False}, "User rejected delete_file"),
        ({}, "User rejected delete_file"),
        ({"approved": False, "reason": "keep it"}, "User rejected delete_file: keep it"),
        ({"type": "reject", "reason": "keep it", "message": None}, "User rejected delete_file: keep it"),
        ({"type": "reject", "reason": "keep it", "message": "Ask me first."}, "Ask me first."),
    ],
)
async def test_a_no_leaves_the_file_and_tells_the_model_why(victim: Path, decision: Any, text: str) -> None:
    result = await call(delete_file, {"path": str(victim)}, decision)
    assert victim.exists()
    assert told(result) == json.dumps({"error": text})


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "approve",
        [APPROVE],
        {"approved": "false"},
        {"approved": "true"},
        {"approved": 1},
        {"approved": None},
        {"type": "approved"},
        {"type": "approve", "approved": False},
        {"type": "edit", "args": []},
        {"type": "edit", "args": {"path": "/x"}, "name": "rename"},
        {"type": "edit", "args": {"path": "/x"}, "always": True},
        {"type": "respond", "message": "x"},
    ],
)
async def test_whatever_is_no_decision_is_no_approval(victim: Path, answer: Any) -> None:
    result = await call(delete_file, {"path": str(victim)}, answer)
    assert victim.exists()
    assert "did not run" in json.loads(told(result))["error"]


async def test_nobody_answering_in_time_is_no_approval(victim: Path) -> None:
    def nobody(asked: Any) -> Any:
        raise InterruptExpired("nobody answered in time")

    result = await call(delete_file, {"path": str(victim)}, nobody)
    assert victim.exists()
    assert json.loads(told(result)) == {"error": "nobody answered in time"}


async def test_only_what_the_tool_allows_is_offered() -> None:
    result = await call(tool(delete_file, allowed_decisions=["reject", "edit"]), {"path": "/x"}, {"type": "reject"})
    assert result.requests[0]["allowed_decisions"] == ["reject", "edit"]


async def test_arguments_too_large_to_show_do_not_run(victim: Path) -> None:
    result = await call(delete_file, {"path": "x" * 16_384}, APPROVE)
    size = len('{"type":"tool_approval","tool_name":"delete_file","tool_args":{"path":""}}') + 16_384
    assert f"{size} bytes" in json.loads(told(result))["error"]
    assert "the limit is 16384" in json.loads(told(result))["error"]
    assert result.requests == []


async def test_arguments_changed_after_the_yes_do_not_run() -> None:
    ran: list[Any] = []
    kept: list[list[str]] = []

    def keep(paths: list[str]) -> list[str]:
        kept.append(paths)
        return paths

    async def delete(paths: Annotated[list[str], AfterValidator(keep)]) -> None:
        ran.append(paths)

    def person(asked: Any) -> Any:
        kept[0].append("/etc/passwd")
        return APPROVE

    result = await call(tool(delete, requires_approval=True), {"paths": ["/a"]}, person)
    assert ran == []
    assert "changed after they were approved" in json.loads(told(result))["error"]


async def test_an_approved_call_is_a_once_step_unless_its_tool_says_otherwise() -> None:
    onces: dict[str, bool] = {}

    def remember(ctx: RunContext[Any]) -> None:
        from hitl.turn.runtime import current_turn

        step = current_turn().current_step
        assert step is not None
        onces[step.name] = step.once

    gated = [
        tool(remember, name="approved", requires_approval=True),
        tool(remember, name="repeatable", requires_approval=True, once=False),
        tool(remember, name="ungated"),
        tool(remember, name="ungated_once", once=True),
    ]
    for made in gated:
        await call(made, {}, APPROVE)
    assert onces == {"approved": True, "repeatable": False, "ungated": False, "ungated_once": True}


# -- policies --------------------------------------------------------------------------------------------------------


def drop(path: str) -> str:
    """Drop it."""
    return f"dropped {path}"


async def test_a_policy_sees_the_run_and_the_final_arguments_and_is_asked_once() -> None:
    seen: list[Any] = []

    async def policy(ctx: RunContext[Any], args: dict[str, Any]) -> bool:
        seen.append((ctx.tool_call_id, ctx.agent, dict(args)))
        args["path"] = "/changed"  # a copy: nothing that runs or is shown
        return str(args["path"]) == "/never"

    made = tool(drop, requires_approval=policy, input_guardrails=[lambda path: {"path": path * 2}])
    result = await call(made, {"path": "/a"}, APPROVE)
    assert seen == [("call_1", "cleaner", {"path": "/a/a"})]
    assert result.requests == []
    assert told(result) == "dropped /a/a"
    assert [step["kind"] for step, _ in result.port.steps] == ["model", "guardrail", "policy", "tool", "model"]


def raising(ctx: Any, args: Any) -> bool:
    raise RuntimeError("policy is broken")


@pytest.mark.parametrize(
    "policy", [lambda ctx, args: True, lambda ctx, args: 0, lambda ctx, args: None, lambda: False, raising]
)
async def test_a_policy_that_does_not_clearly_say_no_means_that_a_person_is_asked(policy: Any) -> None:
    result = await call(tool(drop, requires_approval=policy), {"path": "/a"}, {"type": "reject"})
    assert len(result.requests) == 1
    assert told(result) == json.dumps({"error": "User rejected drop"})


# -- several at once -------------------------------------------------------------------------------------------------


async def test_of_two_gated_calls_the_one_that_is_answered_runs_while_the_other_waits(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.touch()
    second.touch()
    script = [
        {"tool_calls": [{"name": "delete_file", "args": {"path": str(file)}} for file in (first, second)]},
        {"content": "done"},
    ]
    agent = ReActAgent(client=ScriptedChatClient(script), tools=[delete_file])
    local = LocalTurn(lambda asked: PENDING)
    waiting = asyncio.Event()
    local.port.on_waiting = waiting.set
    turn = local.start(agent.run_turn, ChatMessage.user_message(content="go"), [])
    await waiting.wait()
    assert len(local.port.interrupts) == 2
    assert first.exists()
    assert second.exists()
    waiting.clear()
    local.port.interrupts[1].give(APPROVE)
    await waiting.wait()
    assert first.exists()
    assert not second.exists()
    local.port.interrupts[0].give({"type": "reject", "reason": None, "message": None})
    response, state = await turn
    assert response.content == "done"
    assert [message.content for message in state[2:4]] == [
        json.dumps({"error": "User rejected delete_file"}),
        f"Deleted {second}",
    ]


async def test_an_ungated_sibling_runs_at_once_and_once() -> None:
    ran: list[str] = []

    @tool
    async def note(text: str) -> None:
        ran.append(text)

    script = [
        {"tool_calls": [{"name": "delete_file", "args": {"path": "/x"}}, {"name": "note", "args": {"text": "hi"}}]},
        {"content": "done"},
    ]

    def person(asked: Any) -> Any:
        return {"type": "reject"}

    agent = ReActAgent(client=ScriptedChatClient(script), tools=[delete_file, note])
    await run_locally(agent, "go", answers=person)
    assert ran == ["hi"]
