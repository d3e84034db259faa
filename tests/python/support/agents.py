"""Agents for tests that talk to a server. A message says what the agent does, so that one server serves many tests.

`playbook` is a plain function: a message is `<play> <JSON>`, the response is what the play returned, as JSON.

What has tools is in `puppet.py`: their schemas, and pydantic for them, are half of what the import costs, and servers
of the playbook start some hundred times.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hitl
from hitl import ChatMessage, ToolRejected, interrupt

Play = Callable[[Any], Awaitable[Any]]


async def playbook(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    name, _, argument = (message.content or "echo").partition(" ")
    result = await PLAYS[name](json.loads(argument) if argument else None)
    reply = ChatMessage.assistant_message(content=json.dumps(result, sort_keys=True))
    return reply, [*state, message, reply]


async def echo(value: Any) -> Any:
    return value


async def ask(payload: dict[str, Any]) -> Any:
    return await interrupt(payload)


async def ask_with(arguments: dict[str, Any]) -> Any:
    return await interrupt(arguments.pop("payload"), **arguments)


async def ask_all(payloads: list[dict[str, Any]]) -> Any:
    return await asyncio.gather(*(interrupt(payload) for payload in payloads))


async def ask_in_turn(payloads: list[dict[str, Any]]) -> Any:
    return [await interrupt(payload) for payload in payloads]


async def ask_whoever_is_first(payloads: list[dict[str, Any]]) -> Any:
    """The first answer counts, the other questions are withdrawn."""
    tasks = [asyncio.ensure_future(interrupt(payload)) for payload in payloads]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return done.pop().result()


async def ask_and_hold(argument: dict[str, Any]) -> Any:
    """A question and work at the same time."""
    return await asyncio.gather(interrupt(argument["payload"]), hold(argument["gate"]))


async def ask_beside_a_timer(argument: dict[str, Any]) -> Any:
    """A timer of so many seconds, and meanwhile the questions."""
    sleeping = asyncio.ensure_future(asyncio.sleep(float(argument["seconds"])))
    async with asyncio.timeout(float(argument["seconds"])):
        answers = [await interrupt(payload) for payload in argument["payloads"]]
    sleeping.cancel()
    return answers


async def effect_then_ask(argument: dict[str, Any]) -> Any:
    """A side effect, and only then the questions."""
    with Path(argument["ledger"]).open("a") as ledger:
        ledger.write("effect\n")
    return [await interrupt(payload) for payload in argument["payloads"]]


async def transfer_by_hand(argument: dict[str, Any]) -> Any:
    """A loop that is not ours asks for itself, and runs what was approved."""
    try:
        approved = await hitl.approval("transfer", {"cents": argument["cents"]}, args_schema=_TRANSFER_SCHEMA)
    except ToolRejected as no:
        return str(no)
    return await hitl.step(_write, argument["ledger"], f"transferred {approved.args['cents']}")


async def transfer_approved_by(approvers: list[str]) -> Any:
    """Some people alone may say yes; whoever may answer where there are none."""
    approved = await hitl.approval("transfer", {"cents": 1}, approvers=approvers or None)
    return approved.args


async def transfer_from(argument: dict[str, Any]) -> Any:
    """A tool from elsewhere, of which the code says something."""
    try:
        return (await hitl.approval("transfer", {"cents": 1}, **argument)).args
    except ToolRejected as no:
        return str(no)


async def transfer_gated(argument: dict[str, Any]) -> Any:
    """The same by a gated function."""
    try:
        return await _transfer()(**argument)
    except ToolRejected as no:
        return str(no)


_TRANSFER_SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


def _transfer() -> Callable[..., Awaitable[str]]:
    """The gated function, made by who calls it: its schema would be the only one at the import."""

    @hitl.requires_approval(name="transfer")
    async def transfer(ledger: str, cents: int) -> str:
        return _write(ledger, f"transferred {cents}")

    return transfer


async def launch(trace: str) -> Any:
    """Bob alone may say yes; the process dies the first time."""

    @hitl.requires_approval(name="launch", approvers=["bob"])
    async def launch(trace: str) -> str:
        if not Path(trace).exists():
            Path(trace).touch()
            os._exit(3)
        return "launched"

    return await launch(trace)


def _write(ledger: str, text: str) -> str:
    with Path(ledger).open("a") as lines:
        lines.write(f"{text}\n")
    return text


async def fail(text: str) -> Any:
    raise ValueError(text)


async def fail_after_asking(payload: dict[str, Any]) -> Any:
    raise ValueError(f"answered {await interrupt(payload)}")


async def hold(port: int) -> Any:
    """Be at work until the test's `Gate` on that port lets go; returns what it says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


