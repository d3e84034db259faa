"""Errors of steps as JSON, and back.

What is stored is what pickle would take: the class, the arguments and the attributes of the error. Nothing is pickled
all the same: the class has to be an exception class of a module that is imported already, arguments and attributes are
values as ``hitl.journal.codec`` stores them, and whatever else an error would have called to make it again is refused.

What is made must be of that class and say the same as the original. Where that cannot be, the error is a ``StepError``,
which knows the class by name, and its bases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from hitl.errors import HitlError, StepError, class_name
from hitl.journal.attributes import slots_of, without_cached
from hitl.journal.codec import MOVED, decode, encode, find_class, module_of

_NOTES = "__notes__"
# Groups in groups: nothing sensible comes near it.
_MAX_DEPTH = 20


def encode_error(error: BaseException) -> dict[str, Any]:
    """An error as ``error`` of docs/worker-protocol.md; what of it cannot be stored is left out."""
    return _encode_error(error, 0)


def decode_error(encoded: dict[str, Any]) -> BaseException:
    """The error again: of its own class where that can be made to say the same, else a StepError."""
    name, message = encoded["type"], encoded["message"]
    module = MOVED.get(encoded["module"], encoded["module"])
    try:
        rebuilt = _rebuilt(encoded)
    except Exception:  # noqa: BLE001 - a class of anybody's is at work here, and whatever it raises means: not rebuilt
        rebuilt = None
    if rebuilt is not None:
        return rebuilt
    fallback = StepError(name.rpartition(".")[2], message, module, (f"{module}.{name}", *encoded.get("bases", ())))
    notes = encoded.get("state", {}).get(_NOTES)
    for note in notes if isinstance(notes, list) else ():
        if isinstance(note, str):
            fallback.add_note(note)
    return fallback


def error_words(error: BaseException) -> str:
    """``str(error)`` that never raises."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - a __str__ of the agent's own may do anything
        return f"<{type(broken).__name__} in {type(error).__name__}.__str__>"


def error_message(error: BaseException) -> str:
    """The same, as it can always be sent as UTF-8."""
    text = error_words(error)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_PASSWORDS = (re.compile(r"(://[^:/@\s]*:)\S+(?=@)"), re.compile(r"(\bpassword=)[^&\s]+"))


def without_passwords(text: str) -> str:
    """A text without the passwords of the addresses in it."""
    for password in _PASSWORDS:
        text = password.sub(r"\1***", text)
    return text


# -- encoding -----------------------------------------------------------------------------------------------------


def _encode_error(error: BaseException, depth: int) -> dict[str, Any]:
    cls = type(error)
    args, state = _parts(error)
    members: list[dict[str, Any]] | None = None
    if isinstance(error, BaseExceptionGroup) and len(args) == 2 and depth < _MAX_DEPTH:
        members = [_encode_error(member, depth + 1) for member in error.exceptions]
        args = args[:1]
    encoded = {
        "type": cls.__qualname__,
        "module": module_of(cls),
        "message": error_message(error),
        "args": _encoded_or(None, list(args)),
        "bases": [class_name(base) for base in cls.__mro__[1:-1]],
    }
    if members is not None:
        encoded["members"] = members
    kept = {name: _encoded_or(_LOST, item) for name, item in state.items()}
    encoded["state"] = {name: item for name, item in kept.items() if item is not _LOST}
    if lost := [name for name, item in kept.items() if item is _LOST]:
        encoded["lost"] = lost
    if isinstance(error, HitlError) and error.code != type(error).code:
        encoded["code"] = error.code
    return encoded


_LOST = object()


def _encoded_or(default: Any, value: Any) -> Any:
    try:
        return encode(value)
    except Exception:  # noqa: BLE001 - whatever it is: the error that is told of is another one
        return default


def _parts(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that make the error again, and its attributes: what it says of itself, where that is of this form."""
    cls = type(error)
    state: Any = vars(error)
    args: Any = vars(BaseException)["args"].__get__(error)  # a class may have made something else of the name
    if cls.__setstate__ is BaseException.__setstate__:
        try:
            reduced = error.__reduce_ex__(2)
        except Exception:  # noqa: BLE001 - one that cannot be pickled still has arguments
            reduced = ()
        if isinstance(reduced, tuple) and len(reduced) in (2, 3) and reduced[0] is cls and type(reduced[1]) is tuple:
            given = reduced[2] if len(reduced) == 3 and reduced[2] is not None else {}
            if type(given) is dict:
                args, state = reduced[1], given
    state = {**without_cached(cls, state), **slots_of(error)}
    return args, {name: item for name, item in state.items() if _is_kept(name)}


def _is_kept(name: Any) -> bool:
    return isinstance(name, str) and name.isascii() and (name == _NOTES or not name.startswith("__"))


# -- decoding -----------------------------------------------------------------------------------------------------


def _rebuilt(encoded: dict[str, Any]) -> BaseException | None:
    if encoded.get("args") is None:
        return None
    cls = find_class(encoded["module"], encoded["type"])
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        return None
    args = decode(encoded["args"])
    if "members" in encoded:
        args = [*args, [decode_error(member) for member in encoded["members"]]]
    state = {name: decode(item) for name, item in encoded.get("state", {}).items() if _is_kept(name)}
    for make in _ways(cls, encoded):
        error = _made(make, args, state)
        if isinstance(error, HitlError) and "code" in encoded:
            error.code = encoded["code"]
        if type(error) is cls and error_message(error) == encoded["message"]:
            return error
    return None


def _made(make: Callable[..., BaseException], args: list[Any], state: dict[str, Any]) -> BaseException | None:
    try:
        error = make(*args)
        for name, item in state.items():
            setattr(error, name, item)
    except Exception:  # noqa: BLE001 - a constructor of anybody's; whatever it raises means: not in this way
        return None
    return error


def _ways(cls: type[BaseException], encoded: dict[str, Any]) -> Iterator[Callable[..., BaseException]]:
    """How an error of this class may be made from its arguments."""
    yield cls
    # A constructor with parameters of its own (`def __init__(self, balance, needed)`) does not take the arguments of
    # its base. It ran when the original was made; what it left behind is all known where all of it could be stored.
    if "state" not in encoded or encoded.get("lost"):
        return
    base = next(each for each in cls.__mro__ if each.__module__ == "builtins")
    own = cls.__mro__[: cls.__mro__.index(base)]
    if own and not any(vars(each).get("__slots__") for each in own):

        def past_init(*args: Any) -> BaseException:
            error: BaseException = base.__new__(cls, *args)
            base.__init__(error, *args)  # type: ignore[misc]  # the constructor of the built-in, and no other, is meant
            return error

        yield past_init
