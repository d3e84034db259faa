"""Nothing acknowledged is lost: SIGKILL right after any 2xx, start again, and it is there."""

from __future__ import annotations

import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from tests.python.support.api import Api, ok, problem, result
from tests.python.support.gate import Gate

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve


def test_sessions_and_messages_survive(serve: Serve, store: str) -> None:
    server = serve(store=store)
    one, two = server.api.create(), server.api.create([{"role": "user", "content": "earlier"}])
    server.api.run(one, "echo", {"deep": [1, None]})
    sessions = {session_id: server.api.session(session_id) for session_id in (one, two)}
    messages = {session_id: ok(server.api.get(f"/sessions/{session_id}/messages")) for session_id in (one, two)}
    listed = ok(server.api.get("/sessions"))
    server.kill()
    again = serve(store=store).api
    assert {session_id: again.session(session_id) for session_id in (one, two)} == sessions
    assert {session_id: ok(again.get(f"/sessions/{session_id}/messages")) for session_id in (one, two)} == messages
    assert ok(again.get("/sessions")) == listed
    assert result(again.run(one, "echo", "on we go")) == "on we go"


def test_a_turn_cut_off_at_work_goes_on_in_the_next_server(serve: Serve, store: str, gate: Gate) -> None:
    server = serve(store=store)
    session_id = server.api.create()
    server.api.run(session_id, "echo", 1)
    server.api.play(session_id, "hold", gate.port)
    gate.wait_for_arrival()
    server.kill()
    gate.wait_until_gone()
    api = serve(store=store).api
    gate.wait_for_arrival()
    assert api.session(session_id)["status"] == "running"
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2
    gate.release("finished")
    assert result(api.wait(session_id)) == "finished"
    assert result(api.run(session_id, "echo", 2)) == 2


def test_a_question_that_was_open_is_not_forgotten(serve: Serve, store: str) -> None:
    server = serve(store=store)
    session_id, interrupt_id = server.api.ask({"type": "question", "n": 7}, metadata={"ticket": 1})
    before = server.api.interrupt(interrupt_id)
    server.kill()
    api = serve(store=store).api
    after = api.interrupt(interrupt_id)
    for member in ("interrupt_id", "session_id", "turn_id", "type", "payload", "metadata", "created_at"):
        assert after[member] == before[member]
    session = api.session(session_id)
    assert session["status"] == "interrupted"


def test_an_answer_that_was_accepted_is_remembered(serve: Serve, store: str, gate: Gate) -> None:
    server = serve(store=store)
    session_id, interrupts = server.api.asked("ask_and_hold", {"payload": {"type": "question"}, "gate": gate.port})
    gate.wait_for_arrival()
    interrupt_id = interrupts[0]["interrupt_id"]
    ok(server.api.resume(session_id, interrupt_id, {"yes": 1}, Idempotency_Key="k"))
    server.kill()
    api = serve(store=store).api
    record = api.interrupt(interrupt_id)
    assert (record["status"], record["value"]) == ("resolved", {"yes": 1})
    assert ok(api.resume(session_id, interrupt_id, {"yes": 1}, Idempotency_Key="k"))["replayed"] is True
    problem(api.resume(session_id, interrupt_id, {"yes": 2}), 409, "Interrupt already resolved")


def test_an_idempotency_key_is_remembered(serve: Serve, store: str) -> None:
    server = serve(store=store)
    session_id = server.api.create()
    body = {"content": "echo 1"}
    first = server.api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k")
    server.api.wait(session_id)
    server.kill()
    api = serve(store=store).api
    again = api.post(f"/sessions/{session_id}/messages", body, Idempotency_Key="k")
    assert (again.status_code, again.json()) == (202, first.json())
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2


def test_memory_forgets(serve: Serve) -> None:
    server = serve(store="memory")
    session_id = server.api.create()
    server.kill()
    problem(serve(store="memory").api.get(f"/sessions/{session_id}"), 404, "Session not found")


def test_the_database_is_its_owners_alone(serve: Serve, tmp_path: Path) -> None:
    api: Api = serve(store=f"sqlite:{tmp_path / 'hitl.db'}").api
    api.run(api.create(), "echo", 1)
    for path in tmp_path.glob("hitl.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_bare_path_is_a_database_and_its_folder_is_made(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / ".hitl" / "hitl.db"
    first = serve(store=str(path))
    session_id = first.api.create()
    assert path.exists()
    assert (path.parent / ".gitignore").read_text().split() == ["*"]
    first.stop()
    assert serve(store=f"sqlite:{path}").api.session(session_id)["status"] == "idle"


def test_sessions_of_another_agent_are_shown_and_never_run(serve: Serve, store: str) -> None:
    first = serve("playbook", store=store)
    session_id = first.api.create()
    first.api.run(session_id, "echo", 1)
    first.stop()
    api = serve("puppet", store=store).api
    assert api.session(session_id)["response"]["content"] == "1"
    assert [entry["session_id"] for entry in ok(api.get("/sessions"))] == [session_id]
    refusal = problem(api.send(session_id, "[]"), 409)
    assert "playbook" in refusal["detail"]
    assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2
    assert api.delete(session_id).status_code == 204


def test_two_servers_in_turn_use_one_database(serve: Serve, store: str) -> None:
    ids: list[str] = []
    for _ in range(3):
        server = serve(store=store, allow_custom_ids=True)
        for session_id in ids:
            assert server.api.session(session_id)["status"] == "idle"
        ids.append(str(uuid.uuid4()))
        assert server.api.http.put(f"/sessions/{ids[-1]}").status_code == 201
        server.stop()