async def hold_stubbornly(port: int) -> Any:
    """The same, and cancelling it does not help."""
    while True:
        try:
            return await hold(port)
        except asyncio.CancelledError:
            continue


async def crash(how: str) -> Any:
    match how:
        case "segmentation fault":
            ctypes.string_at(0)
        case "os._exit":
            os._exit(3)
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "SystemExit":
            sys.exit(4)


async def environment(_: None) -> dict[str, str]:
    return dict(os.environ)


async def process(_: None) -> int:
    return os.getpid()


async def ask_at_the_terminal(_: None) -> bool:
    """A program asks there, as ssh does for a password: whether it could."""

    def program() -> bool:
        return subprocess.run(["sh", "-c", "head -c1 </dev/tty"], capture_output=True, check=False).returncode == 0

    return await hitl.step(program)


async def say(text: str) -> str:
    """Text on both outputs, the second without an end of line."""
    print(f"{text} on stdout")
    print(f"{text} on stderr", end="", file=sys.stderr)
    return text


async def ask_badly(what: str) -> dict[str, Any]:
    """A payload that cannot be asked, and what `interrupt()` says about it. A valid one of the limit is asked."""
    try:
        return {"answer": await interrupt(BAD_PAYLOADS[what]())}
    except (TypeError, ValueError) as error:
        return {"type": type(error).__name__, "bases": [c.__name__ for c in type(error).__mro__], "message": str(error)}


def payload_of(size: int) -> dict[str, Any]:
    """A payload that takes `size` bytes as compact JSON; most characters take two, so that bytes are what counts."""
    payload = {"type": "big", "text": ""}
    room = size - len(json.dumps(payload, separators=(",", ":")))
    payload["text"] = "é" * (room // 2) + "x" * (room % 2)
    return payload


def _cycle() -> dict[str, Any]:
    payload: dict[str, Any] = {"type": "cycle"}
    payload["self"] = payload
    return payload


LARGEST_PAYLOAD = 16_384

BAD_PAYLOADS: dict[str, Callable[[], Any]] = {
    "a list": lambda: ["type", "no dict"],
    "a string": lambda: "no dict",
    "None": lambda: None,
    "a type that is no string": lambda: {"type": 7},
    "a type that is null": lambda: {"type": None},
    "NaN": lambda: {"type": "number", "value": float("nan")},
    "infinity": lambda: {"type": "number", "value": [float("inf")]},
    "bytes": lambda: {"type": "bytes", "value": b"raw"},
    "a set": lambda: {"type": "set", "value": {1}},
    "an object": lambda: {"type": "object", "value": object()},
    "a key that is no string": lambda: {"type": "key", "value": {1: "one"}},
    "a lone surrogate": lambda: {"type": "text", "value": "\ud800"},
    "a cycle": _cycle,
    "one byte too large": lambda: payload_of(LARGEST_PAYLOAD + 1),
    "as large as may be": lambda: payload_of(LARGEST_PAYLOAD),
}

PLAYS: dict[str, Play] = {
    play.__name__: play
    for play in (
        echo,
        ask,
        ask_with,
        ask_all,
        ask_in_turn,
        ask_whoever_is_first,
        ask_and_hold,
        ask_beside_a_timer,
        effect_then_ask,
        transfer_by_hand,
        transfer_approved_by,
        transfer_from,
        transfer_gated,
        launch,
        fail,
        fail_after_asking,
        hold,
        hold_stubbornly,
        crash,
        environment,
        process,
        ask_at_the_terminal,
        say,
        ask_badly,
    )
}


async def wrong_result(message: ChatMessage, state: list[ChatMessage]) -> Any:
    """Not what an agent must return; the message says how. Or a question first."""
    if message.content == "ask":
        message.content = await interrupt({"type": "question"})
    called = ChatMessage.assistant_message(
        tool_calls=[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    )
    assert called.tool_calls is not None
    called.tool_calls[0]["function"]["arguments"] = {"a": 1}  # type: ignore[typeddict-item]  # that is wrong
    return {
        "right": (message, []),
        "call": (called, []),
        "call in the state": (message, [message, called]),
        "none": None,
        "text": "just text",
        "one": (message,),
        "three": (message, state, 1),
        "response": ("text", state),
        "state": (message, "text"),
        "entry": (message, ["text"]),
    }[message.content or ""]


def synchronous(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """A plain function: runs in a thread and asks with the synchronous twin."""
    answer = interrupt.sync({"type": "question", "prompt": message.content})
    reply = ChatMessage.assistant_message(content=json.dumps(answer))
    return reply, [*state, message, reply]
