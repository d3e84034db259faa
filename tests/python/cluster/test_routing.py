"""A rolling deploy: servers of two versions of an agent on one database, and which of them goes on with a turn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.python.cluster.conftest import Serve, runs
from tests.python.support import postgres
from tests.python.support.api import Api, Json, ok
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

SHOP = """
import time
from pathlib import Path

import hitl
from hitl import ChatMessage, interrupt, step

CODE = "v1"

async def first():
    return "first"

async def second():
    return "second"

def work(place):
    with Path(f"{place}.ran").open("a") as ran:
        ran.write("ran\\n")
    while not Path(f"{place}.go").exists():
        time.sleep(0.005)

async def work_on(message):
    await step(first)
    if message.content != "-":
        await step(work, message.content)
        answer = "worked"
    else:
        answer = await interrupt({"type": "free", "question": "go on?"})
    return ChatMessage.assistant_message(content=f"{CODE}: {answer}")

async def agent(message, state):
    return await work_on(message), state

@hitl.agent(pin=True)
async def pinned(message, state):
    return await work_on(message), state
"""

CODES = {
    "v1": {},
    # It replays what v1 recorded.
    "v2": {'"v1"': '"v2"'},
    # It does not.
    "v2, incompatible": {'"v1"': '"v2"', "step(first)": "step(second)"},
}

Deploy = Callable[..., Served]


@pytest.fixture
def deploy(serve: Serve, tmp_path: Path) -> Deploy:
    """Starts a server of that version: the agent's file is edited before."""

    def start(code: str, agent: str = "agent", **options: object) -> Served:
        source = SHOP
        for before, after in CODES[code].items():
            source = source.replace(before, after)
        (tmp_path / "shop.py").write_text(source)
        # Python takes cached bytecode for a source of the same second and size.
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        return serve(agent=f"shop:{agent}", directory=tmp_path, **options)

    return start


def parked(api: Api, database: str) -> tuple[str, str]:
    """A new session that waits for an answer, which no server has in memory, and which."""
    session_id = api.create()
    session = api.settled(session_id, "-", 1)
    turn = f"SELECT parked FROM hitl.turns WHERE session = '{session_id}'"
    eventually(lambda: postgres.execute(database, turn), "t")
    return session_id, session["interrupts"][0]["interrupt_id"]


def knows_others(server: Served, count: int) -> None:
    """The server knows that so many are there, itself among them."""
    eventually(lambda: len(ok(server.api.get("/health"))["servers"]), count)


def answered(server: Served, session_id: str, interrupt_id: str) -> Json:
    """How the session stands once the answer, which comes to `server`, is gone on from."""
    ok(server.api.resume(session_id, interrupt_id, "yes"))
    return server.api.wait(session_id)


def refused_by(database: str) -> str:
    """How many versions have failed with the one turn."""
    return postgres.execute(database, "SELECT coalesce(json_array_length(refused_by::json), 0) FROM hitl.turns")


@pytest.mark.parametrize("code", ["v2", "v2, incompatible"])
def test_an_answer_that_comes_to_new_code_is_gone_on_from_by_the_old_while_that_is_there(
    deploy: Deploy, database: str, code: str
) -> None:
    old = deploy("v1")
    waits = parked(old.api, database)
    new = deploy(code)
    knows_others(new, 2)
    assert answered(new, *waits)["response"]["content"] == "v1: yes"
    # What the new one is sent begins there.
    assert answered(new, *parked(new.api, database))["response"]["content"] == "v2: yes"


def test_once_no_server_of_the_old_code_is_there_the_new_one_goes_on(deploy: Deploy, database: str) -> None:
    old = deploy("v1")
    waits = parked(old.api, database)
    new = deploy("v2")
    old.stop()
    assert answered(new, *waits)["response"]["content"] == "v2: yes"


