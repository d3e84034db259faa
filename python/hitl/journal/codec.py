"""Values of steps as JSON, and back.

JSON values stand for themselves. Everything else is an object with the member ``$hitl`` that names its kind:
``{"$hitl": "datetime", "value": "2024-01-01T00:00:00+00:00"}``. What is decoded has the same types as what was
encoded, exactly; a value for which that cannot be promised is a TypeError that names its path, and is not stored. One
exception: the zone of a time that pydantic has read comes back as a ``timezone`` of the same offset.

Integers beyond 64 bits, non-finite floats and text with lone surrogates are tagged too: the JSON of other languages
changes or refuses them.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

from hitl import _core
from hitl.attachments import Attachment
from hitl.journal.attributes import imported, model_slots_of, slots_of, without_cached
from hitl.journal.plain import INT_LIMIT, MAX_DEPTH, NOT_PLAIN, TAG, copy_plain

_HOLDS_MORE = (
    *(dict, list, tuple, set, frozenset, str, int, float, complex, bytes, bytearray),
    *(datetime, date, time, timedelta),  # a datetime is a date, and is told of first
)
"""What a class may be made from that holds more than its attributes."""


def encode(value: Any, path: str = "value") -> Any:
    """A JSON value that ``decode`` turns into an equal value of the same types; shares nothing mutable with ``value``.

    TypeError for what cannot be stored, with the path to it (``path`` is what its text starts with); ValueError for
    values nested deeper than 100 levels, cycles included.
    """
    plain = copy_plain(value)
    if plain is not NOT_PLAIN:
        return plain
    try:
        return _encode(value, path, 0)
    except _IteratorRefused as refused:
        raise TypeError(str(refused)) from None


def decode(encoded: Any) -> Any:
    """The value that ``encode`` wrote. ValueError for what it cannot have written, or whose class is not there: nothing
    is imported for it, its module has to be imported already."""
    kind = type(encoded)
    if kind is list:
        return [decode(item) for item in encoded]
    if kind is not dict:
        return encoded
    tag = encoded.get(TAG)
    if tag is None:
        return {key: decode(item) for key, item in encoded.items()}
    decoder = _DECODERS.get(tag) if isinstance(tag, str) else None
    if decoder is None:
        raise ValueError(f"a stored value has the unknown kind {tag!r}: it was written by another version of hitl")
    try:
        return decoder(encoded)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"a stored value of the kind {tag!r} cannot be read: {error!r}") from error


# Made once: json.dumps would make an encoder for every call.
_canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def fingerprint(value: Any) -> str:
    """32 hex digits of the SHA-256 of a value's canonical JSON; of its class only, where it has no JSON."""
    known: str | None = _core.fingerprint(value)  # the same, where it is plain, in a fraction of the time
    if known is not None:
        return known
    try:
        text = _canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        try:
            text = _canonical_json(encode(value))
        except (TypeError, ValueError):
            text = f"{type(value).__module__}:{type(value).__qualname__}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _IteratorRefused(TypeError):
    """An iterator: pydantic would use it up to write it, and nothing would be left for whoever has it."""


# -- encoding -----------------------------------------------------------------------------------------------------


def _encode(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            return _tagged("str", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode())
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -INT_LIMIT <= value < INT_LIMIT else _tagged("int", hex(value))
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if depth > MAX_DEPTH:
        raise ValueError(f"{_shortened(path)} is nested deeper than {MAX_DEPTH} levels, or contains itself")
    depth += 1
    if kind is list:
        return [_encode(item, f"{path}[{index}]", depth) for index, item in enumerate(value)]
    if kind is dict:
        return _encode_dict(value, path, depth)
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value, path, depth)
    return _encode_instance(value, kind, path, depth)


