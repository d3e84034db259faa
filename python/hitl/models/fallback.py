"""Several models that stand in for each other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hitl.models.chat_client import ChatClient, ModelReply, ModelRequest
from hitl.models.recording import (
    DEFAULT_RETRIES,
    ask_in_place,
    record_model_call,
    retries_of,
    turn_to_record_in,
)
from hitl.turn.callables import is_async
from hitl.turn.retrying import Transient, check_retries, try_var

logger = logging.getLogger("hitl.models")

# A key or an account that is not taken, a model that is gone: said of this provider, not of the request.
_ELSEWHERE = frozenset({401, 402, 403, 404})


class FallbackChatClient:
    """Asks the first model, and where that fails the next at once; after the last, the first again, after a pause.

    Each model that is asked is a try of its own in the journal, and a replay asks none again. What a model said before
    it broke off is taken back when the next one speaks, as after any other try. The reply's `model` is the model that
    gave it, where that is not the first.

    Example:
        either = FallbackChatClient([OpenAIResponsesClient(), (AnthropicChatClient(), "claude-opus-5-5")])
        agent = ReActAgent(client=either, model_name="gpt-5")
    """

    def __init__(
        self,
        models: Sequence[ChatClient | tuple[ChatClient, str]],
        *,
        falls_back_on: Callable[[Exception], bool] | None = None,
        retries: int = DEFAULT_RETRIES,
        transient: Transient = "suspend",
    ):
        """
        Args:
            models: Chat clients, each with the name of its model, in the order in which they are asked; at least two.
                A client alone stands for its `default_model`. The first is asked for the model that the agent names,
                where it names one (`model_name`, `HITL_MODEL`); all others keep theirs.
            falls_back_on: Whether an error of one model leads on to the next. By default: what may pass by itself, as
                the client says, and the status 401, 402, 403 and 404, of a key, an account or a model that is gone. A
                request that the provider calls wrong (400, 413, 422) does not, since it is as wrong elsewhere.
            retries: How often all of them are asked again, after a pause, when every one has failed so.
            transient: What becomes of the last error then, as for the other clients.

        `retries` and `transient` of the single clients count for nothing here. Raises `TypeError` for what is no chat
        client and `ValueError` for fewer than two or one that has no model's name.
        """
        check_retries("FallbackChatClient", retries, transient)
        self._models = [_read(index, given) for index, given in enumerate(models)]
        if len(self._models) < 2:
            raise ValueError(f"FallbackChatClient takes two models or more, got {len(self._models)}")
        if falls_back_on is not None and not callable(falls_back_on):
            raise TypeError(f"FallbackChatClient: falls_back_on must be a function of an error, got {falls_back_on!r}")
        if falls_back_on is not None and is_async(falls_back_on):
            # A coroutine is true, whatever it would come to.
            raise TypeError("FallbackChatClient: falls_back_on must be a plain function of an error, got an async one")
        self._falls_back_on = falls_back_on
        self.retries = retries
        self.transient = transient
        self.models_in_turn = len(self._models)
        """How many tries one round of all models is."""
        self.default_model = self._models[0][1]
        """The first model's name, for agents that name none."""

    def __repr__(self) -> str:
        return f"FallbackChatClient({', '.join(name or 'the model asked for' for _, name in self._models)})"

    def prepare(self) -> None:
        """Prepare every client that can be."""
        for client, _ in self._models:
            prepare = getattr(client, "prepare", None)
            if prepare is not None:
                prepare()

    async def aclose(self) -> None:
        """Close the connections that this event loop has."""
        for client, _ in self._models:
            close = getattr(client, "aclose", None)
            if close is not None:
                await close()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask one model after the other; raises what the last one raised, after the retries.

        Inside a turn the call is a step of it: a replay gets the recorded reply, and `on_delta` is not called again.
        """
        turn = turn_to_record_in()
        if turn is not None:
            return await record_model_call(turn, self, self._complete, request)
        current = try_var.get()
        if current is not None and current.asked is self:  # whoever made a step of it asks the next one
            return await self._complete(request)
        return await ask_in_place(self, self._complete, request)

    def is_transient(self, error: Exception) -> bool | float:
        """Whether what this try raised leads on: at once (0.0) to the next model, after the last one to the first again
        (True). What the last one asks for with `Retry-After` is not waited for: it is the first that comes next."""
        index = self._index()
        client, name = self._models[index]
        if not self._leads_on(client, error):
            return False
        if index + 1 == len(self._models):
            return True
        following = self._models[index + 1][1]
        logger.warning("model %s failed with %s: %s is asked", name or "asked for", type(error).__name__, following)
        return 0.0

    async def _complete(self, request: ModelRequest) -> ModelReply:
        index = self._index()
        client, name = self._models[index]
        if index == 0 or name is None:
            return await client.complete(request)
        reply = await client.complete(replace(request, model=name))
        return replace(reply, model=reply.model or name)

    def _index(self) -> int:
        """Whose turn it is. The number of the try says so, which a replay finds again."""
        current = try_var.get()
        return 0 if current is None or current.asked is not self else current.number % len(self._models)

    def _leads_on(self, client: ChatClient, error: Exception) -> bool:
        if self._falls_back_on is not None:
            return bool(self._falls_back_on(error))
        return retries_of(client).verdict(error) is not False or getattr(error, "status_code", None) in _ELSEWHERE


def _read(index: int, given: Any) -> tuple[ChatClient, str | None]:
    """A client and its model's name; None for the first where the agent has to name it."""
    where = f"FallbackChatClient: models[{index}]"
    client, name = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if not callable(getattr(client, "complete", None)):
        raise TypeError(f"{where} must be a chat client or (chat client, model name), got {given!r}")
    if isinstance(client, FallbackChatClient):
        raise TypeError(f"{where} is a FallbackChatClient itself\n\nhint: list its models in this one")
    name = name if name is not None else getattr(client, "default_model", None)
    if name is not None and not (isinstance(name, str) and name):
        raise TypeError(f"{where}: the model's name must be a str, got {name!r}")
    if name is None and index > 0:
        raise ValueError(f"{where} names no model\n\nhint: ({type(client).__name__}(...), 'name-of-the-model')")
    return client, name
