"""An agent in a FastAPI application, with a page of one's own that shows what waits and takes the answers.

    pip install fastapi uvicorn python-multipart
    uvicorn examples.fastapi_app:app

Open http://127.0.0.1:8000 and say `delete the old logs file`, then `help me organize my downloads` in another
conversation. No server of hitl is involved: `hitl.run` runs the agent of `hitl.examples.file_agent` in the application,
and a store keeps what waits. Kill it with `kill -9` and start it again: the questions are still there, and what was at
work goes on.

`APP_DATA` (`app_data`) is where both files are. There is no login here: put yours in front of both POSTs.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

import hitl
from hitl.examples.file_agent import agent

DATA = Path(os.environ.get("APP_DATA") or "app_data")


class Conversations:
    """What the application knows itself: names, whether a turn is open, and what the agent said last."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("create table if not exists conversations (name text primary key, open int, reply text)")

    def note(self, name: str, *, is_open: bool, reply: str = "") -> None:
        """Write down how a conversation stands; before a run that it is open, so that none is forgotten in a crash."""
        self._database.execute("insert or replace into conversations values (?, ?, ?)", (name, is_open, reply))

    def all(self) -> list[tuple[str, bool, str]]:
        """Name, whether it is open, and the last reply."""
        return self._database.execute("select name, open, reply from conversations order by name").fetchall()


