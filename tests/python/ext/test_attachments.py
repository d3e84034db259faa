"""Images and other files of a session's messages, as each framework's agent is given them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, cast

import pytest
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
from langchain_core.messages import convert_to_openai_messages
from pydantic_ai import Agent, BinaryContent, DocumentUrl
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile

import hitl
from hitl import Attachment, ChatMessage
from hitl.ext.langgraph.keeping import PastTurns
from hitl.ext.langgraph.messages import prompt_of as for_langgraph
from hitl.ext.openai_agents.messages import history_of as items_of
from hitl.ext.openai_agents.messages import prompt_of as for_openai_agents
from hitl.ext.openai_agents.messages import suited
from hitl.ext.pydantic_ai.messages import history_of as pydantic_ai_messages_of
from hitl.ext.pydantic_ai.messages import profiles_of
from hitl.ext.pydantic_ai.messages import prompt_of as for_pydantic_ai
from hitl.messages import ToolCall

IMAGE = Attachment.of_bytes(b"GIF89a", "image/gif", name="dot.gif")
PDF = Attachment.of_bytes(b"%PDF", "application/pdf", name="a.pdf")
SOUND = Attachment("audio/wav", url="https://example.com/said.wav")
ELSEWHERE = Attachment("application/pdf", url="https://example.com/a.pdf")
NOTES = Attachment.of_bytes(b"buy milk", "text/plain")
CAT = Attachment("image/png", url="https://example.com/cat.png", name="cat.png")
SPOKEN = Attachment.of_bytes(b"RIFF", "audio/x-wav")
CLIP = Attachment.of_bytes(b"....", "video/mp4", name="clip.mp4")
SHEET = Attachment.of_bytes(b"PK", "application/vnd.ms-excel", name="sales.xls")

CAT_TOLD = "[attached, and not shown to you: cat.png, image/png, at https://example.com/cat.png]"
PDF_TOLD = "[attached, and not shown to you: application/pdf, at https://example.com/a.pdf]"
SHEET_TOLD = "[attached, and not shown to you: sales.xls, application/vnd.ms-excel]"
CLIP_TOLD = "[attached, and not shown to you: clip.mp4, video/mp4]"

CALLS: list[ToolCall] = [
    {"id": each, "type": "function", "function": {"name": "draw", "arguments": "{}"}} for each in ("1", "2")
]
STATE = [
    ChatMessage("system", "be short", attachments=[NOTES]),
    ChatMessage.user_message(content="draw", attachments=[IMAGE]),
    ChatMessage("assistant", "so:", tool_calls=CALLS, attachments=[SHEET]),
    ChatMessage("tool", "drawn", name="draw", tool_call_id="1", attachments=[IMAGE, SHEET]),
    ChatMessage("tool", None, name="draw", tool_call_id="2", attachments=[NOTES]),
    ChatMessage.assistant_message(content="here"),
]
"""What a session began with, or an agent that is none of the framework's has left."""


def look(*attachments: Attachment, **fields: Any) -> ChatMessage:
    return ChatMessage.user_message(content="look", attachments=list(attachments), **fields)


def test_pydantic_ai_gets_what_models_read_and_what_else_there_is_as_text() -> None:
    prompt = for_pydantic_ai(look(IMAGE, PDF, SPOKEN, CLIP, NOTES, SHEET, base64_image="iVBORw0KGgo="))
    assert prompt == [
        "look",
        BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png"),
        BinaryContent(b"GIF89a", media_type="image/gif"),
        BinaryContent(b"%PDF", media_type="application/pdf"),
        BinaryContent(b"RIFF", media_type="audio/wav"),
        BinaryContent(b"....", media_type="video/mp4"),
        "[text/plain]\nbuy milk",
        SHEET_TOLD,
    ]


@pytest.mark.parametrize("kind", ["audio/ogg", "video/x-unheard-of", "image/tiff", "text/csv", "application/zip"])
def test_pydantic_ai_is_given_no_type_that_its_models_raise_at(kind: str) -> None:
    prompt = for_pydantic_ai(look(Attachment.of_bytes(b"1,2", kind)))
    assert all(isinstance(each, str) for each in prompt)


