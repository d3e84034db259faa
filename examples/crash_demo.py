"""A server that is killed at each step of a conversation, and a conversation that ends well all the same.

    python -m examples.crash_demo

It serves the agent below as `hitl serve` does, orders a hat, and sends SIGKILL at the worst moment of every step, when
the thing has been done and nobody has been told, and while each question waits. Then it starts the server again. At the
end it shows what ran how often. It takes half a minute, and leaves nothing behind.

A step that has finished never runs again. One that was at work does, but for the charge: a person approved it, so it
is `once`, and what came of it is asked. The parcel is ordered twice and sent once, as the shop passes a key on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hitl import ReActAgent, RunContext, ask_user_question, tool
from hitl.examples.demo_model import DemoModel, Plan, error_of
from hitl.models import ModelReply, ModelRequest

if TYPE_CHECKING:
    from hitl.client import Interrupt

# --- the world, which remembers what was done to it -------------------------------------------------------------------

LEDGER = "CRASH_DEMO_LEDGER"
"""The variable that says where the world is."""


def written() -> list[str]:
    """What has happened, a line each."""
    ledger = Path(os.environ[LEDGER])
    return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []


def write(line: str) -> None:
    """Let something have happened."""
    with Path(os.environ[LEDGER]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def happen(name: str) -> None:
    """Do something to the world. The first time nobody is told of it: whoever waits for it will be killed."""
    is_first = f"ran {name}" not in written()
    write(f"ran {name}")
    if is_first:
        write(f"hangs in {name}")
        threading.Event().wait()


# --- the agent --------------------------------------------------------------------------------------------------------


@tool
def check_stock(item: str) -> int:
    """Count what is there."""
    happen("check_stock")
    return 7


@tool(requires_approval=True)
def charge(cents: int) -> str:
    """Take money."""
    happen("charge")
    return f"charged {cents}"


@tool
def ship(item: str, city: str, ctx: RunContext) -> str:
    """Have the warehouse send a parcel: one for each key."""
    write(f"parcel {ctx.idempotency_key}")
    happen("ship")
    return f"{item} is on its way to {city}"


WHERE = {
    "question": "Where to?",
    "header": "City",
    "options": [{"label": "Oslo", "description": "Home"}, {"label": "Rome", "description": "The office"}],
}


def order(request: str) -> Plan:
    """What a model would do: look, ask, charge, ship."""
    yield "check_stock", {"item": request}
    answers: dict[str, str] = yield "ask_user_question", {"questions": [WHERE]}
    charged = yield "charge", {"cents": 900}
    if error := error_of(charged):
        return f"I was told: {error}"
    shipped: str = yield "ship", {"item": request, "city": answers["Where to?"]}
    return f"{charged}; {shipped}"


class Model(DemoModel):
    """One that is asked over a network, so that its requests cost something as well."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """See `hitl.models.ChatClient`."""
        happen(f"request {1 + sum(message.role == 'assistant' for message in request.messages)}")
        return await super().complete(request)


agent = ReActAgent(Model([(".", order)]), "demo", "shop", tools=[check_stock, charge, ship, ask_user_question])

# --- who starts and kills it, and answers ---------------------------------------------------------------------------


class Crashing:
    """A conversation with a server that does not live long."""

    def __init__(self, folder: str) -> None:
        self._store = f"sqlite:{folder}/hitl.db"
        self.kills = 0
        self._seen: set[str] = set()
        self._start()

    def run(self, content: str) -> str:
        """Have a message answered; the reply."""
        session_id = self._client.create_session().session_id
        self._client.send_message(session_id, content)
        while True:
            if self._is_new(*(line for line in written() if line.startswith("hangs"))):
                self._kill()
            session = self._client.wait(session_id, 0.1)
            if session.status == "interrupted":
                (asked,) = session.interrupts
                if self._is_new(f"waits for {asked.type}"):
                    self._kill()
                self._client.answer(asked.interrupt_id, answer(asked))
            elif session.response is not None and session.status == "idle":
                return session.response.content or ""
            elif session.status == "error":
                raise RuntimeError(session.error)

    def stop(self) -> None:
        """End the server that lives now, as Ctrl-C would."""
        self._client.close()
        self._server.terminate()
        self._server.communicate()

    def _is_new(self, *places: str) -> bool:
        new = set(places) - self._seen
        self._seen |= new
        for place in new:
            print(f"kill -9 while it {place}")
        return bool(new)

    def _start(self) -> None:
        serve = f"hitl.serve('examples.crash_demo:agent', port=0, store={self._store!r}, log_level='error')"
        self._server = subprocess.Popen(
            [sys.executable, "-c", f"import hitl; {serve}"], stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if (found := re.search(r"http://\S+", line)) is None:
            raise RuntimeError(f"the server did not start: {line}")
        # Here, for the server imports this module as well, and needs no client.
        from hitl.client import Client

        self._client = Client(found[0])

    def _kill(self) -> None:
        self._client.close()
        self._server.kill()
        self._server.communicate()
        self.kills += 1
        self._start()


def answer(asked: Interrupt) -> object:
    """What a person says."""
    if asked.type == "user_input":
        return {"answers": {"Where to?": "Oslo"}}
    if asked.type == "unknown_outcome":  # the bank's books say so
        return {"outcome": "done", "result": "charged 900"} if "ran charge" in written() else {"outcome": "not_done"}
    return {"approved": True}


def table() -> tuple[str, bool]:
    """What ran how often, and whether that is as promised."""
    lines = written()
    ran = Counter(line.removeprefix("ran ") for line in lines if line.startswith("ran "))
    parcels = len({line for line in lines if line.startswith("parcel ")})
    promised = {name: 1 if name == "charge" else 2 for name in ran}
    notes = {"charge": "once: a person said what came of it", "ship": f"one key: {parcels} parcel"}
    rows = [f"{name:<12}  killed 1x  ran {count}x  {notes.get(name, '')}".rstrip() for name, count in ran.items()]
    return "\n".join(rows), ran == promised and parcels == 1


def main() -> None:
    """Run it in a folder that goes away, and fail where something ran more often than it may."""
    with TemporaryDirectory() as folder:
        os.environ[LEDGER] = f"{folder}/ledger"
        crashing = Crashing(folder)
        try:
            reply = crashing.run("a hat")
        finally:
            crashing.stop()
        rows, is_as_promised = table()
        print(f"\n{rows}\n\nThe server was killed {crashing.kills} times. The reply: {reply}")
        if not is_as_promised:
            sys.exit("error: a step ran more often than it may")


if __name__ == "__main__":
    main()
