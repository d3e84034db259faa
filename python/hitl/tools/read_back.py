"""What is shown is what runs: whether the JSON of a call says everything about the values that its function gets.

pydantic does not write all that it reads: fields with `exclude=True`, secrets, private attributes, and whatever a
serializer leaves out. A person, a rule and a digest see the JSON alone, so it is read back and compared.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import sys
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hitl.journal.iterators import with_lists

if TYPE_CHECKING:
    from pydantic import BaseModel

_BY_VALUE = (str, int, float, complex, bytes, bool)


def find_unread(
    model: type[BaseModel], fields: Mapping[str, str], values: Mapping[str, Any], shown: Mapping[str, Any]
) -> str | None:
    """Where `values` are not what `shown` reads back to, and why; None where they are.

    fields: the model's field of each value, by the value's name; what is missing is not declared.
    """
    from pydantic import ValidationError

    try:
        again = _read_again(model, shown)
    except ValidationError as error:
        item = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{_path(item['loc']) or 'arguments'}: what is shown of it cannot be read back ({item['msg']})"
    except Exception as error:  # noqa: BLE001 - an author's validators run here, and JSON may not be what they are for
        return f"arguments: what is shown of them cannot be read back ({type(error).__name__})"
    extra = again.model_extra or {}
    for name, value in values.items():
        field = fields.get(name)
        read = extra.get(name, _MISSING) if field is None else getattr(again, field)
        place = _difference(value, read)
        if place is not None and not (field is not None and _is_default(again, field, value)):
            return f"{_path((name, *place))}: what is shown of it does not say what would run"
    return None


def validated(model: type[BaseModel], given: Mapping[str, Any], *, by_name: bool | None = None) -> BaseModel:
    """The model of arguments, by their aliases; raises pydantic's `ValidationError`.

    What is JSON may also be read as JSON is: a strict type takes a date from text there, and from a `date` alone else.
    What an `Iterable` holds is a list, which whoever looks at it first does not use up.
    """
    from pydantic import ValidationError

    try:
        return with_lists(model.model_validate(dict(given), by_alias=True, by_name=by_name))
    except ValidationError as error:
        wrong = error
    if _is_json(given):
        with contextlib.suppress(ValidationError):
            return with_lists(model.model_validate_json(json.dumps(given), by_alias=True, by_name=by_name))
    raise wrong


def _read_again(model: type[BaseModel], shown: Mapping[str, Any]) -> BaseModel:
    """What the JSON of arguments reads back to. A null that is not taken there may be a default of None that its type
    does not take (`note: str = None`), which leaving it out gives as well."""
    from pydantic import ValidationError

    try:
        return validated(model, shown, by_name=True)
    except ValidationError as error:
        refused = error.errors(include_url=False, include_context=False, include_input=False)
        left = copy.deepcopy(dict(shown))
        if not all(_leave_out_null(left, item["loc"]) for item in refused):
            raise
    return validated(model, left, by_name=True)


def _leave_out_null(json: Any, place: tuple[Any, ...]) -> bool:
    *outer, name = place or ("",)
    for each in outer:
        held = json if isinstance(json, dict) else dict(enumerate(json)) if isinstance(json, list) else {}
        json = held.get(each)
    if not isinstance(json, dict) or json.get(name, ...) is not None:
        return False
    del json[name]
    return True


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _is_json(item) for key, item in value.items())
    return all(map(_is_json, value)) if type(value) is list else type(value) in _PLAIN


_PLAIN = (str, int, float, bool, type(None))


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same; a whole number and a decimal of its size are."""
    return _difference(one, other) is None


_MISSING: typing.Final = object()


def _path(place: tuple[Any, ...]) -> str:
    return ".".join(map(str, place))


def _difference(one: Any, other: Any) -> tuple[Any, ...] | None:
    """Where two values differ, from the outside in; None where they do not. In doubt they do."""
    if one is other:
        return None
    if type(one) is not type(other):
        numbers = type(one) in (int, float) and type(other) in (int, float) and one == other
        return None if numbers else ()
    if isinstance(one, dict):
        return _in_items(list(one.items()), other)
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return ()
        return _first((index, _difference(a, b)) for index, (a, b) in enumerate(zip(one, other, strict=True)))
    if isinstance(one, set | frozenset):
        same = len(one) == len(other) and all(any(_difference(a, b) is None for b in other) for a in one)
        return None if same else ()
    if type(one) in _BY_VALUE:
        return None if one == other else ()
    return _in_object(one, other)


