"""`output_type`: a final message that is JSON of a given type."""

from __future__ import annotations

import re
from typing import Any, Final

from hitl.models.chat_client import ResponseFormat
from hitl.tools.schema import describe_errors
from hitl.turn.undescribed import why_not

WRAPPED: Final = "result"
"""The member that holds a value which is no object by itself: providers take schemas of objects only."""


class StructuredOutput:
    """A type that a final message must parse as."""

    def __init__(self, wanted: Any, option: str):
        """`wanted`: whatever pydantic reads, a model, dataclass, TypedDict, union, list or scalar; TypeError for what
        JSON cannot describe, which names the `option` that it was given as."""
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, create_model

        name = getattr(wanted, "__name__", "response")
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(wanted)
            schema = _with_its_root(adapter.json_schema())
            self._is_wrapped = schema.get("type") != "object"
            if self._is_wrapped:
                adapter = TypeAdapter(create_model("response", **{WRAPPED: (wanted, ...)}))  # type: ignore[call-overload]
                schema = adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            reason, hint = why_not(error)
            shown = repr(name if hasattr(wanted, "__name__") else wanted)
            said = f"{option} {shown} is no type that JSON can describe: {reason}"
            raise TypeError(said if hint is None else f"{said}\n\nhint: {hint}") from error
        self._adapter = adapter
        self.format = ResponseFormat(re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], schema)

    def parse(self, content: str | None) -> Any:
        """The value that a message holds; `ValueError` that tells a model what is wrong with it."""
        from pydantic import ValidationError

        try:
            parsed = self._adapter.validate_json(content or "")
        except ValidationError as error:
            raise ValueError(describe_errors(error)) from None
        return getattr(parsed, WRAPPED) if self._is_wrapped else parsed


def _with_its_root(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type that is part of itself with what it refers to in its place: providers look no further than
    there for the type of a reply."""
    root = schema
    while (reference := root.get("$ref")) is not None:
        root = schema["$defs"][reference.rpartition("/")[2]]
    return schema if root is schema else {**root, "$defs": schema["$defs"]}
