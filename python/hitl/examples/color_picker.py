"""Plain async functions as agents, and interrupts of their own types.

    hitl serve hitl.examples.color_picker:agent          one question
    hitl serve hitl.examples.color_picker:palette        two questions at once

A client that knows `color_picker` may show a real color picker. One that does not (`hitl chat` is one) shows the
payload and takes JSON; `response_schema` says what a valid answer is, so that a typing error never gets this far.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from hitl import ChatMessage, interrupt

HEX_COLOR = r"^#[0-9A-Fa-f]{6}$"


class Color(BaseModel):
    """An answer: `{"hex": "#4ecdc4"}`."""

    hex: Annotated[str, Field(pattern=HEX_COLOR)]


async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Ask for one color. A pydantic type as `response_schema`: the answer comes back as that type."""
    color = await interrupt(
        {"type": "color_picker", "prompt": "Which color should the title have?", "presets": ["#1d3557", "#e63946"]},
        response_schema=Color,
    )
    reply = ChatMessage.assistant_message(content=f"The title is {color.hex}.")
    return reply, [*state, message, reply]


async def palette(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
    """Ask two things in one pause, to be answered in any order. A JSON Schema works as well as a type."""
    title, background = await asyncio.gather(pick("title"), pick("background"))
    reply = ChatMessage.assistant_message(content=f"The title is {title} on {background}.")
    return reply, [*state, message, reply]


async def pick(part: str) -> str:
    answer = await interrupt(
        {"type": "color_picker", "prompt": f"Which color should the {part} have?", "presets": ["#1d3557", "#f1faee"]},
        message=f"The color of the {part}",
        response_schema={
            "type": "object",
            "properties": {"hex": {"type": "string", "pattern": HEX_COLOR}},
            "required": ["hex"],
            "additionalProperties": False,
        },
    )
    return str(answer["hex"])
