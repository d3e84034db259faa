"""What the chat clients have in common that stand on a provider's own package.

Time-outs are that package's own (`timeout`), retries are ours: a try that fails is recorded, and the pause is a timer.
"""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from json import JSONDecodeError
from typing import Any, ClassVar, Generic, TypeVar

from hitl.errors import HitlError
from hitl.models.chat_client import Delta, ModelReply, ModelRequest
from hitl.models.recording import DEFAULT_RETRIES, ask_in_place, record_model_call, turn_to_record_in
from hitl.turn.places import place_var
from hitl.turn.retrying import Transient, check_retries, is_transient, try_var
from hitl.turn.watching import outgoing_headers

_EXCERPT = 80
"""Characters that are shown of what is no reply."""

Connection = TypeVar("Connection")
"""The package's own asynchronous client."""


class ModelNotConfigured(HitlError):
    """A chat client lacks its library, its key or its model."""

    code = "model_not_configured"
    says_all = True


class ProviderClient(Generic[Connection]):
    """A chat client on a provider's own package.

    Nothing is imported, built or connected before the first request (or `prepare()`).
    """

    provider: ClassVar[str]
    """What traces call whoever is asked (`gen_ai.provider.name`)."""
    _package: ClassVar[str]
    """The package, and the extra that brings it."""
    _key_variables: ClassVar[tuple[str, ...]]
    """Where a key is looked for, the first of which is named to those who have none."""
    _credentials: ClassVar[frozenset[str]]
    """Options of the package by which somebody shows who he is without a key."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        stream: bool = True,
        retries: int | None = None,
        transient: Transient = "suspend",
        **client_options: Any,
    ):
        """
        Args:
            api_key: The key; by default that of the environment.
            base_url: Where the API is; by default as the package has it.
            parameters: Members of every request, as the provider spells them: `{"temperature": 0}`. Those of a
                request's own `settings` win.
            stream: Whether to stream; False for servers that cannot.
            retries: How often a request is made again after an error that may pass (see `is_transient`), with growing
                pauses, or those of `Retry-After`; 2 by default. `max_retries`, the package's word, is the same.
            transient: What becomes of such an error when all tries are used up: "suspend" keeps the turn until it is
                retried, "raise" tells the agent.
            **client_options: As for the package's client: `timeout` (seconds), `default_headers`, ...
        """
        # Looked for, not imported: importing takes most of a second, and an agent may never need it.
        if find_spec(self._package) is None:
            raise ModelNotConfigured(
                f"{type(self).__name__} needs the {self._package} package\n\n"
                f"hint: pip install 'hitl-runtime[{self._package}]'"
            )
        most = client_options.pop("max_retries", None)
        check_retries(type(self).__name__, most if retries is None else retries, transient)
        self.retries: int = next(number for number in (retries, most, DEFAULT_RETRIES) if number is not None)
        self.transient = transient
        self._api_key = api_key
        self._base_url = base_url
        self._parameters = dict(parameters or {})
        self._stream = stream
        self._client_options = dict(client_options)
        # Connections belong to an event loop, so each loop has a client of its own.
        self._clients: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._owner = os.getpid()
        self._spare: list[Connection] = []
        """One at most. A list, because taking from it is one step: two threads must not get the same."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._base_url!r})"  # never the key

    def prepare(self) -> None:
        """Import what a request needs, and build (not connect) the first client, so that forked workers have it."""
        self._import()
        with suppress(ImportError):  # a detail of anyio's: without it the first request is some 20 ms slower
            import_module("anyio._backends._asyncio")
        if self._find_key() and not self._spare:
            self._spare.append(self._build())

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the model; raises the package's errors (after the retries), `IncompleteReply`, `ModelNotConfigured`.

        Inside a turn the call is a step of it: a replay gets the recorded reply, and `on_delta` is not called again.
        """
        turn = turn_to_record_in()
        if turn is not None:
            return await record_model_call(turn, self, self._complete, request)
        if place_var.get() is not None or try_var.get() is not None:  # whoever made a step of it tries again
            return await self._complete(request)
        return await ask_in_place(self, self._complete, request)

    def is_transient(self, error: Exception) -> bool | float:
        """Whether an error of `complete` may pass by itself: no connection, a time-out, the status 408, 409, 429 or
        5xx, an overloaded model. A number: yes, but not before that many seconds."""
        asked = getattr(getattr(error, "response", None), "headers", {}).get("x-should-retry")
        if asked == "false":
            return False
        if self._is_passing_in_stream(error):
            return True
        verdict = is_transient(error)
        return True if verdict is False and asked == "true" else verdict

    async def aclose(self) -> None:
        """Close the connections this event loop has; the client stays usable."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close(client)

    # -- what each of them has of its own ----------------------------------------------------------------------------

    @abstractmethod
    async def _complete(self, request: ModelRequest) -> ModelReply:
        """One request, with no tries of its own."""

    @abstractmethod
    def _import(self) -> None:
        """Import what the package, and its HTTP library, would import lazily, anew in every forked worker."""

    @abstractmethod
    def _make(self, options: dict[str, Any]) -> Connection:
        """The package's client, which does not try again."""

    @abstractmethod
    async def _close(self, client: Connection) -> None: ...

    @abstractmethod
    def _is_passing_in_stream(self, error: Exception) -> bool:
        """Whether it was said in the middle of a stream, where there is no status, and may pass."""

    # -- connections -------------------------------------------------------------------------------------------------

    def _client(self) -> Connection:
        if os.getpid() != self._owner:
            # Forked: sockets of the parent are not ours to use or to close. A spare has none.
            self._clients, self._owner = {}, os.getpid()
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for dead in [known for known in tuple(self._clients) if known.is_closed()]:
                self._clients.pop(dead, None)
            with suppress(IndexError):  # no spare, or another thread's loop has just taken it
                client = self._spare.pop()
            client = self._clients[loop] = client or self._build()
        return client

    def _build(self) -> Connection:
        key = self._find_key()
        if not key and not self._brings_credentials():
            raise ModelNotConfigured(
                f"{type(self).__name__} has no API key\n\n"
                f"hint: set {self._key_variables[0]}, or pass {type(self).__name__}(api_key=...)"
            )
        options = dict(self._client_options)
        if key:
            options["api_key"] = key
        if self._base_url is not None:
            options["base_url"] = self._base_url
        return self._make(options)

    def _find_key(self) -> str | None:
        if self._api_key:
            return self._api_key
        return next((value for name in self._key_variables if (value := os.environ.get(name))), None)

    def _brings_credentials(self) -> bool:
        return bool(self._client_options.keys() & self._credentials)