class Office:
    """The runs of the application. Those of one conversation go one after the other."""

    def __init__(self, store: hitl.Store, conversations: Conversations) -> None:
        self.store = store
        self.conversations = conversations
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def send(self, name: str, content: str) -> None:
        """Run a message until it is answered, or until somebody has to decide. Raises `RunInterrupted`."""
        async with self._locks[name]:
            if await self.state(name) is None:
                self.conversations.note(name, is_open=True)
            self._note(name, await hitl.run(agent, content, store=self.store, session=name))

    async def answer(self, name: str, interrupt_id: str, value: Any) -> None:
        """Answer one question and go on. Raises one of `NOT_OPEN` where it is not open, and `InvalidAnswer`."""
        async with self._locks[name]:
            if (state := await self.state(name)) is None:
                raise hitl.UnknownInterrupt(f"nothing waits in {name}")
            self._note(name, await hitl.run(agent, state.answer(interrupt_id, value)))

    async def go_on(self, name: str) -> None:
        """Take up what was at work when the application ended, or failed; what waits for people goes on waiting."""
        async with self._locks[name]:
            if (state := await self.state(name)) is not None:
                self._note(name, await hitl.run(agent, state))

    async def state(self, name: str) -> hitl.RunState | None:
        """The open turn of a conversation."""
        return await hitl.RunState.from_store(agent, self.store, name)

    def _note(self, name: str, result: hitl.RunResult) -> None:
        reply = f"it failed: {result.error}" if result.status == "error" else result.output or ""
        self.conversations.note(name, is_open=result.state is not None, reply=reply)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open the store, and take up what an application before this one has left."""
    conversations = Conversations(DATA / "conversations.db")
    async with hitl.Store(DATA / "runs.db") as store:
        office = app.state.office = Office(store, conversations)
        left = [asyncio.create_task(office.go_on(name)) for name, is_open, _ in office.conversations.all() if is_open]
        yield
        for task in left:
            task.cancel()  # a run that is cancelled stays open
        await asyncio.gather(*left, return_exceptions=True)


def office_of(request: Request) -> Office:
    """The office, for who calls from this page: another site must not answer for whoever has it open."""
    if request.method == "POST" and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(403, "this form is another site's")
    office: Office = request.app.state.office
    return office


app = FastAPI(lifespan=lifespan)
TheOffice = Annotated[Office, Depends(office_of)]
Text = Annotated[str, Form()]

NOT_OPEN = (
    hitl.UnknownInterrupt,
    hitl.NothingPending,
    hitl.AlreadyResolved,
    hitl.AlreadyResumed,
    hitl.InterruptExpired,
    hitl.InterruptCancelled,
)
"""What an answer to a question that is not open raises, and a run that somebody else has taken up."""


@app.get("/")
async def page(office: TheOffice) -> HTMLResponse:
    """Everything that waits, and a form for more."""
    parts = [PAGE]
    for name, is_open, reply in office.conversations.all():
        parts.append(f"<h2>{html.escape(name)}</h2><p>{html.escape(reply)}</p>")
        state = await office.state(name) if is_open else None
        if state is not None:
            # What failed in a way that may pass can be tried again: no step that has finished runs again.
            parts += [form(name, interrupt) for interrupt in state.interrupts] or [retry_form(name)]
    return HTMLResponse("".join(parts))


@app.post("/messages")
async def send(office: TheOffice, conversation: Text, content: Text) -> RedirectResponse:
    """Say something to the agent."""
    try:
        await office.send(conversation, content)
    except hitl.RunInterrupted:
        raise HTTPException(409, f"{conversation} waits for an answer first") from None
    return RedirectResponse("/", 303)


@app.post("/answers")
async def answer(request: Request, office: TheOffice, conversation: Text, interrupt: Text) -> RedirectResponse:
    """What a person says about one question: a decision, or what was chosen."""
    given = {name: str(text) for name, text in (await request.form()).items()}
    value: dict[str, Any]
    if "decision" in given:
        value = {"approved": given["decision"] == "yes", **({"reason": given["reason"]} if given.get("reason") else {})}
    else:
        value = {"answers": {name: text for name, text in given.items() if name not in ("conversation", "interrupt")}}
    try:
        await office.answer(conversation, interrupt, value)
    except NOT_OPEN:
        raise HTTPException(409, "this question is not open any more: it was answered, or its time is over") from None
    except hitl.InvalidAnswer as error:
        raise HTTPException(422, str(error)) from None
    return RedirectResponse("/", 303)


@app.post("/retries")
async def retry(office: TheOffice, conversation: Text) -> RedirectResponse:
    """Go on with a turn that failed."""
    with suppress(hitl.AlreadyResumed):  # somebody else said so too
        await office.go_on(conversation)
    return RedirectResponse("/", 303)


def form(conversation: str, interrupt: hitl.Interrupt) -> str:
    """What answers one question."""
    if interrupt.type == "tool_approval":
        shown = html.escape(json.dumps(interrupt.tool_args, indent=2))
        body = f"<b>{html.escape(interrupt.tool_name or '')}</b><pre>{shown}</pre>{DECIDE}"
    else:
        body = "".join(map(question, interrupt.payload["questions"])) + "<button>Answer</button>"
    given = {"conversation": conversation, "interrupt": interrupt.id}
    return f'<form method="post" action="/answers">{hidden(given)}{body}</form>'


def retry_form(conversation: str) -> str:
    """What tries a turn again."""
    return (
        f'<form method="post" action="/retries">{hidden({"conversation": conversation})}<button>Go on</button></form>'
    )


def hidden(given: dict[str, str]) -> str:
    """What a form says besides."""
    return "".join(f'<input type="hidden" name="{name}" value="{html.escape(v)}">' for name, v in given.items())


def question(asked: dict[str, Any]) -> str:
    """One question of the model: its options, or whatever else somebody wants to say."""
    name = html.escape(asked["question"])
    labels = html.escape(", ".join(option["label"] for option in asked["options"]))
    return f'<p>{name}<br><input name="{name}" required> {labels}, or anything else</p>'


DECIDE = """<button name="decision" value="yes">Run it</button> <input name="reason" placeholder="why not">
<button name="decision" value="no">No</button>"""
PAGE = """<!doctype html><meta charset="utf-8"><title>What waits</title>
<style>body{font:1rem system-ui;max-width:40rem;margin:2rem auto}form{border:1px solid;padding:1rem}</style>
<h1>What waits</h1><form method="post" action="/messages"><input name="conversation" value="files" required>
<input name="content" placeholder="delete the old logs file" required><button>Send</button></form>"""
