"""The annotations of a tool's function, and what each parameter is as a field of the model that checks arguments."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema


def resolve_hints(function: Callable[..., Any], local_names: Mapping[str, Any] | None) -> dict[str, Any]:
    """Type hints with strings evaluated; `NameError` while a name they use is not defined yet."""
    target = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = inspect.unwrap(target.func)
    if not isinstance(target, types.FunctionType | types.MethodType):
        target = type(target).__call__
    names = dict(local_names or {})
    try:
        return typing.get_type_hints(target, localns=names, include_extras=True)
    except NameError:
        bare = _without_return(target)
        if bare is None:
            raise
    # What it returns is nobody's to fill in, and may be of a type that only checkers know.
    return typing.get_type_hints(bare, localns=names, include_extras=True)


def _without_return(function: Any) -> types.FunctionType | None:
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, types.FunctionType):
        return None
    bare = types.FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    bare.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    if hasattr(function, "__type_params__"):  # of Python 3.12 and newer
        setattr(bare, "__type_params__", getattr(function, "__type_params__"))  # noqa: B009, B010
    return bare


def field_definition(parameter: inspect.Parameter, hint: Any, description: str | None) -> tuple[Any, Any]:
    """Its type and default, as `create_model` takes them."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    hint = _with_lists(hint)
    if typing.get_origin(hint) is Annotated:
        # `Annotated[str, "what it is for"]`: a bare string beside a type is its description.
        said = next((item for item in hint.__metadata__ if isinstance(item, str)), None)
        description = said or description
        if any(isinstance(item, FieldInfo) and item.description for item in hint.__metadata__):
            description = None
    default = parameter.default
    if description and not (isinstance(default, FieldInfo) and default.description):
        hint = Annotated[hint, Field(description=description)]
    return hint, (... if default is inspect.Parameter.empty else default)


def _with_lists(hint: Any) -> Any:
    """The hint with a list for each `Iterable` or `Generator`: of these pydantic makes an iterator, which whoever looks
    at the arguments first would use up."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if (hint if origin is None else origin) in _ITERATORS:
        return list[_with_lists(arguments[0]) if arguments else Any]  # type: ignore[misc]
    if origin is Annotated:
        return _annotated(_with_lists(hint.__origin__), hint.__metadata__)
    if origin not in _HOLDERS:
        return hint
    now = tuple(map(_with_lists, arguments))
    if all(map(operator.is_, now, arguments)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[now]  # noqa: UP007  (which takes a hint that has no `|`)
    return origin[now]


_ITERATORS = (collections.abc.Iterable, collections.abc.Generator)
_HOLDERS = (list, dict, tuple, typing.Union, types.UnionType)


def fields_without_none(model: type[BaseModel]) -> list[str]:
    """The fields with a default of None that do not take it (`cc: list[str] = None`)."""
    return [name for name, info in model.model_fields.items() if info.default is None and not _takes_none(model, name)]


def _takes_none(model: type[BaseModel], field: str) -> bool:
    try:
        model.__pydantic_validator__.validate_assignment(model.model_construct(), field, None)
    except Exception:  # noqa: BLE001  (a validator of the author's that knows of no None raises what it likes)
        return False
    return True


class OrNone:
    """Beside a type: None besides, and before anything that is said of the type looks at it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.nullable_schema(handler(source))


def _annotated(hint: Any, said: Iterable[Any]) -> Any:
    return functools.reduce(lambda held, item: Annotated[held, item], said, hint)