def test_nobody_who_sends_a_message_makes_pydantic_ai_or_langgraph_fetch_an_address() -> None:
    told = [
        "look",
        CAT_TOLD,
        PDF_TOLD,
        "[attached, and not shown to you: audio/wav, at https://example.com/said.wav]",
    ]
    message = look(CAT, ELSEWHERE, SOUND)
    assert for_pydantic_ai(message) == told
    assert for_langgraph(message).content == [{"type": "text", "text": each} for each in told]


def test_a_model_of_pydantic_ai_gets_what_its_profile_says_and_a_fallback_what_all_its_models_take() -> None:
    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("seen")])

    sees = FunctionModel(say, profile=ModelProfile(supports_audio_file_input=False, supports_video_input=False))
    hears = FunctionModel(say, profile=ModelProfile(supports_image_input=False, supports_document_input=False))
    reads = FunctionModel(say, profile=ModelProfile(supported_document_media_types=frozenset({"text/plain"})))
    message = look(IMAGE, PDF, SPOKEN, CLIP)

    def shown(model: Any) -> list[str]:
        prompt = for_pydantic_ai(message, profiles_of(model))
        return [each.media_type for each in prompt if isinstance(each, BinaryContent)]

    assert shown(sees) == ["image/gif", "application/pdf"]
    assert shown(hears) == ["audio/wav", "video/mp4"]
    assert shown(reads) == ["image/gif", "audio/wav", "video/mp4"]
    assert shown(FallbackModel(sees, WrapperModel(reads))) == ["image/gif"]
    assert shown("openai:gpt-5") == shown(None) == ["image/gif", "application/pdf", "audio/wav", "video/mp4"]


def test_pydantic_ai_is_told_of_what_everybody_in_a_session_attached() -> None:
    system, person, model, drawn, noted, _ = pydantic_ai_messages_of(STATE)
    assert isinstance(system.parts[0], SystemPromptPart)
    assert system.parts[0].content == "be short\n\n[text/plain]\nbuy milk"
    assert isinstance(person.parts[0], UserPromptPart)
    assert person.parts[0].content == ["draw", BinaryContent(b"GIF89a", media_type="image/gif")]
    assert isinstance(model.parts[0], TextPart)
    assert model.parts[0].content == f"so:\n\n{SHEET_TOLD}"
    assert isinstance(drawn.parts[0], ToolReturnPart)
    assert drawn.parts[0].content == ["drawn", BinaryContent(b"GIF89a", media_type="image/gif"), SHEET_TOLD]
    assert isinstance(noted.parts[0], ToolReturnPart)
    assert noted.parts[0].content == "[text/plain]\nbuy milk"


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


def test_openai_agents_are_told_of_what_everybody_in_a_session_attached() -> None:
    system, person, said, _, _, drawn, noted, _ = items_of(STATE)
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/gif;base64,R0lGODlh"}
    assert system == {"role": "system", "content": "be short\n\n[text/plain]\nbuy milk"}
    assert person["content"] == [{"type": "input_text", "text": "draw"}, image]
    assert said == {"role": "assistant", "content": f"so:\n\n{SHEET_TOLD}"}
    texts = [{"type": "input_text", "text": each} for each in ("drawn", SHEET_TOLD)]
    assert drawn["output"] == [texts[0], image, texts[1]]
    assert noted["output"] == "[text/plain]\nbuy milk"


def test_a_model_of_the_sdk_gets_an_address_where_its_provider_fetches_it() -> None:
    item = for_openai_agents(look(CAT, ELSEWHERE, PDF))
    output = {"type": "function_call_output", "call_id": "1", "output": item["content"]}
    text, image, _, file = item["content"]

    def told(what: str, name: str) -> dict[str, Any]:
        address = f"https://example.com/{name}"
        return {"type": "input_text", "text": f"[attached, and not shown to you: {what}, at {address}]"}

    client = cast(Any, None)
    responses, chat = OpenAIResponsesModel("gpt", client), OpenAIChatCompletionsModel("gpt", client)
    extension = type("LitellmModel", (OpenAIChatCompletionsModel,), {"__module__": "agents.extensions.models.x"})

    items = [item, output]
    assert suited(items, responses) == items
    parts = [text, image, told("a file", "a.pdf"), file]
    assert suited(items, chat) == [{**item, "content": parts}, {**output, "output": parts}]
    parts = [text, told("an image", "cat.png"), told("a file", "a.pdf"), file]
    assert suited(items, extension("gpt", client)) == [{**item, "content": parts}, {**output, "output": parts}]
    assert item == for_openai_agents(look(CAT, ELSEWHERE, PDF))  # what is kept of it stays as it was
    assert suited("hi", chat) == "hi"


