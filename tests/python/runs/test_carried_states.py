"""A signed run state counts once in a store, and for the agent that it is of."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import hitl
from hitl import Server
from tests.python.runs.support import Files
from tests.python.runs.test_transfers import KEY, PATIENCE, client_of, options, paused_state, post, settled
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


async def delete(url: str, session: str) -> None:
    async with client_of(url) as client:
        assert (await client.delete(f"/sessions/{session}")).status_code == 204


async def exported(url: str, session: str) -> dict[str, Any]:
    async with client_of(url) as client:
        state: dict[str, Any] = (await client.get(f"/sessions/{session}/run-state")).json()
        return state


async def asking(url: str) -> str:
    """A session whose agent asks whether it may delete."""
    async with client_of(url) as client:
        session: str = (await client.post("/sessions")).json()["session_id"]
        await client.post(f"/sessions/{session}/messages", json={"content": "clean up"})
    assert (await settled(url, session))["status"] == "interrupted"
    return session


async def approve(url: str, session: str) -> None:
    async with client_of(url) as client:
        (asked,) = (await client.get(f"/sessions/{session}")).json()["interrupts"]
        answer = {"interrupt_id": asked["interrupt_id"], "value": {"approved": True}}
        assert (await client.post(f"/sessions/{session}/resume", json=answer)).status_code == 200


def serving(files: Files, *paths: str, store: str = "memory") -> Server:
    return Server(files.agent(*paths), **options(allow_import=True, state_key=KEY, store=store))


def refusal(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json().get("code")


@pytest.mark.parametrize("signed_again", [True, False], ids=["signed", "unsigned"])
async def test_an_approved_state_runs_once_also_after_its_session_is_gone(tmp_path: Path, signed_again: bool) -> None:
    files, store = Files(), f"sqlite:{tmp_path / 'hitl.db'}"
    state = await paused_state(files, "/a")
    body = {"run_state": json.loads(state.approve(state.interrupts[0]).to_string(key=KEY))}
    async with serving(files, "/a", store=store) as server:
        assert (await post(server.url, body)).status_code == 201
        assert (await settled(server.url, state.session_id))["status"] == "idle"
        await delete(server.url, state.session_id)
    again = body if signed_again else {"run_state": {**body["run_state"], "signature": "00"}}
    async with serving(files, "/a", store=store) as server:  # what it knows of the turn is in the file
        assert refusal(await post(server.url, again)) == (409, "run_state_used")
    assert files.deleted == ["/a"]


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
async def test_an_import_that_is_sent_again_once_its_session_is_gone_gets_the_first_reply(signed: bool) -> None:
    files = Files()
    state = await paused_state(files, "/a")
    document = json.loads(state.to_string(key=KEY if signed else None))
    async with serving(files, "/a") as server, client_of(server.url) as client:

        async def send() -> httpx.Response:
            return await client.post("/sessions", json={"run_state": document}, headers={"Idempotency-Key": "k"})

        first = await send()
        assert (first.status_code, first.json()["status"]) == (201, "interrupted" if signed else "running")
        assert (await settled(server.url, state.session_id))["status"] == "interrupted"
        await approve(server.url, state.session_id)
        assert (await settled(server.url, state.session_id))["status"] == "idle"
        assert (await send()).json()["status"] == "idle"
        await delete(server.url, state.session_id)
        again = await send()
        assert (again.status_code, again.json()) == (201, first.json())
        assert (await client.get(f"/sessions/{state.session_id}")).status_code == 404
    assert files.deleted == ["/a"]


async def test_what_went_on_after_an_export_does_not_go_on_from_it_again() -> None:
    files = Files()
    async with serving(files, "/a") as server:
        session = await asking(server.url)
        taken_out = hitl.RunState.from_string(
            files.agent("/a"), json.dumps(await exported(server.url, session)), key=KEY
        )
        taken_out.approve(taken_out.interrupts[0])
        await approve(server.url, session)
        assert (await settled(server.url, session))["status"] == "idle"
        await delete(server.url, session)
        again = await post(server.url, {"run_state": json.loads(taken_out.to_string(key=KEY))})
    assert refusal(again) == (409, "run_state_used")
    assert files.deleted == ["/a"]


async def test_of_two_answers_that_went_on_from_one_state_the_first_counts() -> None:
    """The session was deleted in the middle of its turn, and the state is one of before."""
    files = Files()
    async with serving(files, "/a", "/b") as server:
        session = await asking(server.url)
        early = hitl.RunState.from_string(
            files.agent("/a", "/b"), json.dumps(await exported(server.url, session)), key=KEY
        )
        first, _ = early.interrupts
        async with client_of(server.url) as client:
            answer = {"interrupt_id": first.id, "value": {"approved": True}}
            assert (await client.post(f"/sessions/{session}/resume", json=answer)).status_code == 200
            await journaled(server.url, session, "delete_file")
            (left,) = (await settled(server.url, session))["interrupts"]
        late = await exported(server.url, session)
        await delete(server.url, session)
        early.approve(first)
        again = await post(server.url, {"run_state": json.loads(early.to_string(key=KEY))})
        assert refusal(again) == (409, "run_state_used")
        # Where it stood when it was deleted, it goes on.
        assert (await post(server.url, {"run_state": late})).status_code == 201
        async with client_of(server.url) as client:
            answer = {"interrupt_id": left["interrupt_id"], "value": {"approved": False}}
            assert (await client.post(f"/sessions/{session}/resume", json=answer)).status_code == 200
        assert (await settled(server.url, session))["status"] == "idle"
    assert files.deleted == ["/a"]


async def journaled(url: str, session: str, tool: str) -> None:
    """Wait until a call of the tool is in the journal."""

    def look() -> bool:
        entries: list[dict[str, Any]] = httpx.get(f"{url}/sessions/{session}/journal", timeout=PATIENCE).json()
        return any(entry["entry"] == "step" and entry["name"] == tool for entry in entries)

    await asyncio.to_thread(eventually, look, True)


async def test_a_run_goes_from_server_to_server_and_back() -> None:
    files = Files()
    async with serving(files, "/a") as one, serving(files, "/a") as other:
        session = await asking(one.url)
        text = await exported(one.url, session)
        await delete(one.url, session)
        assert (await post(other.url, {"run_state": text})).status_code == 201
        back = await exported(other.url, session)
        await delete(other.url, session)
        assert (await post(one.url, {"run_state": back})).status_code == 201
        await approve(one.url, session)
        assert (await settled(one.url, session))["status"] == "idle"
        await delete(one.url, session)
        assert refusal(await post(one.url, {"run_state": back})) == (409, "run_state_used")
        # Another store cannot know: where several have one key, each of them may run it.
        assert (await post(other.url, {"run_state": back})).status_code == 201
    assert files.deleted == ["/a"]


async def test_an_approval_counts_for_the_agent_that_it_was_given_to() -> None:
    files = Files()
    state = await paused_state(files, "/a")
    body = {"run_state": json.loads(state.approve(state.interrupts[0]).to_string(key=KEY))}
    agent = files.agent("/a", name="production")
    async with Server(agent, **options(allow_import=True, state_key=KEY)) as server:
        refused = await post(server.url, body)
        assert refusal(refused) == (409, "run_state_other_agent")
        assert "production" in refused.json()["detail"]
        assert (await settled_or_gone(server.url, state.session_id)) == 404
    assert files.deleted == []


async def settled_or_gone(url: str, session: str) -> int:
    async with client_of(url) as client:
        return (await client.get(f"/sessions/{session}")).status_code


def test_served_agents_are_told_apart_by_where_they_are_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    away = "tests.python.support.away_agent"
    serve: dict[str, Any] = {"state_key": KEY, "allow_import": True, "environment": {"FOLDER": str(tmp_path)}}
    with Served(f"{away}:agent", **serve) as server:
        session = server.api.create()
        server.api.send(session, "go")
        assert server.api.wait(session)["status"] == "interrupted"
        state = server.api.get(f"/sessions/{session}/run-state").json()
    ran_here = hitl.run_sync(importlib.import_module(away).agent, "go").state
    assert ran_here is not None
    local = json.loads(ran_here.to_string(key=KEY))
    assert [state["agent"], local["agent"]] == [f"{away}:agent", state["agent_name"]]
    with Served("playbook", **serve) as other:
        for document in (state, local):
            refused = other.api.http.post("/sessions", json={"run_state": document})
            assert refusal(refused) == (409, "run_state_other_agent")
    with Served(f"{away}:agent", **serve) as again:
        for document in (state, local):
            assert again.api.http.post("/sessions", json={"run_state": document}).status_code == 201


@pytest.mark.parametrize("taken", ["turn", "interrupt"])
async def test_ids_that_another_session_has_are_refused(taken: str) -> None:
    files = Files()
    state = json.loads((await paused_state(files, "/a")).to_string())
    signed = hitl.RunState.from_string(files.agent("/a"), json.dumps(state))
    forged = json.loads(signed.to_string())
    forged["session_id"] = "0198c0de-0000-7000-8000-000000000001"
    other = "0198c0de-0000-7000-8000-000000000002"
    if taken == "interrupt":
        forged["turn_id"] = other
    else:
        (asked,) = {entry["interrupt_id"] for entry in forged["journal"] if "interrupt_id" in entry}
        forged = json.loads(json.dumps(forged).replace(asked, other))
    forged = json.loads(signed_anew(files, forged))
    async with serving(files, "/a") as server:
        first = await post(server.url, {"run_state": json.loads(signed.to_string(key=KEY))})
        assert first.status_code == 201
        assert refusal(await post(server.url, {"run_state": forged})) == (409, "run_state_known")


def signed_anew(files: Files, document: dict[str, Any]) -> str:
    return hitl.RunState.from_string(files.agent("/a"), json.dumps(document)).to_string(key=KEY)
