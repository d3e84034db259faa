"""People who work while others do harm: they create sessions, send, answer and wait; and they keep account."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

Json = Any

PATIENCE = 100.0
"""Seconds in which every request is answered."""


class Connection:
    """Requests over one connection that is kept."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname, address.port
        self._head = f"Host: {address.netloc}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def request(self, method: str, path: str, body: Json = None) -> tuple[int, Json]:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        async with asyncio.timeout(PATIENCE):
            self._writer.write(head.encode() + content)
            answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(line for line in answer.splitlines() if line.startswith("content-length:"))
            text = await self._reader.readexactly(int(length.partition(":")[2]))
        return int(answer.split()[1]), json.loads(text)


@dataclass
class Account:
    """What all of them did, and how long they waited."""

    phase: tuple[str, int] = ("warm", 0)
    over: bool = False
    latencies: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, str] = field(default_factory=dict)
    """What was answered, by interrupt."""
    done: dict[str, list[str]] = field(default_factory=dict)
    """What each session has to have as its result."""


async def work(url: str, key: str, name: str, account: Account) -> None:
    """One of them, until it is over."""
    pace = random.Random(name)
    async with Connection(url, key) as connection:

        async def ask(expected: int, method: str, path: str, body: Json = None) -> Json:
            phase, began = account.phase, time.perf_counter()
            status, answer = await connection.request(method, path, body)
            if "wait=" not in path:
                account.latencies[phase].append(time.perf_counter() - began)
            assert status == expected, (method, path, status, answer)
            return answer

        number = 0
        while not account.over:
            number += 1
            session_id = (await ask(201, "POST", "/sessions", {}))["session_id"]
            words = [f"{name}-{number}-{place}" for place in "ab"]
            asked = [{"type": "question", "of": word} for word in words]
            await ask(202, "POST", f"/sessions/{session_id}/messages", {"content": f"ask_in_turn {json.dumps(asked)}"})
            while True:
                session = await ask(200, "GET", f"/sessions/{session_id}?wait=true&timeout=30")
                if session["status"] == "idle":
                    break
                for interrupt in session["interrupts"] or []:
                    interrupt_id, word = interrupt["interrupt_id"], interrupt["payload"]["of"]
                    assert interrupt_id not in account.answers, "what was answered is asked again"
                    answer = {"interrupt_id": interrupt_id, "value": word}
                    taken = await ask(200, "POST", f"/sessions/{session_id}/resume", answer)
                    assert "replayed" not in taken, "it was answered before"
                    account.answers[interrupt_id] = word
                await asyncio.sleep(pace.uniform(0.05, 0.3))
            assert json.loads(session["response"]["content"]) == words, session
            account.done[session_id] = words
