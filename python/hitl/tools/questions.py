"""`ask_user_question`: a tool with which a model asks a person structured questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hitl import _core
from hitl.tools.context import RunContext
from hitl.tools.definition import Tool
from hitl.tools.schema import Arguments, InvalidArguments, JsonObject, JsonParameters
from hitl.turn.runtime import current_turn

QUESTIONS_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "description": "The questions to ask, 1 to 4.",
            "minItems": 1,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The full question, ending with a question mark."},
                    "header": {"type": "string", "description": "A short label for it, 12 characters at most."},
                    "multiSelect": {
                        "type": "boolean",
                        "default": False,
                        "description": "Whether several options may be chosen together.",
                    },
                    "options": {
                        "type": "array",
                        "description": "The choices, 2 to 4. Free text is always offered beside them.",
                        "minItems": 2,
                        "maxItems": 4,
                        "items": {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string", "description": "What is chosen, in 1 to 5 words."},
                                "description": {"type": "string", "description": "What choosing it means."},
                                "markdown": {
                                    "anyOf": [{"type": "string"}, {"type": "null"}],
                                    "default": None,
                                    "description": "A preview, shown in a monospace box beside the option.",
                                },
                            },
                            "required": ["label", "description"],
                        },
                    },
                },
                "required": ["question", "header", "options"],
            },
        }
    },
    "required": ["questions"],
}
"""What the model is told. The check itself is `_core.check_questions`, the same one that the server makes."""


class _QuestionParameters(JsonParameters):
    """The `Parameters` of `ask_user_question`: errors name the field that is wrong."""

    json_schema: JsonObject = QUESTIONS_SCHEMA
    names: frozenset[str] | None = frozenset({"questions"})

    def check(self, given: Mapping[str, Any]) -> Arguments:
        try:
            payload = _core.check_questions(dict(given))
        except ValueError as error:
            raise InvalidArguments(str(error)) from None
        return Arguments({"questions": payload["questions"]}, {"questions": payload["questions"]}, given)

    def to_json(self, values: Mapping[str, Any]) -> JsonObject:
        plain: JsonObject = json.loads(json.dumps(values))
        return plain


async def _ask_user_question(questions: list[dict[str, Any]], context: RunContext[Any]) -> dict[str, Any]:
    """Ask the user 1 to 4 questions, each with 2 to 4 options to choose from.

    Use it when you need information or a preference that you cannot find out yourself. The user may always answer in
    words of their own instead. Returns the answer to each question, by the question's text.
    """
    turn = current_turn("ask_user_question()")
    payload = json.loads(_core.check_payload({"type": "user_input", "questions": questions}, turn.max_payload))
    answer = await turn.ask("user_input", payload, tool_call_id=context.tool_call_id)
    answers: dict[str, Any] = answer["answers"]
    return answers


# Never `once`: its body holds a step of its own, the interrupt, and a crash must let an open question stand.
ask_user_question: Final[Tool[..., Any]] = Tool.with_parameters(
    _ask_user_question, _QuestionParameters(), name="ask_user_question", once=False
)
"""The tool to give an agent: `ReActAgent(..., tools=[ask_user_question])`."""
