"""A model call as a step: what a model said once is what it said, in every replay of the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from hitl.errors import TransientError
from hitl.messages import ChatMessage
from hitl.models.chat_client import Delta, ModelReply, ModelRequest
from hitl.strict_json import sendable
from hitl.turn.places import place_var
from hitl.turn.retrying import Judge, Retries, Transient, is_transient, run, run_in_place
from hitl.turn.runtime import Turn, turn_of

DEFAULT_RETRIES = 2
"""How often a model is asked again after errors that may pass, where nobody says."""

_COUNTED = ("input_tokens", "output_tokens", "total_tokens")
"""Members of a usage that limits count by."""

CUT = ("length", "content_filter")
"""The reasons for which a reply ends that is no whole one."""


async def record_model_call(
    turn: Turn,
    client: object,
    complete: Callable[[ModelRequest], Awaitable[ModelReply]],
    request: ModelRequest,
    *,
    retries: int | None = None,
    transient: Transient | None = None,
) -> ModelReply:
    """Ask a model in a step of kind ``model``, by ``complete`` of ``client``; TypeError when that returns something
    else than an assistant's reply. ``retries`` and ``transient``: None for the client's own."""

    async def body() -> dict[str, Any]:
        if turn.watcher is not None and (scope := turn.current_step) is not None:
            turn.watcher.model_asked(scope, client, request)
        reply = await complete(request)
        if type(reply) is not ModelReply or reply.message.role != "assistant":
            raise TypeError(f"{type(client).__name__}.complete() must return a ModelReply with an assistant message")
        _check(f"{type(client).__name__}.complete()", reply)
        return {
            "message": sendable(reply.message.to_dict()),
            "usage": dict(reply.usage),
            "finish_reason": reply.finish_reason,
            # Left out where it is the model that was asked, as in the journals of releases that knew no other.
            **({} if reply.model is None else {"model": reply.model}),
            **({"cut": True} if reply.finish_reason in CUT else {}),
        }

    recorded = await run(
        turn,
        retries_of(client, retries, transient),
        "model",
        request.model,
        body,
        arguments={
            "messages": [message.to_dict() for message in request.messages],
            "tools": request.tools,
            "response_format": None if request.response_format is None else request.response_format.schema,
            # Left out where there are none, as in the journals of releases that had none.
            **({"settings": request.settings} if request.settings else {}),
        },
    )
    finish = recorded["finish_reason"]
    if finish in CUT and "cut" not in recorded:
        finish = None  # the record of a release that took such a reply for a whole one, and went on with it
    if turn.current_step is None:
        turn.finish_reason = finish
    message = ChatMessage.from_dict(recorded["message"])
    return ModelReply(message, recorded["usage"], finish, recorded.get("model"))


def _check(caller: str, reply: ModelReply) -> None:
    """TypeError for what would be found once the reply is recorded, and then in every replay of it."""
    for call in reply.message.tool_calls or []:
        given: Any = call
        function = given.get("function") if isinstance(given, dict) else None
        texts = (given.get("id"), function.get("name"), function.get("arguments")) if isinstance(function, dict) else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise TypeError(
                f"{caller} returned a tool call that is not {{'id': str, 'type': 'function', 'function': "
                f"{{'name': str, 'arguments': str}}}}: {given!r}"
            )
    usage: Any = reply.usage
    if not isinstance(usage, Mapping) or any(not isinstance(usage.get(name, 0), int | float) for name in _COUNTED):
        raise TypeError(f"{caller} returned a usage that is no dict of numbers: {usage!r}")


async def ask_in_place(
    client: object, ask: Callable[[ModelRequest], Awaitable[ModelReply]], request: ModelRequest
) -> ModelReply:
    """Ask a model where nothing is recorded, again after errors that may pass; the last is raised. Once a reader has a
    piece of the reply no more: another try would say it a second time."""
    on_delta, is_said = request.on_delta, False

    def say(delta: Delta) -> None:
        nonlocal is_said
        is_said = True
        assert on_delta is not None
        on_delta(delta)

    if on_delta is not None:
        request = replace(request, on_delta=say)
    retries = retries_of(client, transient="raise")
    judge = retries.judge
    return await run_in_place(replace(retries, judge=lambda error: not is_said and judge(error)), lambda: ask(request))


def retries_of(client: object, retries: int | None = None, transient: Transient | None = None) -> Retries:
    """How calls of a client are tried again; of one that does not tell, only a ``TransientError`` may pass."""
    own: Transient = getattr(client, "transient", "suspend")
    most = getattr(client, "retries", DEFAULT_RETRIES) if retries is None else retries
    judge: Judge = getattr(client, "is_transient", _is_transient_error)
    # Of a client that asks several models in turn, a try is one model, and what is asked again is all of them.
    models: int = getattr(client, "models_in_turn", 1)
    return Retries((most + 1) * models - 1, transient or own, judge, asked=client)


def _is_transient_error(error: Exception) -> bool | float:
    return isinstance(error, TransientError) and is_transient(error)


def turn_to_record_in() -> Turn | None:
    """The turn whose journal a model call made here belongs to; None outside of turns, and inside of a model step."""
    place = place_var.get()
    if place is None or (place.step is not None and place.step.kind == "model"):
        return None
    return turn_of(place)
