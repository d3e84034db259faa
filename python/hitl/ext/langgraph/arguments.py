"""What LangChain makes of the arguments that a model wrote, before a tool gets them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

from langchain_core.tools import Tool
from pydantic import BaseModel, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_jsonable_python

from hitl.ext.arguments import beyond_json, misfit, says, usable, with_defaults
from hitl.tools.names import as_shown


def args_schema_of(tool: Any) -> dict[str, Any] | None:
    """JSON Schema of the arguments that a model may give to a tool; None where there is none."""
    if _takes_one_text(tool):
        return _ONE_TEXT
    schema = getattr(tool, "tool_call_schema", None)
    if isinstance(schema, dict):
        return schema
    make = getattr(schema, "model_json_schema", None)
    return None if make is None else cast(dict[str, Any], make())


def runs_as_written(tool: Any, written: dict[str, Any]) -> bool:
    """Whether a call's arguments are what its tool runs with: a rule that has seen them has seen all."""
    schema = usable(args_schema_of(tool))
    if schema is None or with_defaults(schema, written) != written or misfit(schema, written) is not None:
        return False
    return is_run(tool, written)


def is_run(tool: Any, written: dict[str, Any]) -> bool:
    """Whether a tool runs with what is written, and with the defaults of its schema: validators may make something else
    of it, and its names may be others than those that its model is told.

    A tool with a JSON Schema, or with none, gets what the model wrote.
    """
    schema = getattr(tool, "args_schema", None)
    if schema is None or isinstance(schema, dict):
        return True
    if beyond_json(written) is not None:
        return False  # nor does it run where anybody has a say
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return False  # of pydantic 1
    injected = _injected(tool, schema)
    shown = with_defaults(usable(args_schema_of(tool)) or {}, written)
    reads = _without(schema, injected)
    try:
        read = reads.model_validate(written)
        names = (*type(read).model_fields, *(read.model_extra or {}))
        made = {name: _written(getattr(read, name)) for name in names if name not in injected}
        return says(shown, made, is_same_read=_reads_alike(reads, made, read))
    except ValidationError:
        return not injected  # it does not run, or cannot be told without what LangChain injects
    except PydanticSerializationError:
        return False


def _written(value: Any) -> Any:
    """The JSON of a value, by the names that its schema has. Of a tool's own parameters LangChain takes no others than
    theirs."""
    return as_shown(value, to_jsonable_python(value, by_alias=True))


def own_arguments(tool: Any, given: Any) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Of the arguments that a node gives a tool by itself, those that a model could give, as JSON; the others; and
    whether JSON says all of the former."""
    if _takes_one_text(tool):  # whatever its name
        values = [*given.values()] if isinstance(given, dict) else [given]
        given = {_TEXT: values[0]} if len(values) == 1 else given
    elif not isinstance(given, dict):  # the only one, or the first
        given = {next(iter(tool.args), "input"): given}
    schema = getattr(tool, "args_schema", None)
    is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
    injected = _injected(tool, schema) if is_model else frozenset[str]()
    shown = {name: value for name, value in given.items() if name not in injected}
    added = {name: value for name, value in given.items() if name in injected}
    # Without addresses, which are others in each process: what is asked has to be the same in a replay.
    plain: dict[str, Any] = to_jsonable_python(
        shown, bytes_mode="base64", fallback=lambda it: f"<{type(it).__qualname__}>"
    )
    return plain, added, plain == shown or (is_model and _says_the_same(_without(schema, injected), plain, shown))


def _says_the_same(reads: type[BaseModel], plain: dict[str, Any], shown: dict[str, Any]) -> bool:
    try:
        return _reads_alike(reads, plain, reads.model_validate(shown))
    except ValidationError:
        return False


_TEXT: Final = "__arg1"
_ONE_TEXT: Final[dict[str, Any]] = {"type": "object", "properties": {_TEXT: {"type": "string"}}, "required": [_TEXT]}
"""What LangChain tells a model of a ``Tool``. The schema that it has of it is that of its own ``_run``."""


def _takes_one_text(tool: Any) -> bool:
    return isinstance(tool, Tool) and tool.args_schema is None


def _injected(tool: Any, schema: Any) -> frozenset[str]:
    """The parameters that no model is told of."""
    return frozenset(schema.model_fields) - frozenset(tool.tool_call_schema.model_fields)


def _reads_alike(reads: type[BaseModel], made: dict[str, Any], read: BaseModel) -> bool:
    try:
        return reads.model_validate(made) == read
    except ValidationError:
        return False


@lru_cache(maxsize=256)
def _without(schema: type[BaseModel], injected: frozenset[str]) -> type[BaseModel]:
    """A tool's model that reads arguments without what LangChain adds to them when it calls."""
    if not injected:
        return schema
    fields: dict[str, Any] = dict.fromkeys(injected, (Any, None))
    return create_model(schema.__name__, __base__=schema, **fields)