def _in_items(items: list[tuple[Any, Any]], other: dict[Any, Any]) -> tuple[Any, ...] | None:
    if len(items) != len(other):
        return ()
    keys = {key: key for key in other}
    for key, _ in items:
        if key not in keys or _difference(key, keys[key]) is not None:
            return (key,)
    return _first((key, _difference(value, other[key])) for key, value in items)


def _first(places: typing.Iterable[tuple[Any, tuple[Any, ...] | None]]) -> tuple[Any, ...] | None:
    return next(((name, *place) for name, place in places if place is not None), None)


def _in_object(one: Any, other: Any) -> tuple[Any, ...] | None:
    """Objects: what they hold, and then what they say of themselves; of a library's, that alone."""
    from pydantic import BaseModel

    if isinstance(one, BaseModel):
        return _in_model(one, other)
    own = _attributes(one)
    if own is not None:
        place = _in_items(list(own.items()), _attributes(other) or {})
        if place is not None:
            return place if dataclasses.is_dataclass(one) else ()
        compares = any("__eq__" in each.__dict__ for each in type(one).__mro__[:-1])
        if own and (dataclasses.is_dataclass(one) or not compares):
            return None
    if hasattr(one, "isoformat") and one.isoformat() != other.isoformat():  # one moment, two time zones
        return ()
    try:
        return None if bool(one == other) else ()
    except Exception:  # noqa: BLE001  (an object that cannot be compared is not known to be the same)
        return ()


def _in_model(one: BaseModel, other: BaseModel) -> tuple[Any, ...] | None:
    fields = type(one).model_fields
    for name, value in vars(one).items():
        place = None if _is_cached(one, name) else _difference(value, vars(other).get(name, _MISSING))
        if place is not None and not (name in fields and _is_default(other, name, value)):
            return (name, *place)
    for name in ("__pydantic_private__", "__pydantic_extra__"):
        held, read = getattr(one, name) or {}, getattr(other, name) or {}
        if (place := _in_items(list(held.items()), read)) is not None:
            return place
    return None


