"""Records paused journals, and goes on with them. ``python -m tests.python.replay.corpus.paused release_0_1`` records
the agents of that module that have no journal yet: run it before a release, with that release's runtime."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import hitl
from hitl.driver.shapes import as_agent
from hitl.errors import InterruptExpired
from hitl.journal.ports import InterruptRequest, PendingTimer
from hitl.messages import ChatMessage
from hitl.worker import loops
from tests.python.support.local import PENDING, LocalTurn

FOLDER = Path(__file__).parent
_SECONDS = 100


async def record(agent: Any) -> dict[str, Any]:
    """Run an agent until it waits for what is answered ``later``, and then to its end."""
    local = LocalTurn(_answer, agent=as_agent(agent).name)
    timers: list[list[PendingTimer]] = []
    waiting = local.port.waiting

    def waits(seen: int | None, pending: list[PendingTimer], context: Any) -> None:
        timers.append(pending)
        waiting(seen, pending, context)

    local.port.waiting = waits  # type: ignore[method-assign]
    message = ChatMessage.user_message(content="hello")
    task = local.start(as_agent(agent).run, message, [])
    async with asyncio.timeout(_SECONDS):
        while not (timers and _awaited(local)):
            await asyncio.sleep(0.001)
    await _settled(local)
    journal = [*local.port.journal, {"at": local.port.journal[-1]["at"], "entry": "pause", "timers": timers[-1]}]
    answers = _answer_all(local)
    response, _ = await task
    await local.end()
    return {
        "release": hitl.__version__,
        "python": "{}.{}".format(*sys.version_info),
        "message": message.to_dict(),
        "journal": json.loads(json.dumps(journal)),
        "answers": answers,
        "response": response.content,
    }


async def go_on(agent: Any, recorded: dict[str, Any]) -> LocalTurn:
    """Replay a recorded journal, check that the agent stands where it stood, and answer what it asks."""
    loaded = as_agent(agent)
    local = LocalTurn(journal=recorded["journal"], agent=loaded.name)
    message = ChatMessage.from_dict(recorded["message"])
    running = asyncio.ensure_future(local.run(loaded.run, message, []))
    async with asyncio.timeout(_SECONDS):
        while not (local.port.waits or running.done()):
            await asyncio.sleep(0)
    if running.done():
        running.result()
    assert local.port.replays == [[]], f"warnings: {local.port.replays}"
    assert len(local.port.journal) == len(recorded["journal"]), "it did more than the journal says"
    for asked in local.port.interrupts:
        if asked.id in recorded["answers"]:
            asked.give(recorded["answers"][asked.id])
    async with asyncio.timeout(_SECONDS):
        response, _ = await running
    await local.end()
    assert response.content == recorded["response"]
    return local


def _answer(request: InterruptRequest) -> Any:
    if request["type"] == "expires":
        raise InterruptExpired
    if request["type"] == "tool_approval":
        return request["payload"]["tool_args"].get("early") or PENDING
    return "an early answer" if request["type"] == "first" else PENDING


def _awaited(local: LocalTurn) -> bool:
    open_ones = [asked for asked in local.port.interrupts if not (asked.is_settled or asked.withdrawn)]
    return any(asked.request["type"] != "never" for asked in open_ones)


async def _settled(local: LocalTurn) -> None:
    """Until the turn says nothing new any more."""
    entries = -1
    while entries != len(local.port.journal):
        entries = len(local.port.journal)
        for _ in range(100):
            await asyncio.sleep(0)


def _answer_all(local: LocalTurn) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for asked in local.port.interrupts:
        if not (asked.is_settled or asked.withdrawn):
            given = {"tool_approval": {"approved": True}, "confirm": True}.get(asked.request["type"], "a late answer")
            answers[asked.id] = given
            asked.give(given)
    return answers


async def _record_all(module: str) -> None:
    agents = importlib.import_module(f"{__package__}.{module}").AGENTS
    for name, agent in agents.items():
        path = FOLDER / f"{module}-{name}.json"
        if not path.exists():
            path.write_text(json.dumps(await record(agent), indent=1, ensure_ascii=False) + "\n")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    loops.run(loops.new_loop(), _record_all(sys.argv[1]))
