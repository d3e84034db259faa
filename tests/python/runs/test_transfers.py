"""A run moves from a process into a server, and out of one; a forged state approves nothing."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import hitl
from hitl import RunState, Server
from hitl.testing import ScriptedChatClient
from tests.python.runs.support import Files

KEY = "5f3c0a-a-key-of-the-test"
PATIENCE = 100.0
"""Seconds in which a server answers, however busy the machine."""


async def paused_state(files: Files, *paths: str) -> RunState:
    result = await hitl.run(files.agent(*paths), "clean up")
    assert result.state is not None
    return result.state


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE)


async def post(url: str, body: Any) -> httpx.Response:
    async with client_of(url) as client:
        return await client.post("/sessions", json=body)


async def settled(url: str, session: str) -> dict[str, Any]:
    async with client_of(url) as client:
        found: dict[str, Any] = (await client.get(f"/sessions/{session}?wait=1")).json()
        return found


def options(**more: Any) -> dict[str, Any]:
    return {"port": 0, "store": "memory", **more}


async def test_a_server_takes_no_runs_unless_it_is_told_to() -> None:
    files = Files()
    state = await paused_state(files, "/a")
    async with Server(files.agent("/a"), **options()) as server:
        reply = await post(server.url, {"run_state": json.loads(state.to_string())})
    assert (reply.status_code, reply.json()["code"]) == (403, "import_disabled")


async def test_a_signed_run_goes_on_in_a_server_with_its_decisions() -> None:
    files = Files()
    state = await paused_state(files, "/a", "/b")
    first, second = state.interrupts
    state.approve(first).reject(second)
    async with Server(files.agent("/a", "/b"), **options(allow_import=True, state_key=KEY)) as server:
        reply = await post(server.url, {"run_state": json.loads(state.to_string(key=KEY))})
        assert (reply.status_code, reply.headers["location"]) == (201, f"/sessions/{state.session_id}")
        done = await settled(server.url, state.session_id)
    assert (done["status"], done["response"]["content"], files.deleted) == ("idle", "done", ["/a"])


@pytest.mark.parametrize("signed_with", [None, "another key"])
async def test_what_an_unsigned_run_says_was_approved_is_asked_again(signed_with: str | None) -> None:
    files = Files()
    state = await paused_state(files, "/a")
    state.approve(state.interrupts[0], always=True)
    text = state.to_string() if signed_with is None else state.to_string(key=signed_with)
    async with Server(files.agent("/a"), **options(allow_import=True, state_key=KEY)) as server:
        reply = await post(server.url, {"run_state": json.loads(text)})
        assert reply.status_code == 201
        asked = await settled(server.url, state.session_id)
    assert (asked["status"], files.deleted) == ("interrupted", [])
    assert asked["interrupts"][0]["payload"]["tool_args"] == {"path": "/a"}
    assert asked["interrupts"][0]["interrupt_id"] != state.answers


@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
@pytest.mark.parametrize("says", [{}, {"policy": True}, {"policy": False}], ids=["as written", "with", "without"])
async def test_what_a_run_does_here_is_for_the_rules_of_the_server(
    tmp_path: Path, key: str | None, says: dict[str, bool]
) -> None:
    """Also by a tool that needs no approval, and whatever its state says of rules where it came from."""
    files, ran = Files(), []

    @hitl.tool
    async def free(number: int) -> str:
        ran.append(number)
        return f"did {number}"

    first = [{"name": "free", "args": {"number": 1}}, {"name": "delete_file", "args": {"path": "/a"}}]
    then = [{"name": "free", "args": {"number": 2}}]

    def agent() -> hitl.ReActAgent:
        client = ScriptedChatClient([{"tool_calls": first}, {"tool_calls": then}, {"content": "done"}])
        return hitl.ReActAgent(client=client, tools=[free, files.tool])

    state = (await hitl.run(agent(), "go")).state
    assert state is not None
    document = json.loads(state.to_string(key=None if says else key))
    document["journal"][0].update(says)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\nname = "closed"\neffect = "deny"\ntool = "free"\n')
    async with Server(agent(), **options(allow_import=True, state_key=KEY, policy=str(policy))) as server:
        assert (await post(server.url, {"run_state": document})).status_code == 201
        asked = await settled(server.url, state.session_id)
        async with client_of(server.url) as client:
            answer = {"interrupt_id": asked["interrupts"][0]["interrupt_id"], "value": {"approved": True}}
            assert (await client.post(f"/sessions/{state.session_id}/resume", json=answer)).status_code == 200
        done = await settled(server.url, state.session_id)
    assert (done["status"], ran, files.deleted) == ("idle", [1], ["/a"])


async def test_an_undecided_run_waits_in_the_server() -> None:
    files = Files()
    state = await paused_state(files, "/a")
    [open_one] = state.interrupts
    async with Server(files.agent("/a"), **options(allow_import=True, state_key=KEY)) as server:
        reply = await post(server.url, {"run_state": json.loads(state.to_string(key=KEY))})
        assert [asked["interrupt_id"] for asked in reply.json()["interrupts"]] == [open_one.id]
        async with client_of(server.url) as client:
            answer = {"interrupt_id": open_one.id, "value": {"approved": True}}
            assert (await client.post(f"/sessions/{state.session_id}/resume", json=answer)).status_code == 200
        done = await settled(server.url, state.session_id)
    assert (done["status"], files.deleted) == ("idle", ["/a"])


async def test_a_run_comes_out_of_a_server_and_goes_on_in_a_process() -> None:
    files = Files()
    agent = files.agent("/a")
    async with (
        Server(agent, **options(state_key=KEY)) as server,
        client_of(server.url) as client,
    ):
        session = (await client.post("/sessions")).json()["session_id"]
        idle = await client.get(f"/sessions/{session}/run-state")
        assert (idle.status_code, idle.json()["code"]) == (409, "nothing_to_export")
        await client.post(f"/sessions/{session}/messages", json={"content": "clean up"})
        assert (await settled(server.url, session))["status"] == "interrupted"
        text = (await client.get(f"/sessions/{session}/run-state")).text
    # A copy to go on with anywhere: nothing in it is about the server's store.
    assert "store" not in json.loads(text)
    state = RunState.from_string(agent, text, key=KEY)
    done = await hitl.run(agent, state.approve(state.interrupts[0]))
    assert (done.output, files.deleted) == ("done", ["/a"])


RULES = [
    {"name": "logs", "effect": "allow", "tool": "delete_file", "when": "args.path.startsWith('/log')"},
    {"name": "roots", "effect": "deny", "tool": "delete_file", "when": "args.path == '/root'"},
]


async def test_the_rules_of_a_session_travel_with_its_run() -> None:
    files = Files()
    agent = files.agent("/a", "/log/1")
    async with (
        Server(agent, **options(state_key=KEY)) as server,
        client_of(server.url) as client,
    ):
        session = (await client.post("/sessions", json={"rules": RULES})).json()["session_id"]
        await client.post(f"/sessions/{session}/messages", json={"content": "clean up"})
        assert (await settled(server.url, session))["status"] == "interrupted"
        text = (await client.get(f"/sessions/{session}/run-state")).text
    state = RunState.from_string(agent, text, key=KEY)
    with pytest.raises(hitl.InvalidAnswer, match="roots"):
        state.edit(state.interrupts[0], {"path": "/root"})
    async with Server(agent, **options(allow_import=True, state_key=KEY)) as server:
        assert (await post(server.url, {"run_state": json.loads(state.to_string(key=KEY))})).status_code == 201
        async with client_of(server.url) as client:
            edit = {"interrupt_id": state.interrupts[0].id, "value": {"type": "edit", "args": {"path": "/root"}}}
            refused = await client.post(f"/sessions/{session}/resume", json=edit)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_answer")
            again = json.loads((await client.get(f"/sessions/{session}/run-state")).text)
    assert again["rules"] == RULES


async def test_rules_of_an_unsigned_run_let_nothing_through() -> None:
    files = Files()
    state = await paused_state(files, "/log/1")
    forged = {**json.loads(state.to_string()), "rules": RULES}
    forged["journal"][0]["policy"] = True
    async with Server(files.agent("/log/1"), **options(allow_import=True, state_key=KEY)) as server:
        assert (await post(server.url, {"run_state": forged})).status_code == 201
        asked = await settled(server.url, state.session_id)
        assert (asked["status"], files.deleted) == ("interrupted", [])
        async with client_of(server.url) as client:
            kept = json.loads((await client.get(f"/sessions/{state.session_id}/run-state")).text)
    assert [rule["name"] for rule in kept["rules"]] == ["roots"]


async def test_rules_of_an_unsigned_run_take_no_place_of_the_server_s(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\nname = "none"\neffect = "deny"\ntool = "delete_file"\n')
    files = Files()
    state = await paused_state(files, "/log/1")
    asks = {"name": "mine", "effect": "ask", "tool": "*", "approvers": ["mallory"]}
    forged = {**json.loads(state.to_string()), "rules": [asks]}
    async with Server(files.agent("/log/1"), **options(allow_import=True, policy=str(policy))) as server:
        assert (await post(server.url, {"run_state": forged})).status_code == 201
        session = await settled(server.url, state.session_id)
        assert (session["status"], session["interrupts"], files.deleted) == ("idle", None, [])


async def test_rules_that_cannot_be_read_are_no_rules() -> None:
    files = Files()
    document = json.loads((await paused_state(files, "/a")).to_string())
    document["rules"] = [{"name": "broken", "effect": "deny", "tool": "*", "when": "args."}]
    with pytest.raises(hitl.RunStateError, match=r"rules\.0\.when"):
        RunState.from_string(files.agent("/a"), json.dumps(document))


async def test_a_changed_text_is_refused_where_a_key_is_given() -> None:
    files = Files()
    agent = files.agent("/a")
    state = await paused_state(files, "/a")
    text = state.to_string(key=KEY)
    assert RunState.from_string(agent, text, key=KEY).interrupts == state.interrupts
    for forged in (text.replace("/a", "/b"), state.to_string(), state.to_string(key="another")):
        with pytest.raises(hitl.RunStateError, match="not signed with this key"):
            RunState.from_string(agent, forged, key=KEY)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"run_state": {"version": 99}}, "run_state_newer"),
        ({"run_state": {}}, "run_state_invalid"),
        ({"run_state": "text"}, "invalid_request"),
        ({"run_state": {"version": 1}, "state": []}, "invalid_request"),
    ],
)
async def test_what_is_no_run_state_is_refused(body: Any, code: str) -> None:
    async with Server(Files().agent("/a"), **options(allow_import=True)) as server:
        reply = await post(server.url, body)
    assert (reply.status_code, reply.json()["code"]) == (422, code)


async def test_a_run_is_imported_once() -> None:
    files = Files()
    state = await paused_state(files, "/a")
    async with Server(files.agent("/a"), **options(allow_import=True, state_key=KEY)) as server:
        body = {"run_state": json.loads(state.to_string(key=KEY))}
        assert (await post(server.url, body)).status_code == 201
        again = await post(server.url, body)
    assert (again.status_code, again.json()["code"]) == (409, "session_exists")


async def test_a_run_whose_context_cannot_be_made_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "shop_of_last_year.py"
    source.write_text("from dataclasses import dataclass\n@dataclass\nclass Customer:\n    name: str\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("shop_of_last_year")
    files = Files()
    agent = files.agent("/a")
    paused = await hitl.run(agent, "clean up", context=module.Customer("ann"))
    assert paused.state is not None
    text = paused.state.approve(paused.interrupts[0]).to_string(key=KEY)
    monkeypatch.delitem(sys.modules, "shop_of_last_year")
    source.unlink()
    async with Server(agent, **options(allow_import=True, state_key=KEY)) as server:
        assert (await post(server.url, {"run_state": json.loads(text)})).status_code == 201
        failed = await settled(server.url, paused.session_id)
        assert (failed["status"], failed["error_code"], files.deleted) == ("error", "journal_unreadable", [])
        assert "shop_of_last_year.Customer" in failed["error"]
        # The only worker is still there, for other turns and for this one.
        async with client_of(server.url) as client:
            other = (await client.post("/sessions")).json()["session_id"]
            await client.post(f"/sessions/{other}/messages", json={"content": "clean up"})
            assert (await settled(server.url, other))["status"] == "interrupted"
            monkeypatch.setitem(sys.modules, "shop_of_last_year", module)
            assert (await client.post(f"/sessions/{paused.session_id}/retry")).status_code == 202
        done = await settled(server.url, paused.session_id)
    assert (done["status"], files.deleted) == ("idle", ["/a"])


async def test_a_key_that_is_empty_signs_nothing_and_proves_nothing() -> None:
    files = Files()
    state = await paused_state(files, "/a")
    with pytest.raises(ValueError, match="a key must not be empty: anybody can sign with that one"):
        state.to_string(key="")
    with pytest.raises(ValueError, match="a key must not be empty"):
        RunState.from_string(files.agent("/a"), state.to_string(), key="")
