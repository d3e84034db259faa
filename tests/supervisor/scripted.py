"""Workers without an agent: they say over the channel what the message tells them to.

Importing this module puts them in the place of those that the zygote would fork.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

import __main__

DAEMON = """
trap "" PIPE
for _ in $(seq 3000); do
  echo there || { rm "$1"; break; }
  sleep 0.05
done
"""
"""Prints for as long as somebody reads, some minutes at most, and removes a file when nobody does."""


async def agent(message: Any, state: Any) -> Any:
    raise AssertionError("no turn gets this far")


class Script:
    def __init__(self, channel: int, code: str) -> None:
        self._channel = channel
        self._code = code
        self._calls = 0
        self._pings: dict[str, int] = {}
        self._stubborn: set[str] = set()
        self._endless: set[str] = set()
        """Turns that take for ever to leave."""
        self._zombies: set[str] = set()
        """Turns that have a step for each ping."""

    def run(self) -> None:
        about = {"pid": os.getpid(), "python": _python(), "library": "0", "code": self._code}
        self._say({"frame": "hello", "protocol": 3, **about})
        while True:
            frame = json.loads(self._read(int.from_bytes(self._read(4), "big")))
            getattr(self, f"_{frame['frame']}", lambda frame: None)(frame)

    def _turn(self, frame: dict[str, Any]) -> None:
        turn = frame["turn"]
        action, *arguments = frame["message"]["content"].split()
        if action == "echo":
            self._end(turn, " ".join(arguments))
        elif action == "pid":
            self._end(turn, str(os.getpid()))
        else:
            if "holding" in action:
                self._say({"frame": "opened"})
            self._step(turn)
        if action == "zombie" and len(frame["journal"]) == 1:
            self._zombies.add(turn)
        if action == "pings":
            self._pings[turn] = int(arguments[0])
        if action.endswith("stubborn"):
            self._stubborn.add(turn)
        if action.endswith("endless"):
            self._endless.add(turn)
        if action == "overtaken":
            self._ask(turn)
        if action == "drop":
            self._say({"frame": "cancelled", "turn": turn, "left": 0})
        if action == "daemon":
            subprocess.Popen(["sh", "-c", DAEMON, "daemon", *arguments], start_new_session=True)
            self._end(turn, "started")
        if action.startswith("wait"):
            self._say({"frame": "waiting", "turn": turn, "seen": 0, "timers": []})
        if action.endswith("hang"):
            time.sleep(1e9)

    def _ping(self, frame: dict[str, Any]) -> None:
        self._say({"frame": "pong"})
        for turn in self._zombies:
            self._step(turn)
        for turn in list(self._pings):
            self._pings[turn] -= 1
            if self._pings[turn] == 0:
                del self._pings[turn]
                self._end(turn, "enough")

    def _park(self, frame: dict[str, Any]) -> None:
        print(f"{os.getpid()} was told to leave", flush=True)
        if frame["turn"] in self._endless:
            time.sleep(1e9)
        self._say({"frame": "parked", "turn": frame["turn"], "left": int(frame["turn"] in self._stubborn)})

    def _cancel(self, frame: dict[str, Any]) -> None:
        self._say({"frame": "cancelled", "turn": frame["turn"], "left": 0})

    def _answer(self, frame: dict[str, Any]) -> None:
        """It was on its way when the turn said that it waits."""
        self._say({"frame": "waiting", "turn": frame["turn"], "seen": frame["index"] - 1, "timers": []})
        time.sleep(1e9)

    def _ask(self, turn: str) -> None:
        step = {"path": "0~q", "kind": "interrupt", "name": "q", "arguments": {}}
        interrupt = {"type": "q", "payload": {"type": "q"}}
        self._call({"frame": "ask", "turn": turn, "step": step, "interrupt": interrupt})

    def _step(self, turn: str) -> None:
        step = {"path": f"0#{self._calls}", "kind": "step", "name": "pid", "arguments": {}}
        self._call({"frame": "step", "turn": turn, "step": step, "result": {"value": str(os.getpid())}})

    def _end(self, turn: str, content: str) -> None:
        result = {"response": {"role": "assistant", "content": content}, "state": []}
        self._call({"frame": "end", "turn": turn, "result": result})

    def _call(self, frame: dict[str, Any]) -> None:
        self._calls += 1
        self._say({**frame, "call": self._calls})

    def _say(self, frame: dict[str, Any]) -> None:
        body = json.dumps(frame).encode()
        os.write(self._channel, len(body).to_bytes(4, "big") + body)

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = os.read(self._channel, length - len(data))
            if not piece:
                os._exit(0)
            data += piece
        return data


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _run(channel: int, agent: Any, mode: str, code: str, loop: Any, mark_open: Any) -> None:
    os.set_blocking(channel, True)
    Script(channel, code).run()


__main__.run_child = _run