def test_what_the_new_code_cannot_replay_is_suspended_once_nobody_else_is_there_and_goes_on_at_the_old(
    deploy: Deploy, database: str
) -> None:
    old = deploy("v1")
    waits = parked(old.api, database)
    new = deploy("v2, incompatible")
    old.stop()
    session = answered(new, *waits)
    assert (session["status"], session["error_code"]) == ("error", "replay_mismatch")
    assert refused_by(database) == "1"
    # The deploy is rolled back: beside the new one, which is still there.
    again = deploy("v1")
    eventually(lambda: again.api.session(waits[0])["status"], "idle")
    assert again.api.session(waits[0])["response"]["content"] == "v1: yes"


def test_a_server_that_cannot_replay_a_turn_lets_go_of_it_while_the_code_that_recorded_it_is_there(
    deploy: Deploy, database: str
) -> None:
    old = deploy("v1")
    waits = parked(old.api, database)
    new = deploy("v2, incompatible")
    knows_others(new, 2)
    # As a turn of the release before is, which did not say whose code it is of: any server takes it.
    postgres.execute(database, "UPDATE hitl.turns SET code = NULL")
    assert answered(new, *waits)["response"]["content"] == "v1: yes"
    assert refused_by(database) == "1"
    new.wait_for_line("another server goes on with it")


def test_what_a_server_had_that_is_gone_goes_on_at_one_of_its_code(deploy: Deploy, place: Path) -> None:
    old, alike = deploy("v1"), deploy("v1")
    new = deploy("v2, incompatible")
    for server in (new, alike):
        knows_others(server, 3)
    session_id = old.api.create()
    assert old.api.send(session_id, str(place)).status_code == 202
    eventually(lambda: runs(place), 1)
    old.kill()
    eventually(lambda: runs(place), 2)
    Path(f"{place}.go").touch()
    assert new.api.wait(session_id)["response"]["content"] == "v1: worked"


def test_a_turn_whose_code_has_no_free_slot_is_taken_by_other_code_after_a_while(
    deploy: Deploy, database: str, place: Path
) -> None:
    old = deploy("v1", workers=1)
    waits = parked(old.api, database)
    busy = old.api.create()
    assert old.api.send(busy, str(place)).status_code == 202
    eventually(lambda: runs(place), 1)
    new = deploy("v2")
    knows_others(new, 2)
    # After 30 seconds; here everything is twice as fast.
    assert answered(new, *waits)["response"]["content"] == "v2: yes"
    Path(f"{place}.go").touch()
    assert old.api.wait(busy)["response"]["content"] == "v1: worked"


def test_what_a_pinned_agent_recorded_is_suspended_while_no_server_has_its_code(deploy: Deploy, database: str) -> None:
    old = deploy("v1", "pinned")
    waits = parked(old.api, database)
    new = deploy("v2", "pinned")
    old.stop()
    session = answered(new, *waits)
    assert (session["status"], session["error_code"]) == ("error", "code_pinned")
    again = deploy("v1", "pinned")
    eventually(lambda: again.api.session(waits[0])["status"], "idle")
    assert again.api.session(waits[0])["response"]["content"] == "v1: yes"


def test_servers_tell_in_what_they_differ(deploy: Deploy, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[[rule]]\nname = 'wires'\neffect = 'deny'\ntool = 'wire_*'\n")
    old = deploy("v1", interrupt_ttl=60, workers=1)

    def differences() -> list[str]:
        differing: list[str] = ok(old.api.get("/health"))["differences"]
        return differing

    assert differences() == []
    new = deploy("v2", interrupt_ttl=90, policy=policy)
    eventually(differences, ["code", "options", "policy"])
    codes = {server["code"] for server in ok(new.api.get("/health"))["servers"]}
    assert len(codes) == 2
    assert None not in codes
    new.stop()
    eventually(differences, [])
    # What each does for itself, such as its workers, may differ.
    same = deploy("v1", interrupt_ttl=60, workers=3)
    knows_others(old, 2)
    knows_others(same, 2)
    assert differences() == []
