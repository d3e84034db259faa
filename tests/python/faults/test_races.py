"""Many answers at once, and answers at the moment of expiry: one winner, and everybody is told the same."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from tests.python.faults.world import Client, Json, World, full
from tests.python.support.waiting import eventually

RIVALS = 100
ROUNDS = full(20, 500)
DEADLINES = full(60, 2_000)
AGENT = "tests.python.faults.test_races:asker"


async def asker(message: Any, state: list[Any]) -> tuple[Any, list[Any]]:
    """Asks with the options that the message holds, and repeats the answer."""
    from hitl import ChatMessage, interrupt

    options = json.loads(message.content)
    answer = await interrupt({"type": "question"}, **options, on_expire="expired")
    reply = ChatMessage.assistant_message(content=json.dumps(answer))
    return reply, [*state, message, reply]


def ask(client: Client, **options: Any) -> tuple[str, Json]:
    status, session = client.post("/sessions")
    assert status == 201, session
    session_id: str = session["session_id"]
    assert client.post(f"/sessions/{session_id}/messages", {"content": json.dumps(options)})[0] == 202
    # It may have expired before anybody looks.
    asked: list[Json] = []
    while not asked:
        client.get(f"/sessions/{session_id}?wait=true&timeout=20")
        asked = client.get(f"/interrupts?session_id={session_id}")[1]
    return session_id, asked[0]


def outcome(client: Client, session_id: str) -> Any:
    """What the agent got in the end. Right after the time of expiry the session may still seem to wait."""
    eventually(lambda: client.get(f"/sessions/{session_id}?wait=true&timeout=20")[1]["status"], "idle")
    return json.loads(client.get(f"/sessions/{session_id}")[1]["response"]["content"])


@pytest.mark.slow
@pytest.mark.timeout(full(600, 3_600))
@pytest.mark.parametrize("park_after", [0.0, 60.0], ids=["parked", "warm"])
def test_of_a_hundred_answers_one_wins_and_the_others_are_told_so(
    make_world: Callable[..., World], park_after: float
) -> None:
    world = make_world(agent=AGENT, park_after=park_after)
    world.begin()
    clients = [world.client() for _ in range(RIVALS)]
    together = threading.Barrier(RIVALS)

    def answer(rival: int, interrupt_id: str) -> tuple[int, Any]:
        # Connected before it counts.
        clients[rival].get("/healthz")
        together.wait(200)
        return clients[rival].post(f"/interrupts/{interrupt_id}/resume", {"value": {"from": rival}})

    with closing(world.client()) as client, ThreadPoolExecutor(RIVALS) as pool:
        for _ in range(ROUNDS // 2):
            session_id, asked = ask(client)
            interrupt_id = asked["interrupt_id"]
            answers = list(pool.map(answer, range(RIVALS), [interrupt_id] * RIVALS))
            winners = [rival for rival, (status, _) in enumerate(answers) if status == 200]
            assert len(winners) == 1, [answers[winner] for winner in winners]
            value = {"from": winners[0]}
            record = client.get(f"/interrupts/{interrupt_id}")[1]
            assert (record["status"], record["value"]) == ("resolved", value)
            for status, body in answers:
                if status != 200:
                    assert (status, body["detail"]) == (409, "Interrupt already resolved"), body
                    assert (body["resolved_by"], body["resolved_at"]) == (
                        record["resolved_by"],
                        record["resolved_at"],
                    )
            assert outcome(client, session_id) == value
    for rival in clients:
        rival.close()


@pytest.mark.slow
@pytest.mark.timeout(full(600, 3_600))
def test_of_an_answer_and_an_expiry_at_the_same_time_one_wins(make_world: Callable[..., World]) -> None:
    world = make_world(agent=AGENT, park_after=0.0, workers=4, queue=20_000)
    world.begin()
    wins = {"answer": 0, "expiry": 0}
    # How long before its time an answer is sent. A winner makes the next one come later, so that they stay at the edge
    # however long a request takes on this machine.
    lead = 0.002

    def race(number: int) -> bool:
        """Whether the answer won."""
        nonlocal lead
        chance = random.Random(number)
        with closing(world.client()) as client:
            session_id, asked = ask(client, expires_in=0.4 + 2 * lead + chance.random() / 5)
            path = f"/interrupts/{asked['interrupt_id']}"
            at = datetime.fromisoformat(asked["expires_at"]).timestamp() - lead + chance.uniform(-0.001, 0.001)
            while (left := at - time.time()) > 0:
                time.sleep(max(0.0, left - 0.001) or 0.0001)
            status, body = client.post(f"{path}/resume", {"value": number})
            lead = lead / 1.5 if status == 200 else lead * 1.5
            got = outcome(client, session_id)
            record = client.get(path)[1]
            if status == 200:
                assert (record["status"], record["value"], got) == ("resolved", number, number), record
            else:
                assert status in (409, 410), body
                assert (record["status"], record["value"], got) == ("expired", None, "expired"), record
            return status == 200

    with ThreadPoolExecutor(6) as pool:
        for won in pool.map(race, range(DEADLINES)):
            wins["answer" if won else "expiry"] += 1
    print(wins)
    assert min(wins.values()) > 0, wins
