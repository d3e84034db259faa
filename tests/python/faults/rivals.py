"""Many answers at once, and answers at the moment of expiry: what comes of them, at however many servers."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from typing import Any

from tests.python.faults.world import Client, Json
from tests.python.support.waiting import eventually

ASKER = "tests.python.faults.rivals:asker"
AT_ONCE = 6
"""How many answers race against an expiry."""


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


def one_is_heard(clients: Sequence[Client], asks: Client, rounds: int) -> None:
    """All of them answer the same question differently and at once. One wins; the others are told who, and when."""
    together = threading.Barrier(len(clients))

    def answer(rival: int, interrupt_id: str) -> tuple[int, Any]:
        # Connected before it counts.
        clients[rival].get("/healthz")
        together.wait(200)
        return clients[rival].post(f"/interrupts/{interrupt_id}/resume", {"value": {"from": rival}})

    with ThreadPoolExecutor(len(clients)) as pool:
        for _ in range(rounds):
            session_id, asked = ask(asks)
            interrupt_id = asked["interrupt_id"]
            answers = list(pool.map(answer, range(len(clients)), [interrupt_id] * len(clients)))
            winners = [rival for rival, (status, _) in enumerate(answers) if status == 200]
            assert len(winners) == 1, [answers[winner] for winner in winners]
            value = {"from": winners[0]}
            record = asks.get(f"/interrupts/{interrupt_id}")[1]
            assert (record["status"], record["value"]) == ("resolved", value)
            for status, body in answers:
                if status != 200:
                    assert (status, body["detail"]) == (409, "Interrupt already resolved"), body
                    assert (body["resolved_by"], body["resolved_at"]) == (
                        record["resolved_by"],
                        record["resolved_at"],
                    )
            assert outcome(asks, session_id) == value


def one_of_both_wins(client_of: Callable[[], Client], races: int) -> Counter[str]:
    """How often an answer has won against the expiry of its question, and how often not."""
    # How long before its time an answer is sent. A winner makes the next one come later, so that they stay at the edge
    # however long a request takes on this machine.
    lead = 0.002

    def race(number: int) -> str:
        nonlocal lead
        chance = random.Random(number)
        with closing(client_of()) as client:
            session_id, asked = ask(client, expires_in=0.4 + 2 * lead + chance.random() / 5)
            path = f"/interrupts/{asked['interrupt_id']}"
            at = datetime.fromisoformat(asked["expires_at"]).timestamp() - lead + chance.uniform(-0.001, 0.001)
            # The server that it is sent to is another one than that which asked, where there are several.
            client.elsewhere()
            client.get("/healthz")
            while (left := at - time.time()) > 0:
                time.sleep(max(0.0, left - 0.001) or 0.0001)
            status, body = client.post(f"{path}/resume", {"value": number})
            lead = lead / 1.5 if status == 200 else lead * 1.5
            got = outcome(client, session_id)
            record = client.get(path)[1]
            if status == 200:
                assert (record["status"], record["value"], got) == ("resolved", number, number), record
                return "answer"
            assert status in (409, 410), body
            assert (record["status"], record["value"], got) == ("expired", None, "expired"), record
            return "expiry"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(race, range(races)))