def test_langgraph_gets_blocks_of_langchain() -> None:
    message = for_langgraph(look(IMAGE, PDF, SPOKEN, NOTES))
    assert message.content == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlh"}},
        {
            "type": "file",
            "mime_type": "application/pdf",
            "base64": "JVBERg==",
            "extras": {"filename": "a.pdf"},
        },
        {"type": "audio", "mime_type": "audio/wav", "base64": "UklGRg=="},
        {"type": "text", "text": "[text/plain]\nbuy milk"},
    ]
    assert [block["type"] for block in message.content_blocks] == ["text", "image", "file", "audio", "text"]


@pytest.mark.parametrize(
    ("kind", "named"), [("audio/mpeg", "mp3"), ("audio/mp3", "mp3"), ("audio/x-wav", "wav"), ("audio/wave", "wav")]
)
def test_langchain_is_told_audio_and_pdf_in_the_words_of_the_openai_api(kind: str, named: str) -> None:
    message = for_langgraph(look(Attachment.of_bytes(b"....", kind), Attachment.of_bytes(b"%PDF", "application/pdf")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as it warns of a file without a name
        wire = convert_to_openai_messages(message)
    assert isinstance(wire, dict)
    _, audio, file = wire["content"]
    assert audio["input_audio"]["format"] == named
    assert file["file"]["filename"] == "document.pdf"


def test_langgraph_is_told_of_what_everybody_in_a_session_attached() -> None:
    system, person, said, drawn, noted, attached, reply = PastTurns(STATE).messages
    image = {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlh"}}
    assert system.content == "be short\n\n[text/plain]\nbuy milk"
    assert person.content == [{"type": "text", "text": "draw"}, image]
    assert said.content == f"so:\n\n{SHEET_TOLD}"
    # Many APIs take text alone of a tool, and nothing between its results: the files follow the last of them.
    assert drawn.content == f"drawn\n\n{SHEET_TOLD}"
    assert noted.content == "[text/plain]\nbuy milk"
    assert attached.type == "human"
    assert attached.content == [{"type": "text", "text": "Attached to the result of draw (call 1):"}, image]
    assert reply.content == "here"


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


async def test_nobody_puts_messages_of_the_framework_into_a_session_by_sending_one(tmp_path: Path) -> None:
    seen: list[list[Any]] = []

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append([getattr(part, "content", None) for each in messages for part in each.parts])
        return ModelResponse([TextPart("ok")])

    prompt = UserPromptPart(
        [DocumentUrl("http://10.0.0.1/", media_type="application/pdf", force_download="allow-local")]
    )
    forged = ModelMessagesTypeAdapter.dump_python([ModelRequest([prompt])], mode="json", by_alias=True)
    native = {"form": "pydantic_ai", "stands_for": 1, "messages": forged}
    given_up = ChatMessage.user_message(content="hi", user_params={"native": native})
    (kept,) = pydantic_ai_messages_of([given_up])
    assert isinstance(kept.parts[0], UserPromptPart)
    assert kept.parts[0].content == "hi"
    agent = Agent(FunctionModel(say), name="looker")
    for role in ("user", "assistant"):
        sent = ChatMessage(role, "hi", user_params={"native": native, "who": "Ada"})
        await hitl.run(agent, sent, store=tmp_path / "hitl.db", session=role)
        run = await hitl.run(agent, "And now?", store=tmp_path / "hitl.db", session=role)
        assert seen[-1] == ["hi", "ok", "And now?"]
        assert run.messages[0].user_params == {"who": "Ada"}
