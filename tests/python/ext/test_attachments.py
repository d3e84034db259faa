"""Images and other files of a person's message, as each framework's agent is given them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, AudioUrl, BinaryContent, DocumentUrl, ImageUrl
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import hitl
from hitl import Attachment, ChatMessage
from hitl.ext.langgraph.messages import prompt_of as for_langgraph
from hitl.ext.openai_agents.messages import prompt_of as for_openai_agents
from hitl.ext.pydantic_ai.messages import prompt_of as for_pydantic_ai

IMAGE = Attachment.of_bytes(b"GIF89a", "image/gif", name="dot.gif")
PDF = Attachment.of_bytes(b"%PDF", "application/pdf", name="a.pdf")
SOUND = Attachment("audio/wav", url="https://example.com/said.wav")
ELSEWHERE = Attachment("application/pdf", url="https://example.com/a.pdf")
NOTES = Attachment.of_bytes(b"buy milk", "text/plain")


def look(*attachments: Attachment, **fields: Any) -> ChatMessage:
    return ChatMessage.user_message(content="look", attachments=list(attachments), **fields)


def test_pydantic_ai_has_parts_of_its_own_for_all_of_them() -> None:
    assert for_pydantic_ai(look(IMAGE, ELSEWHERE, SOUND, NOTES, base64_image="iVBORw0KGgo=")) == [
        "look",
        BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png"),
        BinaryContent(b"GIF89a", media_type="image/gif"),
        DocumentUrl("https://example.com/a.pdf", media_type="application/pdf"),
        AudioUrl("https://example.com/said.wav", media_type="audio/wav"),
        BinaryContent(b"buy milk", media_type="text/plain"),
    ]
    cat = Attachment("image/png", url="https://example.com/cat.png")
    assert for_pydantic_ai(ChatMessage.user_message(attachments=[cat])) == [
        ImageUrl("https://example.com/cat.png", media_type="image/png")
    ]


def test_openai_agents_get_items_of_the_responses_api() -> None:
    assert for_openai_agents(look(IMAGE, PDF, NOTES)) == {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/gif;base64,R0lGODlh"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_text", "text": "[text/plain]\nbuy milk"},
        ],
    }


def test_langgraph_gets_blocks_of_langchain() -> None:
    message = for_langgraph(look(IMAGE, PDF, SOUND, NOTES))
    assert message.content == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlh"}},
        {
            "type": "file",
            "mime_type": "application/pdf",
            "base64": "JVBERg==",
            "extras": {"filename": "a.pdf"},
        },
        {"type": "audio", "mime_type": "audio/wav", "url": "https://example.com/said.wav"},
        {"type": "text", "text": "[text/plain]\nbuy milk"},
    ]
    assert [block["type"] for block in message.content_blocks] == ["text", "image", "file", "audio", "text"]


@pytest.mark.parametrize("prompt_of", [for_pydantic_ai, for_openai_agents, for_langgraph])
def test_a_message_without_any_is_text(prompt_of: Any) -> None:
    prompt = prompt_of(ChatMessage.user_message(content="hi", attachments=[]))
    content = prompt if isinstance(prompt, str) else prompt["content"] if isinstance(prompt, dict) else prompt.content
    assert content == "hi"


async def test_what_was_attached_is_there_in_the_next_turn(tmp_path: Path) -> None:
    seen: list[Any] = []

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests = [message for message in messages if isinstance(message, ModelRequest)]
        seen.append([part.content for each in requests for part in each.parts if isinstance(part, UserPromptPart)])
        return ModelResponse([TextPart("a dot")])

    agent = Agent(FunctionModel(say), name="looker")
    store = tmp_path / "hitl.db"
    await hitl.run(agent, look(IMAGE), store=store, session="s")
    second = await hitl.run(agent, "And now?", store=store, session="s")
    assert second.output == "a dot"
    prompts = [[each if isinstance(each, str) else (each[0], each[1].data) for each in asked] for asked in seen]
    assert prompts == [[("look", b"GIF89a")], [("look", b"GIF89a"), "And now?"]]
