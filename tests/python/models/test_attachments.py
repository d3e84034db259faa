"""Attachments on their way to a model: what each API takes, in the shape that its own package declares."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from hitl.attachments import Attachment
from hitl.messages import ChatMessage
from hitl.models import anthropic_wire, attached, responses_wire, wire

IMAGE = Attachment.of_bytes(b"\x89PNG", "image/png", name="dot.png")
IMAGE_ELSEWHERE = Attachment("image/jpeg", url="https://example.com/cat.jpg")
PDF = Attachment.of_bytes(b"%PDF-1.7", "application/pdf", name="report.pdf")
PDF_ELSEWHERE = Attachment("application/pdf", url="https://example.com/report.pdf")
NOTES = Attachment.of_bytes("naïve".encode(), "text/markdown", name="notes.md")
SOUND = Attachment.of_bytes(b"RIFF", "audio/wav", name="said.wav")
TABLE = Attachment.of_bytes(b"PK", "application/vnd.oasis.opendocument.spreadsheet", name="sums.ods")
OTHER_NAME = Attachment("image/JPG", data="/9j/")
NO_TEXT = Attachment.of_bytes(b"\xff", "text/plain")

NOT_SHOWN = "[attached, and not shown to you: {}]"


def completions(*messages: ChatMessage) -> Any:
    sent = wire.conversation_to_wire(messages, reasoning=False)
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(sent)
    return sent


def responses(*messages: ChatMessage) -> Any:
    sent = responses_wire.input_of(messages, is_stored=False)
    TypeAdapter(list[ResponseInputItemParam]).validate_python(sent)
    return sent


def anthropic(*messages: ChatMessage) -> Any:
    _, sent = anthropic_wire.conversation_to_wire(messages)
    TypeAdapter(list[MessageParam]).validate_python(sent)
    return sent


COMPLETIONS: list[tuple[Attachment, Any]] = [
    (IMAGE, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}),
    (IMAGE_ELSEWHERE, {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg"}}),
    (
        PDF,
        {"type": "file", "file": {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}},
    ),
    (PDF_ELSEWHERE, NOT_SHOWN.format("application/pdf, at https://example.com/report.pdf")),
    (SOUND, {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    (
        Attachment("audio/MP3", data="UklGRg=="),
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
    ),
    (OTHER_NAME, {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}}),
]
RESPONSES: list[tuple[Attachment, Any]] = [
    (IMAGE, {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="}),
    (IMAGE_ELSEWHERE, {"type": "input_image", "detail": "auto", "image_url": "https://example.com/cat.jpg"}),
    (
        PDF,
        {"type": "input_file", "filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="},
    ),
    (PDF_ELSEWHERE, {"type": "input_file", "file_url": "https://example.com/report.pdf"}),
    (SOUND, NOT_SHOWN.format("said.wav, audio/wav")),
    (OTHER_NAME, {"type": "input_image", "detail": "auto", "image_url": "data:image/jpeg;base64,/9j/"}),
]
ANTHROPIC: list[tuple[Attachment, Any]] = [
    (IMAGE, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}),
    (IMAGE_ELSEWHERE, {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.jpg"}}),
    (
        PDF,
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="},
            "title": "report.pdf",
        },
    ),
    (PDF_ELSEWHERE, {"type": "document", "source": {"type": "url", "url": "https://example.com/report.pdf"}}),
    (SOUND, NOT_SHOWN.format("said.wav, audio/wav")),
    (OTHER_NAME, {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}}),
]
EVERYWHERE: list[tuple[Attachment, Any]] = [
    (NOTES, "[notes.md, text/markdown]\nnaïve"),
    (TABLE, NOT_SHOWN.format("sums.ods, application/vnd.oasis.opendocument.spreadsheet")),
    (NO_TEXT, NOT_SHOWN.format("text/plain")),
    (
        Attachment("text/plain", url="https://example.com/a.txt"),
        NOT_SHOWN.format("text/plain, at https://example.com/a.txt"),
    ),
    (Attachment.of_bytes(b"<svg/>", "image/svg+xml"), "[image/svg+xml]\n<svg/>"),
    (Attachment.of_bytes(b"II*", "image/tiff"), NOT_SHOWN.format("image/tiff")),
    (Attachment("image/png", data="", name="dot.png"), "[attached, and cannot be read: dot.png, image/png]"),
    (Attachment("application/pdf", data=""), "[attached, and cannot be read: application/pdf]"),
    (Attachment("audio/wav", data=""), "[attached, and cannot be read: audio/wav]"),
    (Attachment("TEXT/Plain", data="", name="empty.txt"), "[empty.txt, TEXT/Plain]\n"),
]


def user(attachment: Attachment) -> ChatMessage:
    return ChatMessage.user_message(content="look", attachments=[attachment])


@pytest.mark.parametrize(("attachment", "expected"), COMPLETIONS + EVERYWHERE)
def test_chat_completions_of_a_user(attachment: Attachment, expected: Any) -> None:
    part = {"type": "text", "text": expected} if isinstance(expected, str) else expected
    assert completions(user(attachment)) == [{"role": "user", "content": [{"type": "text", "text": "look"}, part]}]


@pytest.mark.parametrize(("attachment", "expected"), RESPONSES + EVERYWHERE)
def test_responses_of_a_user_and_of_a_tool(attachment: Attachment, expected: Any) -> None:
    part = {"type": "input_text", "text": expected} if isinstance(expected, str) else expected
    parts = [{"type": "input_text", "text": "look"}, part]
    assert responses(user(attachment)) == [{"role": "user", "content": parts}]
    result = ChatMessage.tool_message(content="look", tool_call_id="c1", attachments=[attachment])
    assert responses(result) == [{"type": "function_call_output", "call_id": "c1", "output": parts}]


@pytest.mark.parametrize(("attachment", "expected"), ANTHROPIC + EVERYWHERE)
def test_messages_of_a_user_and_of_a_tool(attachment: Attachment, expected: Any) -> None:
    part = {"type": "text", "text": expected} if isinstance(expected, str) else expected
    blocks = [{"type": "text", "text": "look"}, part]
    assert anthropic(user(attachment)) == [{"role": "user", "content": blocks}]
    result = ChatMessage.tool_message(content="look", tool_call_id="c1", attachments=[attachment])
    told = {"type": "tool_result", "tool_use_id": "c1", "content": blocks}
    assert anthropic(result) == [{"role": "user", "content": [told]}]


def calls(*ids: str) -> ChatMessage:
    return ChatMessage.assistant_message(
        tool_calls=[{"id": id, "type": "function", "function": {"name": "draw", "arguments": "{}"}} for id in ids]
    )


def result(id: str, *attachments: Attachment) -> ChatMessage:
    return ChatMessage.tool_message(
        content=f"of {id}", tool_call_id=id, name="draw", attachments=list(attachments) or None
    )


def test_in_chat_completions_what_tools_attach_follows_the_last_result_of_the_same_message() -> None:
    """The API takes files of users alone, and nothing between the results of one message's calls."""
    sent = completions(
        calls("c1", "c2"), result("c1", IMAGE), result("c2", PDF, NOTES), calls("c3"), result("c3", IMAGE_ELSEWHERE)
    )
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "user", "assistant", "tool", "user"]
    assert [message["content"] for message in sent if message["role"] == "tool"] == ["of c1", "of c2", "of c3"]
    assert [part.get("text", part["type"]) for part in sent[3]["content"]] == [
        "Attached to the result of draw (call c1):",
        "image_url",
        "Attached to the result of draw (call c2):",
        "file",
        "[notes.md, text/markdown]\nnaïve",
    ]
    assert sent[6]["content"][1]["image_url"]["url"] == "https://example.com/cat.jpg"


