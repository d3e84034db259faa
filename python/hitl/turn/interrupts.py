"""``hitl.interrupt``: stop, ask a person anything, and go on with the answer.

>>> choice = await interrupt({"type": "color_picker", "prompt": "Pick"})      # doctest: +SKIP
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack, overload

from hitl import _core
from hitl.decisions import read_approvers
from hitl.errors import InterruptExpired, InvalidAnswer
from hitl.turn.naming import check_text
from hitl.turn.reasking import Reader
from hitl.turn.runtime import Turn, current_turn, location_of
from hitl.turn.unawaited import NOBODY_ASKED
from hitl.turn.undescribed import why_not

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
D = TypeVar("D")

UNKNOWN_TYPE: Final = "unknown"
"""The type of an interrupt whose payload has none."""


class _Raise:
    def __repr__(self) -> str:
        return "<raise InterruptExpired>"


RAISE: Final = _Raise()
"""The default of ``on_expire``: an interrupt that expires raises."""


class InterruptOptions(TypedDict, total=False):
    """The options of ``interrupt``, which explains them, but for those that say what comes back."""

    type: str | None
    key: str | None
    message: str | None
    expires_in: float | timedelta | None
    metadata: dict[str, Any] | None
    approvers: Iterable[str] | None


class _Interrupt:
    """``hitl.interrupt``; see ``__call__``."""

    @overload
    def __call__(
        self,
        payload: dict[str, Any],
        *,
        response_schema: TypeForm[T],
        on_expire: _Raise = ...,
        **options: Unpack[InterruptOptions],
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def __call__(
        self,
        payload: dict[str, Any],
        *,
        response_schema: TypeForm[T],
        on_expire: D,
        **options: Unpack[InterruptOptions],
    ) -> Coroutine[Any, Any, T | D]: ...
    @overload
    def __call__(
        self,
        payload: dict[str, Any],
        *,
        response_schema: dict[str, Any] | None = ...,
        on_expire: Any = ...,
        **options: Unpack[InterruptOptions],
    ) -> Coroutine[Any, Any, Any]: ...
    def __call__(
        self,
        payload: dict[str, Any],
        *,
        type: str | None = None,
        key: str | None = None,
        message: str | None = None,
        response_schema: Any = None,
        expires_in: float | timedelta | None = None,
        on_expire: Any = RAISE,
        metadata: dict[str, Any] | None = None,
        approvers: Iterable[str] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Ask a person and return the answer: any JSON value, falsy ones included.

        - ``payload``: a dict of JSON values, what the client shows; its ``type`` (or the argument ``type``, which wins)
          tells clients how. At most 16,384 bytes of compact JSON unless the server says otherwise.
        - ``message``: one line for notifications and lists.
        - ``response_schema``: what a valid answer is; a JSON Schema, or a pydantic model or any other type that
          pydantic knows: the answer then comes back as that type. Invalid answers are refused before they get here;
          one that only a validator of the type refuses, or that was given under an older schema, is asked for again,
          with the reason. Not for the types ``tool_approval`` and ``user_input`` (with questions), which bring theirs.
        - ``expires_in``: seconds (or a timedelta) until the question lapses; then ``on_expire`` is returned if it was
          given, else InterruptExpired is raised.
        - ``key``: names the question independently of its position in the code.
        - ``metadata``: a dict of JSON values, kept with the interrupt and not shown as part of the question.
        - ``approvers``: who alone may answer on a server: names of keys, and ``group:<name>``.

        Raises RuntimeError outside a hitl run, TypeError or ValueError for what cannot be asked. If the awaiting task
        is cancelled, the question is withdrawn.

        Example:
            stage = await interrupt({"type": "pick_stage"}, response_schema=Literal["staging", "production"])
            goes = await interrupt({"type": "confirm", "stage": stage}, expires_in=3600, on_expire=False)
        """
        turn = current_turn("interrupt()")
        frame = sys._getframe(1)
        who = read_approvers(approvers)
        rest = response_schema, expires_in, on_expire, metadata, who, frame, (mark := object())
        asks = _ask(turn, payload, type, key, message, *rest)
        return turn.unawaited.made(mark, asks, f"interrupt() at {location_of(frame)} {NOBODY_ASKED}")

    @overload
    def sync(
        self,
        payload: dict[str, Any],
        *,
        response_schema: TypeForm[T],
        on_expire: _Raise = ...,
        **options: Unpack[InterruptOptions],
    ) -> T: ...
    @overload
    def sync(
        self,
        payload: dict[str, Any],
        *,
        response_schema: TypeForm[T],
        on_expire: D,
        **options: Unpack[InterruptOptions],
    ) -> T | D: ...
    @overload
    def sync(
        self,
        payload: dict[str, Any],
        *,
        response_schema: dict[str, Any] | None = ...,
        on_expire: Any = ...,
        **options: Unpack[InterruptOptions],
    ) -> Any: ...
    def sync(
        self,
        payload: dict[str, Any],
        *,
        type: str | None = None,
        key: str | None = None,
        message: str | None = None,
        response_schema: Any = None,
        expires_in: float | timedelta | None = None,
        on_expire: Any = RAISE,
        metadata: dict[str, Any] | None = None,
        approvers: Iterable[str] | None = None,
    ) -> Any:
        """The same from a sync agent or a sync tool; blocks the calling thread, RuntimeError on an event loop's."""
        turn = current_turn("interrupt()")
        frame = sys._getframe(1)
        who = read_approvers(approvers)
        return turn.run_sync(
            "interrupt",
            lambda: _ask(
                turn, payload, type, key, message, response_schema, expires_in, on_expire, metadata, who, frame
            ),
        )


