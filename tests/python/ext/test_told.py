"""A message instead of a retry: what the turn that was given up did is told to the next one, on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from hitl import ChatMessage
from hitl.agents import abandoned
from hitl.driver.shapes import LoadedAgent, as_agent
from tests.python.ext.conftest import serve
from tests.python.ext.proof import (
    FRAMEWORKS,
    GIVEN_UP,
    LIST,
    SUSPENDING,
    YES,
    A,
    B,
    Ledger,
    answer,
    approval_of,
    results,
    script,
    until_places_are_free,
)
from tests.python.support.api import Api, Json, ok
from tests.python.support.local import LocalTurn
from tests.python.support.served import Served


@pytest.fixture(scope="module")
def served(
    framework: str, isolation: str, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    store = f"sqlite:{tmp_path_factory.mktemp(f'told-{framework}-{isolation}') / 'hitl.db'}"
    with serve(framework, isolation, ledger.path, store, agents=SUSPENDING) as server:
        yield server


def suspended(api: Api, message: str, *decisions: tuple[str, Json]) -> str:
    """A session whose turn was suspended after these answers about paths."""
    session_id = api.create()
    session = api.settled(session_id, message, len(decisions))
    for path, decision in decisions:
        ok(api.resume(session_id, approval_of(session, path=path), decision))
    assert api.wait(session_id)["error_code"] == "model_unavailable"
    return session_id


def said(api: Api, session_id: str) -> list[tuple[str, str | None]]:
    return [(each["role"], each.get("content") or None) for each in ok(api.get(f"/sessions/{session_id}/messages"))]


def test_the_model_is_told_what_ran_and_the_session_has_it(api: Api, ledger: Ledger) -> None:
    before, first = ledger.counts, script([LIST, A, B], away=True)
    session_id = suspended(api, first, ("a", YES), ("b", {"type": "reject", "reason": "keep it"}))
    assert {each: n for each, n in ledger.since(before).items() if each != "model"} == {"list .": 1, "delete a": 1}
    asks = script(recall=True)
    session = api.settled(session_id, asks, 0)
    told = ["files of .", "deleted a", '{"error": "User rejected delete_file: keep it"}']
    assert results(session) == told
    conversation = [("user", first), ("assistant", None), *(("tool", each) for each in told), ("user", asks)]
    reply = ("assistant", session["response"]["content"])
    assert said(api, session_id) == [*conversation, reply]
    # From then on the conversation has it.
    assert results(api.settled(session_id, script(recall=True), 0)) == told
    assert said(api, session_id)[: len(conversation) + 1] == [*conversation, reply]


def test_a_turn_that_was_told_leaves_memory_and_goes_on(api: Api, ledger: Ledger) -> None:
    session_id = suspended(api, script([A], away=True), ("a", {"type": "edit", "args": {"path": "other"}}))
    before = ledger.counts
    session = api.settled(session_id, script([B], recall=True), 1)
    until_places_are_free(api)
    session = answer(api, session_id, approval_of(session, path="b"), YES)
    edited, deleted = results(session)
    assert edited.startswith("deleted other")
    assert edited.endswith('were changed to {"path":"other"}]')
    assert (deleted, ledger.since(before)) == ("deleted b", {"model": 2, "delete b": 1})


def test_what_an_agent_did_that_a_tool_calls_is_told_where_that_came_to_no_end(api: Api) -> None:
    nested = script([A], away=True)
    session_id = suspended(api, script([("consult", {"script": nested})]), ("a", YES))
    (told,) = results(api.settled(session_id, script(recall=True), 0))
    said = json.loads(told)
    assert said["error"].startswith("nothing is recorded")
    # Of a graph nodes that are no calls are told as well.
    inside = [each for each in said["inside"] if each["result"] != "finished"]
    assert inside == [{"name": "delete_file", "arguments": {"path": "a"}, "result": "deleted a"}]


@pytest.fixture
def loaded(framework: str) -> LoadedAgent:
    """The agent, in this process."""
    module, _, name = FRAMEWORKS[framework].partition(":")
    return as_agent(getattr(import_module(module), name))


@pytest.mark.parametrize("version", ["this", "older"])
async def test_a_turn_goes_on_told_or_not_as_it_began(
    loaded: LoadedAgent, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a version before this one began, and parked, are not told: their requests were made without."""
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    message = ChatMessage.user_message(content=script([A], recall=True))

    async def came_of(journal: list[Json]) -> tuple[list[str], list[Json]]:
        turn = LocalTurn(lambda asked: YES, agent=loaded.name, journal=journal)
        reply, _ = await turn.run(loaded.run, message, [])
        await turn.end()
        return json.loads(reply.content or ""), turn.port.journal

    start = {"at": 1, "entry": "start", "code": "code-1", "python": "3.11", "abandoned": GIVEN_UP}
    with monkeypatch.context() as before:
        if version == "older":
            before.setattr(abandoned, "patched", _is_not_there)
        recalled, journal = await came_of([start])
    assert recalled == (["told", "deleted a"] if version == "this" else ["deleted a"])
    asked = next(index for index, entry in enumerate(journal) if entry["entry"] == "ask")
    again, gone_on = await came_of(journal[: asked + 1])
    assert again == recalled
    assert [entry.get("step") for entry in gone_on] == [entry.get("step") for entry in journal]


async def _is_not_there(id: str) -> bool:
    return False