def _attributes(value: Any) -> dict[str, Any] | None:
    """What an object of somebody's own class holds; None for the types of the language and of pydantic."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names | {"pydantic_core"}:
        return None
    held = dict(getattr(value, "__dict__", {}))
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{each.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, mangled):
                held[name] = getattr(value, mangled)
    return {name: each for name, each in held.items() if not _is_cached(value, name)}


def _is_cached(value: Any, name: str) -> bool:
    return isinstance(getattr(type(value), name, None), functools.cached_property)


def _is_default(read: BaseModel, field: str, value: Any) -> bool:
    """Whether a value is a default as its author wrote it (`path: Path = "."`), and would be read as what was read."""
    from pydantic import ValidationError
    from pydantic_core import PydanticUndefined

    default = type(read).model_fields[field].default
    if default is PydanticUndefined or _difference(value, default) is not None:
        return False
    probe = read.model_copy()
    try:
        type(read).__pydantic_validator__.validate_assignment(probe, field, default)
    except ValidationError:
        return False
    return _difference(getattr(probe, field), getattr(read, field)) is None


# --- what can never be read back -----------------------------------------------------------------------------------


def find_hidden(model: type[BaseModel], names: Mapping[str, str] | None = None) -> str | None:
    """Which field of a model hides what it holds from its JSON, and how; None where none is known to.

    names: what its fields are called to others, where that is not their own name.
    """
    closed = model.model_config.get("extra") == "forbid"
    found = _hidden_field(model, (), (model,)) or _never_read_field(model, (), (model,), closed)
    if found is None:
        return None
    (first, *rest), why = found
    return f"{_path(((names or {}).get(first, first), *rest))} {why}"


_Found = tuple[tuple[str, ...], str] | None


def _hidden(annotation: Any, place: tuple[str, ...], around: tuple[Any, ...]) -> _Found:
    from pydantic import BaseModel, Json, Secret, SecretBytes, SecretStr
    from pydantic.fields import FieldInfo
    from typing_extensions import TypeAliasType

    origin = typing.get_origin(annotation)
    kind = annotation if origin is None else origin
    if isinstance(kind, type):
        if issubclass(kind, Secret | SecretStr | SecretBytes):
            return place, f"is a {kind.__name__}, of which nobody is shown what it holds"
        if issubclass(kind, BaseModel) and annotation not in around:
            return _hidden_field(kind, place, (*around, annotation))
        if kind is Json:
            return place, "is Json, which is not written as it is read"
    if origin is typing.Annotated:
        for item in annotation.__metadata__:
            if isinstance(item, FieldInfo) and item.exclude:
                return place, "is excluded from what anybody is shown"
            if isinstance(item, Json) or item is Json:
                return place, "is Json, which is not written as it is read"
    if isinstance(annotation, TypeAliasType):
        return _hidden(annotation.__value__, place, (*around, annotation)) if annotation not in around else None
    if (held := _fields_of_plain(annotation)) and annotation not in around:
        for name, (hint, info) in held.items():
            if isinstance(info, FieldInfo) and info.exclude:
                return (*place, name), "is excluded from what anybody is shown"
            if found := _hidden(hint, (*place, name), (*around, annotation)):
                return found
    arguments = () if origin is typing.Literal else typing.get_args(annotation)
    for argument in arguments:
        if found := _hidden(argument, place, around):
            return found
    return None


def _hidden_field(model: type[BaseModel], place: tuple[str, ...], around: tuple[Any, ...]) -> _Found:
    for name, info in model.model_fields.items():
        if info.exclude:
            return (*place, name), "is excluded from what anybody is shown"
        for hint in (info.annotation, *(typing.Annotated[Any, item] for item in info.metadata)):
            if found := _hidden(hint, (*place, name), around):
                return found
    if model.model_computed_fields and model.model_config.get("extra") == "forbid":
        name = next(iter(model.model_computed_fields))
        return (*place, name), f"is computed, which {model.__name__} forbids to be read"
    return None


def _never_read(annotation: Any, place: tuple[str, ...], around: tuple[Any, ...], closed: bool) -> _Found:
    """What any value of a type is shown with, and cannot be given: where each call has one, and so none would pass.

    closed: whether what is around it takes nothing that it does not know.
    """
    from pydantic import BaseModel, RootModel

    if typing.get_origin(annotation) is typing.Annotated:
        if _is_written_or_read_by_author(annotation.__metadata__):
            return None
        annotation = annotation.__origin__
    if not isinstance(annotation, type) or typing.get_origin(annotation) is not None or annotation in around:
        return None
    if issubclass(annotation, BaseModel):
        authors = annotation.__pydantic_decorators__
        if issubclass(annotation, RootModel) or authors.model_serializers or authors.model_validators:
            return None
        closed = annotation.model_config.get("extra") == "forbid"
        return _never_read_field(annotation, place, (*around, annotation), closed)
    if not dataclasses.is_dataclass(annotation) or hasattr(annotation, "__pydantic_config__"):
        return None
    if hasattr(annotation, "__pydantic_fields__"):  # pydantic's own leave them out
        return None
    for each in dataclasses.fields(annotation):
        has_default = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        if closed and has_default and not each.init:
            return (*place, each.name), f"is shown and cannot be given, for {annotation.__name__} sets it (init=False)"
    return None


def _never_read_field(model: type[BaseModel], place: tuple[str, ...], around: tuple[Any, ...], closed: bool) -> _Found:
    for name, info in model.model_fields.items():
        is_always_there = info.is_required() and not _is_written_or_read_by_author(info.metadata)
        if is_always_there and (found := _never_read(info.annotation, (*place, name), around, closed)):
            return found
    return None


def _is_written_or_read_by_author(said: typing.Iterable[Any]) -> bool:
    return any(type(item).__module__.startswith("pydantic.functional_") for item in said)


def _fields_of_plain(annotation: Any) -> dict[str, tuple[Any, Any]]:
    """Hints and defaults of a dataclass or TypedDict."""
    from typing_extensions import is_typeddict

    is_dataclass = isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
    if not is_dataclass and not is_typeddict(annotation):
        return {}
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except NameError:  # it names what only its own module can see: each call is looked at all the same
        return {}
    defaults = {each.name: each.default for each in dataclasses.fields(annotation)} if is_dataclass else {}
    return {name: (hint, defaults.get(name)) for name, hint in hints.items()}