def test_the_older_member_and_attachments_go_together() -> None:
    message = ChatMessage.user_message(base64_image="R0lGODlh", attachments=[IMAGE])
    [sent] = completions(message)
    assert [part["image_url"]["url"][:15] for part in sent["content"]] == ["data:image/gif;", "data:image/png;"]


@pytest.mark.parametrize("send", [completions, responses, anthropic])
def test_of_what_an_assistant_attached_its_model_is_told_the_name(send: Any) -> None:
    """No API takes files of an assistant; a model that is not told would not know what it has shown."""
    message = ChatMessage.assistant_message(content="Here it is.", attachments=[IMAGE])
    [sent] = send(message)
    said = sent["content"] if isinstance(sent["content"], str) else sent["content"][0]["text"]
    assert said == "Here it is.\n\n[attached, and not shown to you: dot.png, image/png]"


@pytest.mark.parametrize("send", [completions, responses, anthropic])
@pytest.mark.parametrize("image", ["no-base64", "data:text/plain,helloooo"])
def test_of_an_older_member_that_cannot_be_read_the_model_is_told(send: Any, image: str) -> None:
    """A session may have stored it: an error here would be the end of it."""
    message = ChatMessage.user_message(content="look", base64_image=image)
    [sent] = send(message)
    assert sent["content"][1]["text"] == "[attached, and cannot be read: image, application/octet-stream]"


@pytest.mark.parametrize("image", ["data:image/jpg;base64,/9j/", "DATA:IMAGE/JPEG;BASE64,/9j/", "/9j/\n"])
def test_the_older_member_is_shown_however_it_is_written(image: str) -> None:
    [sent] = completions(ChatMessage.user_message(base64_image=image))
    assert sent["content"] == [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}}]


def test_a_message_of_a_user_is_not_read_to_find_out_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(attachment: Attachment) -> str:
        raise AssertionError("read")

    monkeypatch.setattr(attached, "text_of", read)
    message = user(NOTES)
    assert attached.in_the_form_of_its_role(message) is message