# What Python says of wrong arguments, it says of this name: users know no other.
_Interrupt.__call__.__qualname__, _Interrupt.sync.__qualname__ = "interrupt", "interrupt.sync"
interrupt = _Interrupt()


async def _ask(
    turn: Turn,
    payload: dict[str, Any],
    type: str | None,
    key: str | None,
    message: str | None,
    response_schema: Any,
    expires_in: float | timedelta | None,
    on_expire: Any,
    metadata: dict[str, Any] | None,
    approvers: tuple[str, ...],
    frame: FrameType,
    mark: object | None = None,
) -> Any:
    turn.unawaited.begun(mark)
    for name, text in (("type", type), ("key", key), ("message", message)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"interrupt() {name} must be a str or None, got {_type_name(text)}")
        if text is not None:
            check_text(f"interrupt() {name}", text)
    checked = _checked_payload(payload, type, turn.max_payload)
    schema, read = _answer_type(response_schema)
    kind = checked.get("type", UNKNOWN_TYPE)
    if schema is not None and (answer := _brought_answer(kind, checked)) is not None:
        if not turn.is_recorded(key):
            raise ValueError(
                f"interrupt() takes no response_schema for type {kind!r}: its answer is {answer}\n\n"
                "hint: leave it out, or ask with a type of your own"
            )
        read = None if isinstance(response_schema, dict) else read
    try:
        return await turn.ask(
            kind,
            checked,
            message=message,
            response_schema=schema,
            expires_in=seconds("interrupt()", expires_in),
            has_default=on_expire is not RAISE,
            metadata=_checked_metadata(metadata),
            key=key,
            location=location_of(frame),
            approvers=approvers,
            read=read,
            takes_past=isinstance(response_schema, dict),
        )
    except InterruptExpired:
        if on_expire is RAISE:
            raise
        return on_expire


def _brought_answer(kind: str, payload: dict[str, Any]) -> str | None:
    """What the answer to a question of a type is that brings its own schema, which the server puts in the place of any
    other; None for all others."""
    if kind == "tool_approval":
        return "a decision, as hitl.approval() asks for"
    if kind != "user_input":
        return None
    try:
        _core.check_questions(payload)
    except ValueError:
        return None
    return "one to each of its questions, as ask_user_question asks for"


def _checked_payload(payload: Any, type: str | None, max_bytes: int) -> dict[str, Any]:
    """A copy of the payload as it will be stored; the agent may go on changing its own."""
    if type is not None and isinstance(payload, dict):
        payload = {**payload, "type": type}
    checked: dict[str, Any] = json.loads(_core.check_payload(payload, max_bytes))
    return checked


def _checked_metadata(metadata: Any) -> dict[str, Any] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise TypeError(f"interrupt() metadata must be a dict or None, got {_type_name(metadata)}")
    checked: dict[str, Any] = json.loads(_core.to_json(metadata))
    return checked


def seconds(caller: str, expires_in: Any) -> float | None:
    """Seconds until a question lapses; TypeError or ValueError, naming ``caller``, for what is no time."""
    if expires_in is None:
        return None
    if isinstance(expires_in, timedelta):
        expires_in = expires_in.total_seconds()
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        raise TypeError(f"{caller} expires_in must be seconds, a timedelta or None, got {_type_name(expires_in)}")
    if not (math.isfinite(expires_in) and expires_in > 0):
        raise ValueError(f"{caller} expires_in must be a positive number of seconds, got {expires_in}")
    return float(expires_in)


def _answer_type(response_schema: Any) -> tuple[dict[str, Any] | None, Reader | None]:
    """The JSON Schema to send, and what turns an answer into the type that was asked for."""
    if response_schema is None:
        return None, None
    if isinstance(response_schema, dict):
        _core.check_response_schema(response_schema)
        # A copy: the agent may go on changing its own.
        own: dict[str, Any] = json.loads(_core.to_json(response_schema))
        return own, _reader_of(own)

    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(response_schema)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason, hint = why_not(error)
        said = f"interrupt() response_schema is no JSON Schema and no type that has one: {reason}"
        raise ValueError(said if hint is None else f"{said}\n\nhint: {hint}") from error
    _core.check_response_schema(schema)

    def read(answer: Any) -> Any:
        try:
            # From JSON, not from Python: there a date is a string and a tuple a list, also for strict models.
            return adapter.validate_json(json.dumps(answer))
        except ValidationError as invalid:
            # The answer fits the schema, that was checked; this is a validator that a schema cannot express.
            wrong = invalid.errors(include_url=False, include_context=False, include_input=False)
            errors = [{"loc": list(each["loc"]), "msg": each["msg"], "type": each["type"]} for each in wrong]
            place = ".".join(str(part) for part in wrong[0]["loc"]) or "answer"
            raise InvalidAnswer(f"{place}: {wrong[0]['msg']}", errors=errors) from invalid

    return schema, read


def schema_reader(type: str, payload: dict[str, Any], schema: dict[str, Any] | None) -> Reader | None:
    """What takes answers that fit a JSON Schema, for a question of another framework's; None where there is none, or
    the server goes by the type of the question."""
    if schema is None or _brought_answer(type, payload) is not None:
        return None
    return _reader_of(schema)


def _reader_of(schema: dict[str, Any]) -> Reader:
    def check(answer: Any) -> Any:
        # The server has checked it against the schema that the agent had when it asked.
        if wrong := _core.validate(schema, answer):
            place = ".".join(str(part) for part in wrong[0]["loc"]) or "answer"
            raise InvalidAnswer(f"{place}: {wrong[0]['msg']}", errors=wrong)
        return answer

    return check


def _type_name(value: Any) -> str:
    name: str = value.__class__.__name__  # `type` is a parameter in this module
    return name
