"""`response_format`: a final message that is an object of a given type."""

from __future__ import annotations

import re
from typing import Any

from hitl.models.chat_client import ResponseFormat
from hitl.tools.schema import describe_errors


class StructuredOutput:
    """A type that a final message must parse as."""

    def __init__(self, wanted: Any):
        """`wanted`: a pydantic model, a dataclass or a TypedDict; `TypeError` for what is no object in JSON."""
        from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

        name = getattr(wanted, "__name__", "response")
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(wanted)
            schema = self._adapter.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            reason = str(error).splitlines()[0]
            raise TypeError(f"response_format {name!r} is no type that JSON can describe: {reason}") from error
        if schema.get("type") != "object" and "$ref" not in schema:
            raise TypeError(
                f"response_format must describe an object, and {name!r} does not\n\nhint: wrap it in a model"
            )
        self.format = ResponseFormat(re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], schema)

    def parse(self, content: str | None) -> Any:
        """The object a message holds; `ValueError` that tells a model what is wrong with it."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_json(content or "")
        except ValidationError as error:
            raise ValueError(describe_errors(error)) from None