def traced() -> dict[str, Any]:
    """Members of a call of a package, so that its request says of whose trace it is; none where nobody traces."""
    headers = outgoing_headers()
    return {"extra_headers": headers} if headers else {}


@contextmanager
def reading(what: str = "reply") -> Iterator[None]:
    """In this block something that a model's server has sent is taken apart: `IncompleteReply` where it is not of the
    API's form, whatever is wrong with it."""
    try:
        yield
    except HitlError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _unreadable(what, error) from error


def _unreadable(what: str, error: Exception) -> HitlError:
    # Late: see prepare().
    from hitl.models.replies import IncompleteReply

    return IncompleteReply(f"the model's {what} cannot be read: {type(error).__name__}: {error}")


async def read_whole(asked: Awaitable[Any], add: Callable[[dict[str, Any]], object]) -> None:
    """Hand a response that a package does not stream on, as a dictionary; `IncompleteReply` for one that is none."""
    try:
        response = await asked
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise _unreadable("reply", error) from error
    with reading():
        add(_plain(response))


async def read_stream(
    stream: Any, add: Callable[[dict[str, Any]], list[Delta]], on_delta: Callable[[Delta], None] | None
) -> None:
    """Hand every event of a package's stream on, as a dictionary, and what is new for a reader to the reader;
    `IncompleteReply` where one is none."""
    events = aiter(stream)
    while True:
        try:
            event = await anext(events)
        except StopAsyncIteration:
            return
        except (JSONDecodeError, UnicodeDecodeError) as error:
            raise _unreadable("stream", error) from error
        with reading("stream"):
            deltas = add(_plain(event))
        if on_delta is not None:
            for delta in deltas:
                on_delta(delta)


def _plain(model: Any) -> dict[str, Any]:
    """A response of a package as dictionaries, with the members it has no field for."""
    if not hasattr(model, "to_dict"):  # what is no JSON object the packages hand on as it is
        # Late: see prepare().
        from hitl.models.replies import IncompleteReply

        text = str(model)
        excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
        raise IncompleteReply(
            f"the model's server sent no JSON object, but {excerpt!r}\n\nhint: see whether base_url is where its API is"
        )
    members: dict[str, Any] = model.to_dict(warnings=False)
    return members


def together(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a request's body, the later winning; objects are put together member by member, and so are the tools:
    those that a provider runs itself stand beside the agent's own."""
    whole: dict[str, Any] = {}
    for body in bodies:
        for name, value in body.items():
            known = whole.get(name)
            if isinstance(known, Mapping) and isinstance(value, Mapping):
                whole[name] = {**known, **value}
            elif name == "tools" and isinstance(known, list) and isinstance(value, list):
                whole[name] = [*known, *value]
            else:
                whole[name] = value
    return whole
