"""Agents made of data, for tests that kill them: what they do, what must come of it, and traces of what they did.

A program is a list, `[kind, ...]`. Running one leaves lines in the turn's ledger, one write each:

- `effect NAME`: the body of a step runs;
- `seen NAME`: the agent has the step's result. It is in the journal then, and the body must never run again.

So a step that ran twice although it had finished shows as an `effect` after a `seen`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hitl
from hitl import ChatMessage, interrupt

Program = list[Any]

LEAVES = ("step", "once", "ask", "sleep", "lapse", "race", "die")


def trace(ledger: str, line: str) -> None:
    """One line, in one write: others write to the file as well."""
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


async def effect(ledger: str, name: str) -> str:
    trace(ledger, f"effect {name}")
    # Long enough to be killed in, and not the same for all.
    await asyncio.sleep(len(name) % 4 / 500)
    return f"{name}!"


@hitl.step(once=True)
async def effect_once(ledger: str, name: str) -> str:
    return await effect(ledger, name)


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """The message is `{"ledger": path, "program": [...]}`; the response what the program returned."""
    order = json.loads(message.content or "")
    result = await run(order["program"], order["ledger"])
    reply = ChatMessage.assistant_message(content=json.dumps(result))
    return reply, [*state, message, reply]


async def run(program: Program, ledger: str) -> Any:
    kind, *rest = program
    match kind:
        case "seq":
            return [await run(part, ledger) for part in rest]
        case "all":
            return await asyncio.gather(*(run(part, ledger) for part in rest))
        case "tool":
            name, *inner = rest
            result = await hitl.step(_tool, ledger, name, inner)
            trace(ledger, f"seen {name}")
            return result
        case "sleep":
            await asyncio.sleep(rest[1] / 1000)
            return rest[0]
        case "race":
            return await _race(rest[0])
        case "die":
            _die_once(f"{ledger}.{rest[0]}")
            return rest[0]
    (name,) = rest
    if kind == "ask":
        return await interrupt({"type": "question", "name": name})
    if kind == "lapse":
        return await interrupt({"type": "lapses", "name": name}, expires_in=0.15, on_expire=f"{name} lapsed")
    body = gate if kind == "gate" else effect
    result = await (effect_once(ledger, name) if kind == "once" else hitl.step(body, ledger, name))
    trace(ledger, f"seen {name}")
    return result


async def gate(ledger: str, name: str) -> str:
    """Ends when there is `<ledger>.<name>.go`."""
    trace(ledger, f"effect {name}")
    while not Path(f"{ledger}.{name}.go").exists():
        await asyncio.sleep(0.005)
    return f"{name}!"


async def _tool(ledger: str, name: str, inner: list[Program]) -> list[Any]:
    trace(ledger, f"effect {name}")
    return [await run(part, ledger) for part in inner]


async def _race(name: str) -> str:
    """A question that is withdrawn before anybody answers it."""
    asking = asyncio.ensure_future(interrupt({"type": "lapses", "name": name}))
    await asyncio.sleep(0.05)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return name


def _die_once(mark: str) -> None:
    """Kill the worker, the first time that it comes by."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def answer_to(payload: dict[str, Any]) -> Any:
    """The one answer that a question gets, whoever gives it and however often; None for those that nobody answers."""
    match payload["type"]:
        case "question":
            return {"to": payload["name"]}
        case "unknown_outcome":
            return {"outcome": "done", "result": "unknown"}
        case _:
            return None


def fits(program: Program, result: Any) -> bool:
    """Whether that may come of the program."""
    kind, *rest = program
    match kind:
        case "seq" | "all":
            return _all_fit(rest, result)
        case "tool":
            return _all_fit(rest[1:], result)
        case "ask":
            return bool(result == {"to": rest[0]})
        case "lapse":
            return bool(result == f"{rest[0]} lapsed")
        case "step" | "gate":
            return bool(result == f"{rest[0]}!")
        case "once":
            # A crash hit it in flight, and a person said that it was done.
            return result in (f"{rest[0]}!", "unknown")
        case _:
            return bool(result == rest[0])


def _all_fit(parts: list[Program], results: Any) -> bool:
    return len(parts) == len(results) and all(map(fits, parts, results))


def names(program: Program, *kinds: str) -> Iterator[str]:
    """The names of all parts of those kinds."""
    if program[0] in kinds:
        yield program[1]
    for part in program[1:]:
        if isinstance(part, list):
            yield from names(part, *kinds)


class Maker:
    """Makes programs by chance, with a seed."""

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(str(seed))
        self._count = 0

    def leaf(self, kind: str) -> Program:
        self._count += 1
        name = f"{kind}{self._count}"
        return [kind, name, self._chance.randrange(60)] if kind == "sleep" else [kind, name]

    def mix(self) -> Program:
        """Something of everything, in some order, deep or side by side."""
        parts = [self.leaf(kind) for kind in (*LEAVES, "step", "ask")]
        self._chance.shuffle(parts)
        self._count += 1
        inner = [parts.pop() if parts[-1][0] != "once" else self.leaf("ask"), self.leaf("step"), self.leaf("ask")]
        parts.insert(self._chance.randrange(len(parts)), ["tool", f"tool{self._count}", *inner])
        together = self._chance.randrange(2, 5)
        return ["seq", ["all", *parts[:together]], *parts[together:]]

    def paused(self) -> Program:
        """A step, a question, steps after it."""
        return ["seq", self.leaf("step"), self.leaf("ask"), ["all", self.leaf("step"), self.leaf("once")]]

    def busy(self) -> Program:
        """Always at work, with a question now and then."""
        parts = [self.leaf(self._chance.choice(["step", "step", "once", "sleep", "ask"])) for _ in range(12)]
        return ["seq", *parts[:6], ["all", *parts[6:9]], *parts[9:]]


def ledger_lines(ledger: str) -> list[str]:
    path = Path(ledger)
    return path.read_text().splitlines() if path.exists() else []
