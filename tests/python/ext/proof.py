"""What every framework's agent has to keep, told to it in messages: the common proof of the adapters.

A message is a script: what the model wants called, round by round; then it repeats what the tools returned. A module
for a framework makes an `agent` of it, with these tools:

- `list_files(folder)` runs at once, `delete_file(path)` needs approval,
- `hold(port)` and `hold_gated(port)`, which needs approval, stay at work until they are released,
- `pick_color()` is a question whose answer is `{"hex": "#..."}`,
- `consult(rounds)` lets a nested agent, `inner`, work through rounds of its own.

Where there are MCP servers (`servers`) it has their tools as well, named after each of them: `shelf_list(folder)`,
`shelf_delete(path)`, which needs approval, and `shelf_hold(port)`.

Each call of a model and of a tool is a line of the ledger, which lives as long as the test.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from hitl import TransientError
from tests.python.support.api import Api, Json, ok
from tests.python.support.waiting import eventually

FRAMEWORKS = {
    "pydantic_ai": "tests.python.ext.pydantic_ai_agent:agent",
    "strands": "tests.python.ext.strands_agent:agent",
    "openai_agents": "tests.python.ext.openai_agents_agent:agent",
    "langgraph": "tests.python.ext.langgraph_agent:agent",
}
"""The agents that are proved, by framework."""

WITHOUT_SERVERS = {"langgraph"}
"""Frameworks that speak to MCP servers in no environment but one of their own: `test_langchain_mcp.py`."""

SUSPENDING = FRAMEWORKS | {"langgraph": "tests.python.ext.langgraph_agent:suspending"}
"""The same, where a turn is suspended while their model is away."""

REJECTED = dict.fromkeys(FRAMEWORKS, "User rejected delete_file: keep it") | {
    "langgraph": "User rejected the tool call for `delete_file` with reason: keep it",
}
"""What the model is told of a call that was rejected because of `keep it`, in the framework's words."""

EDITED = dict.fromkeys(FRAMEWORKS, '[A person changed the arguments of this call to {"path":"other"}]') | {
    "langgraph": 'Executed instead: delete_file with arguments {"path": "other"}.',
}
"""What it is told of a call whose path a person changed to `other`."""

ABOUT: dict[str, Any] = {"source": "files:local", "metadata": {"team": "ops"}}
"""What people are told of `list_files` and `delete_file` of the outer agent."""

GIVEN_UP: Any = {
    "turns": [
        {
            "message": {"role": "user", "content": "Pay five."},
            "replies": [
                {"calls": [{"id": "t1", "name": "pay", "arguments": '{"cents": 5}', "outcome": {"value": "told"}}]}
            ],
        }
    ]
}
"""What a turn begins with (`abandoned` of its first entry) that comes after one that was given up."""

Round = list[tuple[str, Json]]

A, B = ("delete_file", {"path": "a"}), ("delete_file", {"path": "b"})
LIST = ("list_files", {"folder": "."})
"""Calls of its tools."""

YES = {"type": "approve"}


def script(*rounds: Round, **more: Any) -> str:
    """A message. `hold_model`: the port at which the first call of the model stays at work; `away`: whether the model
    is away once the last round is over; `recall`: whether it then repeats what all tools returned in the session."""
    return json.dumps({"rounds": [[{"name": name, "args": args} for name, args in each] for each in rounds], **more})


def inner(*rounds: Round) -> tuple[str, Json]:
    """A call of the nested agent."""
    return "consult", {"script": script(*rounds)}


# -- for the agent -----------------------------------------------------------------------------------------------------


def note(what: str) -> None:
    """A line of the ledger."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(f"{what}\n")


def be_there(said: Json, done: int) -> None:
    """Where a script wants the model to be away, it is, once that many rounds are over."""
    if said.get("away") and done == len(said["rounds"]):
        raise TransientError("the model is away", retry_after=0.01)


async def stay(port: int) -> None:
    """At work, until the test lets it go on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        assert await reader.readline()
    finally:
        writer.close()


def servers() -> tuple[str | None, dict[str, Any] | None]:
    """The URL of the MCP server `shelf`, and what starts `desk`, which speaks over stdin: each where there is one."""
    desk = {"command": sys.executable, "args": ["-m", "tests.python.ext.shelf", "desk"], "env": dict(os.environ)}
    return os.environ.get("SHELF"), desk if "DESK" in os.environ else None


# -- for the test ------------------------------------------------------------------------------------------------------


class Ledger:
    """What was done, counted over all processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.path.read_text().splitlines() if self.path.exists() else [])

    def since(self, before: Counter[str]) -> dict[str, int]:
        """What was done since then."""
        return dict(self.counts - before)


def approval_of(session: Json, **args: Any) -> str:
    """The id of the open approval with these arguments."""
    found = [
        each["interrupt_id"]
        for each in session["interrupts"] or []
        if each["type"] == "tool_approval" and each["payload"]["tool_args"] == args
    ]
    assert len(found) == 1, session["interrupts"]
    interrupt_id: str = found[0]
    return interrupt_id


def asked(api: Api, message: str, questions: int) -> tuple[str, Json]:
    """A session of its own for a message; its id, and what it is once that many questions are open."""
    session_id = api.create()
    session = api.settled(session_id, message, questions)
    assert len(session["interrupts"] or []) == questions, session
    return session_id, session


def results(session: Json) -> list[str]:
    """What the tools returned, as the model saw it, in the order of the calls."""
    assert session["status"] == "idle", session
    said: list[str] = json.loads(session["response"]["content"])
    return said


def answer(api: Api, session_id: str, interrupt_id: str, value: Any, questions: int = 0) -> Json:
    """Answer; the session once this many questions are left and nothing of it is at work."""
    ok(api.resume(session_id, interrupt_id, value))
    eventually(lambda: is_at_rest(api, session_id, questions), True)
    return api.session(session_id)


def is_at_rest(api: Api, session_id: str, questions: int) -> bool:
    session = api.session(session_id)
    if session["status"] == "error":
        raise AssertionError(session)
    return session["status"] != "running" and len(session["interrupts"] or []) == questions


def until_places_are_free(api: Api) -> None:
    """Return once no turn has a place: each that waits has left memory."""
    eventually(lambda: ok(api.get("/health"))["running_workers"], 0)