def _encode_dict(value: dict[Any, Any], path: str, depth: int) -> Any:
    if TAG not in value and all(type(key) is str and key.isascii() for key in value):
        return {key: _encode(item, f"{path}.{key}", depth) for key, item in value.items()}
    pairs = [
        [_encode(key, f"key {key!r} of {path}", depth), _encode(item, f"{path}[{key!r}]", depth)]
        for key, item in value.items()
    ]
    return _tagged("dict", pairs)


def _encode_items(tag: str) -> Callable[[Any, str, int], Any]:
    def encoder(value: Any, path: str, depth: int) -> Any:
        return _tagged(tag, [_encode(item, f"{path}[{index}]", depth) for index, item in enumerate(value)])

    return encoder


def _encode_set(tag: str) -> Callable[[Any, str, int], Any]:
    def encoder(value: Any, path: str, depth: int) -> Any:
        items = [_encode(item, f"item of {path}", depth) for item in value]
        # A set has no order; give it one, so that equal sets are stored as equal JSON.
        return _tagged(tag, sorted(items, key=lambda item: json.dumps(item, sort_keys=True)))

    return encoder


def _encode_datetime(value: datetime, path: str, depth: int) -> Any:
    return {**_tagged("datetime", value.replace(tzinfo=None).isoformat()), **_zone(value, path)}


def _encode_time(value: time, path: str, depth: int) -> Any:
    return {**_tagged("time", value.replace(tzinfo=None).isoformat()), **_zone(value, path)}


