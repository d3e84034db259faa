"""What tools need and cannot be stored, on a server: opened in each process that runs turns, closed at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.support.api import result
from tests.python.support.pooled import Pooled
from tests.python.support.waiting import eventually


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pooled]]:
    """One server for each isolation; in `process` a turn that waits leaves memory at once."""
    servers: dict[str, Pooled] = {}
    try:
        for isolation in ("process", "task"):
            folder = tmp_path_factory.mktemp(f"pooled-{isolation}")
            servers[isolation] = Pooled(folder, isolation=isolation, park_after=0, workers=2)
        yield servers
    finally:
        for server in servers.values():
            server.served.stop()


@pytest.fixture
def pooled(shared: dict[str, Pooled], isolation: str) -> Pooled:
    server = shared[isolation]
    (server.folder / "away").unlink(missing_ok=True)
    server.forget()
    return server


def test_a_turn_gets_what_its_worker_has_opened(pooled: Pooled) -> None:
    session = pooled.call(("look_up", {"what": "a"}), ("look_up_in_thread", {"what": "b"}))
    assert result(session) == ["look_up a", "look_up b"]
    noted = pooled.noted()
    assert noted.count("open") <= 1
    assert [line for line in noted if line.startswith("look_up")] == ["look_up a", "look_up b"]


def test_each_forked_child_opens_its_own_and_closes_it_at_the_end_of_its_turn(shared: dict[str, Pooled]) -> None:
    pooled = shared["process"]
    pooled.forget()
    pooled.call(("look_up", {"what": "a"}))
    pooled.call(("look_up", {"what": "b"}))
    eventually(lambda: pooled.noted().count("close"), 2)
    opened = pooled.pids("open")
    assert len(set(opened)) == len(opened) == 2
    assert pooled.pids("close") == opened


def test_workers_of_many_turns_open_it_once_each_and_keep_it(shared: dict[str, Pooled]) -> None:
    pooled = shared["task"]
    for number in range(4):
        pooled.call(("look_up", {"what": str(number)}))
    opened = (pooled.folder / "log").read_text().splitlines()
    pids = [line.rpartition(" ")[2] for line in opened if line.startswith("open ")]
    assert len(set(pids)) == len(pids) <= 2
    assert "close" not in pooled.noted()


def test_a_turn_that_does_not_use_it_opens_nothing(shared: dict[str, Pooled]) -> None:
    pooled = shared["process"]  # each turn has a process of its own
    pooled.forget()
    session = pooled.call(("ask", {}), ("who", {}))
    pooled.answer(session, "so")
    assert pooled.noted() == []


def test_no_model_and_no_person_is_shown_it(pooled: Pooled) -> None:
    session = pooled.call(("pay", {"cents": 5}))
    asked = session["interrupts"][0]
    assert asked["payload"]["tool_args"] == {"cents": 5}
    assert pooled.noted() == []  # nor is it opened before somebody says yes
    assert result(pooled.answer(session, {"approved": True})) == ["pay 5"]
    journal = pooled.api.get(f"/sessions/{session['session_id']}/journal").text
    assert "pooled_agent" not in journal
    assert "Pool" not in journal


def test_a_replay_opens_it_only_for_what_is_left_to_run(shared: dict[str, Pooled]) -> None:
    pooled = shared["process"]
    pooled.forget()
    session = pooled.call(("look_up", {"what": "a"}), ("ask", {}))
    eventually(pooled.noted, ["open", "look_up a", "close"])
    pooled.forget()
    assert result(pooled.answer(session, "so")) == ["look_up a", "so"]
    assert pooled.noted() == []


def test_a_tool_that_asks_while_it_runs_finds_it_again_in_the_replay(pooled: Pooled) -> None:
    session = pooled.call(("look_up_and_ask", {"what": "a"}))
    assert result(pooled.answer(session, "yes")) == ["heard yes"]
    assert [line for line in pooled.noted() if line.startswith(("look", "heard"))] == [
        "look_up a",
        "look_up a",
        "heard yes",
    ]


def test_one_that_cannot_be_opened_suspends_the_turn_until_it_is_retried(shared: dict[str, Pooled]) -> None:
    pooled = shared["process"]
    pooled.forget()
    (pooled.folder / "away").touch()
    asking = pooled.call(("pay", {"cents": 7}), ("look_up", {"what": "a"}))
    away = pooled.answer(asking, {"approved": True})
    assert (away["status"], away["error_code"]) == ("error", "resource_unavailable")
    refused = "ConnectionRefusedError: nobody listens"
    assert away["error"] == f"ResourceUnavailable: the resource 'pool' cannot be opened: {refused}"
    assert pooled.retry(asking)["error_code"] == "resource_unavailable"
    (pooled.folder / "away").unlink()
    # An approved call runs once, and one that could not begin is no question of what came of it.
    assert result(pooled.retry(asking)) == ["pay 7", "look_up a"]
    assert [line for line in pooled.noted() if line.startswith("pay")] == ["pay 7"]
    assert pooled.noted().count("refused") == 2


def test_the_context_is_made_of_the_request_once_and_without_its_key(tmp_path: Path) -> None:
    server = Pooled(tmp_path, api_key="key-of-16-characters", park_after=0)
    with server.served:
        session = server.call(("ask", {}), ("who", {}), user_params={"tenant": "acme"})
        done = result(server.answer(session, "so"))
        seen = {
            "session": session["session_id"],
            "sent": {"tenant": "acme"},
            "by": "api-key",
            "seen": ["agent", "message", "sent_by", "session_id", "user_params"],
        }
        assert json.loads(done[1]) == seen
        assert server.noted("context_from") == ["context_from"]
        journal = server.api.get(f"/sessions/{session['session_id']}/journal").text
    assert "key-of-16" not in journal
    assert b"key-of-16" not in (tmp_path / "hitl.db").read_bytes()


@pytest.mark.parametrize("isolation", ["process", "task"])
def test_the_end_of_the_server_closes_it_and_a_turn_killed_with_it_opens_it_again(
    tmp_path: Path, isolation: str
) -> None:
    server = Pooled(tmp_path, isolation=isolation, workers=1)
    session = server.call(("look_up", {"what": "a"}), ("pay", {"cents": 5}))
    assert server.noted() == ["open", "look_up a"]
    server.served.kill()
    assert server.noted() == ["open", "look_up a"]  # nothing is closed by a power cut

    server = Pooled(tmp_path, isolation=isolation, workers=1)
    with server.served:
        session = server.api.session(session["session_id"])
        assert server.noted() == []
        assert result(server.answer(session, {"approved": True})) == ["look_up a", "pay 5"]
        assert server.noted()[:2] == ["open", "pay 5"]
    assert server.noted() == ["open", "pay 5", "close"]  # SIGTERM
