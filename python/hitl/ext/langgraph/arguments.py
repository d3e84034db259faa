"""The arguments of a call: those that a model wrote, and what LangChain makes of them before a tool gets them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from hitl.ext.gating import JudgedArguments


def shown(tool: Any, written: dict[str, Any]) -> JudgedArguments:
    """What would run, defaults too, where a person who changes a part of it leaves the rest as it is. Where it would be
    converted once more by that, or cannot be written as JSON, it is what the model wrote.

    A tool with a JSON Schema gets what the model wrote, and one that does not take it says so itself.
    """
    schema = getattr(tool, "tool_call_schema", None)
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return JudgedArguments(written, True)
    try:
        read = schema.model_validate(written)
    except ValidationError:
        return JudgedArguments(written, True)
    try:
        made = read.model_dump(mode="json", by_alias=True)
        return JudgedArguments(made, True) if schema.model_validate(made) == read else JudgedArguments(written, False)
    except (PydanticSerializationError, ValidationError):
        return JudgedArguments(written, False)
