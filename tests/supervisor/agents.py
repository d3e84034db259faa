"""An agent that does whatever the message says, most of it bad."""

# ruff: noqa: ASYNC220, ASYNC251, RET503 - it misbehaves on purpose

import asyncio
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import hitl
from hitl.messages import ChatMessage
from hitl.turn.runtime import current_turn

imported_by = os.getpid()


def raw_channel() -> int:
    return current_turn().port._channel._socket.fileno()


def send_raw(body: bytes, length: int | None = None) -> None:
    data = (len(body) if length is None else length).to_bytes(4, "big") + body
    fd = raw_channel()
    os.set_blocking(fd, True)
    os.write(fd, data)


def say_now(frame: dict) -> None:
    """Say something before the loop has a chance to."""
    send_raw(json.dumps({**frame, "turn": current_turn().turn_id}).encode())


async def stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            print("not me", flush=True)


async def ask(kind: str):
    return await current_turn().ask(kind, {"type": kind})


def descriptors() -> list[str]:
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            names.append(str(entry.readlink()))
    return names


async def perform(action: str, *arguments: str):
    match action:
        case "echo":
            return " ".join(arguments)
        case "segfault":
            ctypes.string_at(0)
        case "os_exit":
            os._exit(7)
        case "system_exit":
            raise SystemExit(5)
        case "print":
            for number in range(int(arguments[0])):
                print("line", number)
            print("x" * 20_000)
            os.write(2, b"to stderr, unfinished")
        case "garbage":
            send_raw(b"this is no JSON")
            await asyncio.sleep(1e9)
        case "unknown_frame":
            send_raw(b'{"frame":"surprise"}')
            await asyncio.sleep(1e9)
        case "wrong_end":
            refused = asyncio.get_running_loop().create_future()
            current_turn().port.end({"response": {"role": "user", "content": 5}, "state": []}, refused.set_result)
            return str(await refused)
        case "wrong_waiting":
            say_now({"frame": "waiting", "timers": [{"path": "0#1", "due": 1e300}]})
            await asyncio.sleep(1e9)
        case "foreign_turn":
            send_raw(b'{"frame":"waiting","turn":"01890a5d-ac96-774b-bcce-b302099a8057"}')
            await asyncio.sleep(1e9)
        case "too_large":
            send_raw(b"", length=1 << 30)
            await asyncio.sleep(1e9)
        case "close_channel":
            os.close(raw_channel())
            await asyncio.sleep(1e9)
        case "block":
            say_now({"frame": "replayed", "warnings": ["from here on it blocks"]})
            time.sleep(1e9)
        case "sleep":
            await asyncio.sleep(1e9)
        case "stubborn":
            await stubborn()
        case "step":
            return await hitl.step(lambda text: text.upper(), *arguments)
        case "ask":
            return await ask(arguments[0])
        case "pid_and_ask":
            pid = await hitl.step(lambda: str(os.getpid()))
            return f"{pid} {await ask('color')}"
        case "pid_and_block":
            await hitl.step(lambda: str(os.getpid()))
            time.sleep(1e9)
        case "race":
            answers = asyncio.gather(*(ask(name) for name in arguments))
            return " ".join(await answers)
        case "pid":
            return str(os.getpid())
        case "descriptors":
            return "\n".join(sorted(descriptors()))
        case "environment":
            return " ".join(sorted(os.environ))
        case "subprocess":
            child = subprocess.Popen(["sleep", "1000000"], close_fds=False)
            return str(child.pid)
        case "subprocess_and_die":
            # In a session of its own it is not killed with the turn. It ends soon, but later than the test waits.
            os.set_inheritable(raw_channel(), True)
            subprocess.Popen(["sleep", "90"], close_fds=False, start_new_session=True)
            os._exit(9)
        case "deep":
            value = []
            for _ in range(90):
                value = (value,)
            await hitl.step(lambda: value)
        case "stdin":
            return repr(sys.stdin.read())
        case "forked":
            return str(os.getpid() != imported_by and os.getppid() == imported_by)
        case _:
            raise ValueError(f"unknown action {action}")


async def agent(message: ChatMessage, state: list[ChatMessage]):
    reply = ChatMessage.assistant_message(content=await perform(*(message.content or "echo").split()))
    return reply, [*state, message, reply]
