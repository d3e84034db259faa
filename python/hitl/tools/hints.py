"""The signature of a tool's function, and what each parameter is as a field of the model that checks arguments."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class Signature(NamedTuple):
    """What decorating a function learns from it without resolving its annotations."""

    parameters: tuple[inspect.Parameter, ...]
    """What the model fills in and what the run fills in, in order; never `self`."""

    open: bool
    """Whether the function takes `**kwargs`."""


def takes_object(function: Callable[..., Any]) -> bool:
    """Whether it is a method that is bound to no object."""
    return next(iter(inspect.signature(function).parameters), None) == "self" and not inspect.ismethod(function)


def class_of(function: Callable[..., Any]) -> str | None:
    """The name of the class in whose body it is written, where it is written in one and bound to nothing."""
    around = getattr(function, "__qualname__", "").rpartition(".")[0]
    return None if inspect.ismethod(function) or around.endswith("<locals>") else around.rpartition(".")[2] or None


def of_class(function: Callable[..., Any]) -> str:
    """What there is to say of a class method that is made a tool in its class body: Python hands it on unbound."""
    name, owner = getattr(function, "__name__", "call"), class_of(function) or "TheClass"
    return f"{name!r} is a class method, and no tool before its class is there\n\nhint: make the tool of {owner}.{name}"


def read_signature(function: Callable[..., Any]) -> Signature:
    """The parameters of `function`; `TypeError` for those a model cannot fill in, and for what returns no result."""
    call = getattr(function, "__call__", None)  # noqa: B004  (an object with an async __call__)
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        label = getattr(function, "__name__", function)
        raise TypeError(
            f"tool {label!r} is an async generator, which nobody would iterate\n\nhint: return a list of what it yields"
        )
    parameters = []
    takes_any = False
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        if index == 0 and takes_object(function):
            continue  # a method decorated in its class body: bound when it is looked up
        if index == 0 and parameter.name == "cls" and parameter.annotation is parameter.empty and class_of(function):
            raise TypeError(of_class(function))
        if parameter.kind is parameter.VAR_POSITIONAL:
            label = getattr(function, "__name__", function)
            raise TypeError(
                f"tool {label!r} takes *{parameter.name}: a model names its arguments, so give each one a name"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        parameters.append(parameter)
    return Signature(tuple(parameters), takes_any)


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
