"""What hitl promises, in these words: answers that count once, effects that happen once, nothing lost in a crash."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hitl import ReActAgent, RunInterrupted, tool
from hitl.errors import StoreError
from hitl.middleware import Command, HumanInTheLoopMiddleware, create_hitl_middleware
from hitl.testing import ScriptedChatClient
from tests.python.middleware.files import DELETE, DELETE_TWO, DONE, Office, calls, office_agent, thread, told

APPROVE = Command(resume={"decisions": [{"type": "approve"}]})
CONFIG = thread()


@pytest.fixture
def office() -> Office:
    return Office()


def process(directory: Path, step: str, code: int = 0) -> Any:
    """One process of the clerk; what it reports."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.python.middleware.clerk", str(directory), step],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else None


def test_asked_in_one_process_decided_in_the_next_and_finished_in_a_third(tmp_path: Path) -> None:
    asked = process(tmp_path, "ask")
    assert [request["args"]["path"] for request in asked["action_requests"]] == ["/a", "/b"]
    assert process(tmp_path, "decide") == {"waits": 1, "effects": ["/a"]}
    assert process(tmp_path, "finish") == {"waits": 0, "effects": ["/a", "/b"]}


def test_a_crash_while_an_approved_tool_ran_is_a_question_and_no_second_run(tmp_path: Path) -> None:
    process(tmp_path, "ask")
    process(tmp_path, "crash", code=7)
    first, second = sorted(process(tmp_path, "look"), key=lambda value: "type" in value)
    assert first["action_requests"][0]["args"] == {"path": "/b"}
    assert (second["type"], second["tool_args"]) == ("unknown_outcome", {"path": "/a"})
    assert process(tmp_path, "done") == {"waits": 1, "effects": ["/a"]}


def test_an_approved_tool_that_failed_is_not_run_again(office: Office) -> None:
    runs: list[str] = []

    @tool
    async def pay(to: str) -> str:
        runs.append(to)
        raise ConnectionError("no route")

    agent = office_agent(
        office,
        calls(("pay", {"to": "ann"}), ("delete_file", {"path": "/a"})),
        DONE,
        tools=[*office.tools, pay],
        middleware=[HumanInTheLoopMiddleware({"pay": True, "delete_file": True}, interrupt_mode="per_call")],
    )
    first, second = agent.invoke("go", CONFIG)["__interrupt__"]
    agent.invoke(Command(resume={first.id: {"type": "approve"}}), CONFIG)
    result = agent.invoke(Command(resume={second.id: {"type": "approve"}}), CONFIG)
    assert runs == ["ann"]
    assert told(result) == ['{"error": "ConnectionError: no route"}', "deleted /a"]


def test_no_message_is_there_twice_after_pauses(office: Office) -> None:
    agent = office_agent(office, DELETE_TWO, DELETE, DONE)
    agent.invoke("go", CONFIG)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}, {"type": "reject"}]}), CONFIG)
    result = agent.invoke(APPROVE, CONFIG)
    roles = [message.role for message in result["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "tool", "assistant", "tool", "assistant"]


def test_the_model_is_asked_once_for_each_reply(office: Office) -> None:
    agent = office_agent(office, DELETE, DONE)
    agent.invoke("go", CONFIG)
    agent.invoke(APPROVE, CONFIG)
    client = agent.chat_client()
    assert isinstance(client, ScriptedChatClient)
    assert [len(request["messages"]) for request in client.requests] == [1, 3]


def test_a_person_sees_what_guardrails_made_of_the_arguments(office: Office) -> None:
    def inside(path: str) -> dict[str, str]:
        return {"path": f"/home{path}"}

    guarded = tool(office.tools[0], input_guardrails=[inside])
    agent = office_agent(office, DELETE, DONE, tools=[guarded])
    (request,) = agent.invoke("go", CONFIG)["__interrupt__"][0]["value"]["action_requests"]
    assert request["args"] == {"path": "/home/a"}
    agent.invoke(APPROVE, CONFIG)
    assert office.effects == [("delete_file", "/home/a")]


async def test_a_thread_that_was_cut_off_goes_on_without_an_input(office: Office) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        began.set()
        await may_end.wait()
        return "at last"

    agent = office_agent(office, calls(("slow", {})), DONE, tools=[slow])
    running = asyncio.create_task(agent.ainvoke("go", CONFIG))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(RunInterrupted):
        await agent.ainvoke("and?", CONFIG)
    may_end.set()
    assert told(await agent.ainvoke(None, CONFIG)) == ["at last"]


def test_threads_of_the_program_may_share_an_agent(office: Office) -> None:
    agent = office_agent(office, DELETE, DONE)

    def converse(name: str) -> str:
        agent.invoke("go", thread(name))
        content: str = agent.invoke(APPROVE, thread(name))["messages"][-1].content
        return content

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(converse, "abcdefgh")) == ["done"] * 8
    assert len(office.effects) == 8


def test_a_store_that_cannot_be_opened_is_an_error_and_not_a_pause(office: Office, tmp_path: Path) -> None:
    (tmp_path / "threads.db").write_text("this is no database, whatever its name says. " * 100)
    with pytest.raises(StoreError):
        office_agent(office, DELETE, DONE, store=tmp_path / "threads.db").invoke("go", CONFIG)


def test_the_agent_is_served_as_any_other(office: Office, hitl_server: Any, human: Any) -> None:
    server = hitl_server(office_agent(office, DELETE, DONE, middleware=[create_hitl_middleware("delete_file")]))
    human.on("delete_file").approve()
    assert server.send("go").content == "done"
    assert office.effects == [("delete_file", "/a")]


def test_the_same_in_a_full_replay(office: Office, hitl_server: Any, human: Any, hitl_replay: Any) -> None:
    gate = HumanInTheLoopMiddleware(
        {"delete_file": {"when": lambda request: True, "description": lambda call, state, runtime: "sure?"}},
        lambda request: None,
    )
    agent = ReActAgent(client=ScriptedChatClient([DELETE_TWO, DONE]), tools=office.tools, middleware=[gate])
    server = hitl_server(agent)
    human.on("delete_file").reject()
    human.on("delete_file").approve()
    assert server.send("go").content == "done"
    assert [name for name, *_ in office.effects].count("delete_file") == 1
