"""What every chat client is asked, and by whom: in this process, and in one that was forked from it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from typing import Any, Protocol

from hitl.messages import ChatMessage
from hitl.models import ChatClient, Delta, ModelReply, ModelRequest


class Preparable(ChatClient, Protocol):
    """A client that is made ready before workers are forked."""

    def prepare(self) -> None: ...


def request(*messages: ChatMessage, deltas: list[Delta] | None = None, **fields: Any) -> ModelRequest:
    return ModelRequest(
        model=fields.pop("model", "test-model"),
        messages=list(messages) or [ChatMessage.user_message(content="hi")],
        on_delta=None if deltas is None else deltas.append,
        **fields,
    )


def check_hello(reply: ModelReply, deltas: list[Delta], *, streamed: bool) -> None:
    """What every client makes of a provider's words of the same: a greeting in three pieces, and what it cost."""
    assert reply.message == ChatMessage.assistant_message(content="Hello, wörld")
    assert reply.finish_reason == "stop"
    assert reply.usage == {
        "input_tokens": 11,
        "output_tokens": 7,
        "total_tokens": 18,
        "cached_tokens": 4,
        "reasoning_tokens": 2,
    }
    assert deltas == ([{"content": "Hello"}, {"content": ", wör"}, {"content": "ld"}] if streamed else [])


def prepare_without_a_thread(client: Preparable) -> None:
    """The zygote refuses to fork with threads."""
    before = threading.active_count()
    client.prepare()
    assert threading.active_count() == before


def ask_in_a_child(client: ChatClient) -> tuple[int, str | None]:
    """The process that was forked to ask, and what it was told."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(client, theirs))
    child.start()
    theirs.close()
    assert ours.poll(100)
    pid, said = ours.recv()
    child.join(100)
    ours.close()
    return pid, said


def _child(client: ChatClient, said: Any) -> None:
    async def once() -> str | None:
        return (await client.complete(request(deltas=[]))).message.content

    said.send((os.getpid(), asyncio.run(once())))
    said.close()
    os._exit(0)