def _zone(value: datetime | time, path: str) -> dict[str, Any]:
    """``fold`` and the zone: the ``key`` of a named one, which knows summer time, or an ``offset`` in microseconds."""
    extra: dict[str, Any] = {"fold": 1} if value.fold else {}
    zone = value.tzinfo
    if zone is None:
        return extra
    if type(zone) is timezone or type(zone) is imported("pydantic_core", "TzInfo"):
        offset: timedelta = zone.utcoffset(None)  # type: ignore[assignment]  # theirs is known without a date
        return {**extra, "offset": offset // timedelta(microseconds=1)}
    key = getattr(zone, "key", None)
    if isinstance(key, str):
        return {**extra, "zone": key}
    raise TypeError(
        f"{_shortened(path)} has a tzinfo that cannot be stored ({_class_name(type(zone))}); use timezone.utc "
        "or a ZoneInfo"
    )


def _encode_instance(value: Any, kind: type, path: str, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        return _tagged_class("enum", kind, _encode_member(value, path, depth), path)
    if kind is imported("uuid", "UUID"):
        return _tagged("uuid", str(value))
    if kind is imported("decimal", "Decimal"):
        return _tagged("decimal", str(value))
    pure_path = imported("pathlib", "PurePath")
    if pure_path is not None and issubclass(kind, pure_path):
        return _tagged_class("path", kind, str(value), path)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        items = [_encode(item, f"{path}.{name}", depth) for name, item in zip(kind._fields, value, strict=True)]
        return _tagged_class("namedtuple", kind, items, path)
    if dataclasses.is_dataclass(kind) and not issubclass(kind, (*_HOLDS_MORE, BaseException)):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(kind) if hasattr(value, f.name)}
        encoded = _tagged_class("dataclass", kind, _encode_members(members, path, depth), path)
        if others := _beside_fields(value, kind, members):
            encoded["others"] = _encode_members(others, path, depth)
        if issubclass(kind, Attachment) and kind is not Attachment:
            encoded["attachment"] = True  # the core, which shows what is attached, knows no classes
        return encoded
    if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_fields"):
        return _encode_model(value, kind, path, depth)
    raise _refusal(kind, path)


def _beside_fields(value: Any, kind: type, members: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an instance besides its fields: what `__post_init__` made, or a base that is no dataclass."""
    others = {**without_cached(kind, getattr(value, "__dict__", {})), **slots_of(value)}
    return {name: other for name, other in others.items() if name not in members}


def _encode_member(member: enum.Enum, path: str, depth: int) -> Any:
    """The name of a member, or the names of a flag's bits; the value, where a bit has no name."""
    name: str | None = member.name  # a flag without any bit set has none; typing says that every member has one
    parts = [name] if name is None or not isinstance(member, enum.Flag) else name.split("|")
    return name if all(part in type(member).__members__ for part in parts) else _encode(member.value, path, depth)


def _encode_model(value: Any, kind: type, path: str, depth: int) -> Any:
    fields: dict[str, Any] = {}
    refused: dict[str, TypeError] = {}
    for name, item in without_cached(kind, value.__dict__).items():
        try:
            fields[name] = _encode(item, f"{path}.{name}", depth)
        except _IteratorRefused:
            raise
        except TypeError as error:  # of a type that only pydantic can write (a URL, an address), or nobody
            refused[name] = error
    beside: dict[str, Any] | TypeError
    try:
        beside = _encode_beside_model(value, path, depth)
    except _IteratorRefused:
        raise
    except TypeError as error:
        beside = error
    if not refused and isinstance(beside, dict):
        return _tagged_class("model", kind, {"fields": fields, **beside}, path)
    from hitl.journal import model_json  # as `imported`

    whole = model_json.of_model(value)
    if whole is not model_json.NONE:
        return _tagged_class("model_json", kind, _encode(whole, path, depth), path)
    if isinstance(beside, TypeError):
        raise beside
    written = {}
    for name, why in refused.items():
        field = model_json.of_field(value, name)
        if field is model_json.NONE:
            raise why
        written[name] = _encode(field, f"{path}.{name}", depth)
    return _tagged_class("model_fields", kind, {"fields": fields, "json": written, **beside}, path)


def _encode_beside_model(value: Any, path: str, depth: int) -> dict[str, Any]:
    """What a model holds besides its fields."""
    beside = {
        "set": sorted(value.model_fields_set),
        "extra": _encode_members(value.__pydantic_extra__ or {}, path, depth),
        "private": _encode_members(value.__pydantic_private__ or {}, path, depth),
    }
    slots = model_slots_of(value)
    return {**beside, "slots": _encode_members(slots, path, depth)} if slots else beside


def _encode_members(members: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
    return {name: _encode(item, f"{path}.{name}", depth) for name, item in members.items()}


def _tagged(tag: str, value: Any) -> dict[str, Any]:
    return {TAG: tag, "value": value}


def _tagged_class(tag: str, kind: type, value: Any, path: str) -> dict[str, Any]:
    module, name = module_of(kind), kind.__qualname__
    try:
        found = find_class(module, name)
    except LookupError:
        found = None
    if found is not kind:
        raise TypeError(
            f"{_shortened(path)} is of the class {_class_name(kind)}, which cannot be found again by that name; "
            "define it at the top level of a module"
        )
    return {TAG: tag, "type": f"{module}:{name}", "value": value}


def _refusal(kind: type, path: str) -> TypeError:
    text = f"{_shortened(path)} is of type {_class_name(kind)}, which cannot be stored"
    if issubclass(kind, BaseException):
        return TypeError(f"{text}: it is an exception; raise it, or keep what it says, its text or its fields")
    if issubclass(kind, Iterator):
        return _IteratorRefused(f"{text}; make it a plain list(...)")
    plain = next((base for base in _HOLDS_MORE if issubclass(kind, base)), None)
    return TypeError(text if plain is None else f"{text}; make it a plain {plain.__name__}(...)")


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _shortened(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}...{path[-90:]}"


_ENCODERS: dict[type, Callable[[Any, str, int], Any]] = {
    tuple: _encode_items("tuple"),
    set: _encode_set("set"),
    frozenset: _encode_set("frozenset"),
    datetime: _encode_datetime,
    time: _encode_time,
    date: lambda value, path, depth: _tagged("date", value.isoformat()),
    timedelta: lambda value, path, depth: _tagged("timedelta", [value.days, value.seconds, value.microseconds]),
    bytes: lambda value, path, depth: _tagged("bytes", base64.b64encode(value).decode()),
    bytearray: lambda value, path, depth: _tagged("bytearray", base64.b64encode(value).decode()),
    complex: lambda value, path, depth: _tagged(
        "complex", [_encode(value.real, path, depth), _encode(value.imag, path, depth)]
    ),
}


# -- decoding -----------------------------------------------------------------------------------------------------


MOVED = {
    "hitl.asking": "hitl.tools.asking",
    "hitl.mcp_tools": "hitl.tools.mcp",
    "hitl.serve_options": "hitl.serving.options",
    "hitl.serving": "hitl.serving.server",
    "hitl.tool_schema": "hitl.tools.schema",
    "hitl.tools": "hitl.tools.context",
    "pathlib._local": "pathlib",
    "pathlib._abc": "pathlib",
}
"""Where classes are that journals have under another module: ours, of 0.1.0, and what Python 3.13 alone keeps there."""


def module_of(kind: type) -> str:
    """The module that a class is stored under: the same, whichever Python writes it."""
    return MOVED.get(kind.__module__, kind.__module__)


def find_class(module: str, qualname: str) -> Any:
    """What a module that is imported already has under a name; LookupError that says what is missing.

    Nothing is imported because a stored value says so, and nothing is computed (a module may make its names when they
    are asked for). What is found must still be of the right kind to be used.
    """
    if "<locals>" in qualname:
        raise LookupError(f"{module}.{qualname} is defined inside a function")
    found: Any = sys.modules.get(MOVED.get(module, module))
    if found is None:
        raise LookupError(f"the module {module} is not imported here; import it where the agent is defined")
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
        if found is None:
            raise LookupError(f"the module {module} has no {qualname}")
    return found


def _class_of(encoded: dict[str, Any], suits: Callable[[type], bool]) -> Any:
    module, _, qualname = encoded["type"].partition(":")
    try:
        found = find_class(module, qualname)
    except LookupError as error:
        raise ValueError(f"a stored value is of the class {module}.{qualname}, which is not there: {error}") from error
    if not (isinstance(found, type) and suits(found)):
        raise ValueError(f"a stored value is of the class {module}.{qualname}, which is no {encoded[TAG]} any more")
    return found


def _decode_datetime(encoded: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(encoded["value"]).replace(tzinfo=_decode_zone(encoded), fold=encoded.get("fold", 0))


def _decode_time(encoded: dict[str, Any]) -> time:
    return time.fromisoformat(encoded["value"]).replace(tzinfo=_decode_zone(encoded), fold=encoded.get("fold", 0))


def _decode_zone(encoded: dict[str, Any]) -> Any:
    if "offset" in encoded:
        return timezone(timedelta(microseconds=encoded["offset"])) if encoded["offset"] else UTC
    if "zone" in encoded:
        from zoneinfo import ZoneInfo

        return ZoneInfo(encoded["zone"])
    return None


def _decode_uuid(encoded: dict[str, Any]) -> Any:
    from uuid import UUID  # as `imported`

    return UUID(encoded["value"])


def _decode_decimal(encoded: dict[str, Any]) -> Any:
    from decimal import Decimal  # as `imported`

    return Decimal(encoded["value"])


def _is_path(found: type) -> bool:
    from pathlib import PurePath  # as `imported`

    return issubclass(found, PurePath)


def _decode_enum(encoded: dict[str, Any]) -> enum.Enum:
    cls = _class_of(encoded, lambda found: issubclass(found, enum.Enum))
    value = decode(encoded["value"])
    if not isinstance(value, str):
        return cls(value)  # type: ignore[no-any-return]
    try:
        return cls[value]  # type: ignore[no-any-return]
    except KeyError:
        if not issubclass(cls, enum.Flag):
            raise ValueError(f"a stored value is {encoded['type']}.{value}, which is gone") from None
    combined = cls(0)
    for name in value.split("|"):  # how Flag names a combination
        combined |= cls[name]
    return combined  # type: ignore[no-any-return]


def _decode_dataclass(encoded: dict[str, Any]) -> Any:
    cls = _class_of(encoded, dataclasses.is_dataclass)
    stored = encoded["value"]
    instance = cls.__new__(cls)
    # Field by field, past __init__ and __post_init__: they ran when the original was made.
    for field in dataclasses.fields(cls):
        if field.name in stored:
            item = decode(stored[field.name])
        elif field.default is not dataclasses.MISSING:
            item = field.default
        elif field.default_factory is not dataclasses.MISSING:
            item = field.default_factory()
        else:
            raise ValueError(f"a stored {encoded['type']} has no field {field.name!r}, and the field has no default")
        object.__setattr__(instance, field.name, item)
    for name, item in encoded.get("others", {}).items():
        object.__setattr__(instance, name, decode(item))
    return instance


def _is_model(found: type) -> bool:
    return hasattr(found, "__pydantic_core_schema__") and hasattr(found, "model_fields")


def _decode_model(encoded: dict[str, Any]) -> Any:
    cls = _class_of(encoded, _is_model)
    stored = encoded["value"]
    instance = cls.__new__(cls)
    # Not validated again: a validator that changes its input would change it twice.
    members = {name: decode(item) for name, item in stored["fields"].items()}
    if written := stored.get("json"):
        from hitl.journal import model_json  # as `imported`

        members.update({name: model_json.read_field(cls, name, decode(item)) for name, item in written.items()})
        members = {name: members[name] for name in (*cls.model_fields, *members) if name in members}
    for name, field in cls.model_fields.items():
        if name not in members and not field.is_required():
            members[name] = field.get_default(call_default_factory=True, validated_data=members)
    object.__setattr__(instance, "__dict__", members)
    object.__setattr__(instance, "__pydantic_fields_set__", set(stored["set"]))
    allows_extra = cls.model_config.get("extra") == "allow"
    object.__setattr__(instance, "__pydantic_extra__", _decode_members(stored["extra"]) if allows_extra else None)
    private = _decode_members(stored["private"])
    object.__setattr__(instance, "__pydantic_private__", private if cls.__private_attributes__ else None)
    for name, item in stored.get("slots", {}).items():
        object.__setattr__(instance, name, decode(item))
    return instance


def _decode_members(members: dict[str, Any]) -> dict[str, Any]:
    return {name: decode(item) for name, item in members.items()}


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "str": lambda e: base64.b64decode(e["value"]).decode("utf-8", "surrogatepass"),
    "int": lambda e: int(e["value"], 16),
    "float": lambda e: float(e["value"]),
    "complex": lambda e: complex(*decode(e["value"])),
    "dict": lambda e: {decode(key): decode(item) for key, item in e["value"]},
    "tuple": lambda e: tuple(decode(item) for item in e["value"]),
    "set": lambda e: {decode(item) for item in e["value"]},
    "frozenset": lambda e: frozenset(decode(item) for item in e["value"]),
    "datetime": _decode_datetime,
    "time": _decode_time,
    "date": lambda e: date.fromisoformat(e["value"]),
    "timedelta": lambda e: timedelta(*e["value"]),
    "uuid": _decode_uuid,
    "decimal": _decode_decimal,
    "bytes": lambda e: base64.b64decode(e["value"]),
    "bytearray": lambda e: bytearray(base64.b64decode(e["value"])),
    "enum": _decode_enum,
    "path": lambda e: _class_of(e, _is_path)(e["value"]),
    "namedtuple": lambda e: _class_of(e, lambda found: issubclass(found, tuple))._make(map(decode, e["value"])),
    "dataclass": _decode_dataclass,
    "model": _decode_model,
    "model_fields": _decode_model,
    "model_json": lambda e: _class_of(e, _is_model).model_validate_json(json.dumps(decode(e["value"]))),
}
