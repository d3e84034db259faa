"""Images and other files of a session's messages, as an agent of Strands is given them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from strands import Agent
from strands.models import BedrockModel, Model
from strands.models.anthropic import AnthropicModel

import hitl
from hitl import Attachment, ChatMessage
from hitl.ext.strands.messages import history_of, prompt_of, takes_office
from hitl.messages import ToolCall

IMAGE = Attachment.of_bytes(b"GIF89a", "image/gif")
PDF = Attachment.of_bytes(b"%PDF", "application/pdf", name="Q3 report (final).pdf")
ELSEWHERE = Attachment("image/png", url="https://example.com/a.png", name="a.png")
NOTES = Attachment.of_bytes(b"a,b", "text/csv", name="a.csv")
SHEET = Attachment.of_bytes(b"PK", "application/vnd.ms-excel", name="sales.xls")
SHEET_TOLD = "[attached, and not shown to you: sales.xls, application/vnd.ms-excel]"


def look(*attachments: Attachment, content: str | None = "look") -> ChatMessage:
    return ChatMessage.user_message(content=content, attachments=list(attachments))


def names_in(prompt: Any) -> list[str]:
    return [block["document"]["name"] for block in prompt if "document" in block]


def test_images_and_pdf_are_blocks_and_what_else_there_is_is_text() -> None:
    prompt = prompt_of(look(IMAGE, PDF, ELSEWHERE, NOTES, SHEET))
    (name,) = names_in(prompt)
    assert prompt == [
        {"text": "look"},
        {"image": {"format": "gif", "source": {"bytes": b"GIF89a"}}},
        {"document": {"format": "pdf", "name": name, "source": {"bytes": b"%PDF"}}},
        {"text": "[attached, and not shown to you: a.png, image/png, at https://example.com/a.png]"},
        {"text": "[a.csv, text/csv]\na,b"},
        {"text": SHEET_TOLD},
    ]
    assert re.fullmatch(r"Q3 report \(final\) pdf [0-9a-f]{8}", name)


def test_a_message_without_any_is_text() -> None:
    assert prompt_of(ChatMessage.user_message(content="hi", attachments=[])) == "hi"


def test_text_in_no_encoding_that_the_models_read_is_named() -> None:
    latin = Attachment.of_bytes("é".encode("latin-1"), "text/plain")
    assert prompt_of(look(latin)) == [{"text": "look"}, {"text": "[attached, and not shown to you: text/plain]"}]


def test_a_file_without_bytes_is_named_and_no_block_of_a_prompt_or_of_a_tools_result() -> None:
    empty = Attachment("image/png", data="", name="dot.png")
    told = {"text": "[attached, and cannot be read: dot.png, image/png]"}
    assert prompt_of(look(empty, Attachment("application/pdf", data=""))) == [
        {"text": "look"},
        told,
        {"text": "[attached, and cannot be read: application/pdf]"},
    ]
    drawn = ChatMessage("tool", "drawn", tool_call_id="c1", name="draw", attachments=[empty])
    (message,) = history_of([drawn]).messages
    assert cast(Any, message["content"][0])["toolResult"]["content"] == [{"text": "drawn"}, told]


def test_office_is_a_document_of_bedrock_and_named_to_the_others() -> None:
    assert prompt_of(look(SHEET), office=True)[1] == {
        "document": {
            "format": "xls",
            "name": names_in(prompt_of(look(SHEET), office=True))[0],
            "source": {"bytes": b"PK"},
        }
    }
    bedrock = Agent(BedrockModel(region_name="us-east-1"), callback_handler=None)
    assert takes_office(bedrock)
    assert not takes_office(Agent(AnthropicModel(model_id="m", max_tokens=1), callback_handler=None))


@pytest.mark.parametrize("name", ["report  (2)\t.pdf", "отчёт", "x" * 300, "", "   ", "a_b.pdf", "]["])
def test_the_names_of_documents_are_such_as_bedrock_takes(name: str) -> None:
    (made,) = names_in(prompt_of(look(Attachment.of_bytes(b"%PDF", "application/pdf", name=name))))
    assert re.fullmatch(r"[A-Za-z0-9()\[\]-]+( [A-Za-z0-9()\[\]-]+)*", made)
    assert len(made) <= 200


def test_no_two_documents_of_a_conversation_have_one_name_and_each_keeps_its_own() -> None:
    other = Attachment.of_bytes(b"%PDF-2", "application/pdf", name=PDF.name)
    first, second = look(PDF, other, PDF), look(PDF)
    earlier = history_of([first, second]).messages
    names = [name for message in earlier for name in names_in(message["content"])]
    names += names_in(prompt_of(second, earlier))
    assert len(set(names)) == len(names) == 5
    # What was said is said alike in every turn, whatever came after it.
    assert names_in(prompt_of(first)) == names[:3]
    assert [name for each in history_of([first]).messages for name in names_in(each["content"])] == names[:3]


def test_a_document_has_a_text_beside_it() -> None:
    assert prompt_of(look(PDF, content=None))[0] == {"text": "[attached: Q3 report (final).pdf, application/pdf]"}
    assert "text" not in prompt_of(look(IMAGE, content=None))[0]


def test_strands_is_told_of_what_everybody_in_a_session_attached() -> None:
    calls: list[ToolCall] = [{"id": "1", "type": "function", "function": {"name": "draw", "arguments": "{}"}}]
    state = [
        ChatMessage("system", "be short", attachments=[NOTES]),
        ChatMessage("assistant", "so:", tool_calls=calls, attachments=[SHEET]),
        ChatMessage("tool", "drawn", name="draw", tool_call_id="1", attachments=[IMAGE, PDF]),
        ChatMessage("tool", None, name="draw", tool_call_id="2", attachments=[IMAGE]),
    ]
    system, said, results = (message["content"] for message in history_of(state).messages)
    image = {"image": {"format": "gif", "source": {"bytes": b"GIF89a"}}}
    assert system == [{"text": "be short\n\n[a.csv, text/csv]\na,b"}]
    assert said[0] == {"text": f"so:\n\n{SHEET_TOLD}"}
    drawn, without = (cast(Any, block)["toolResult"]["content"] for block in results)
    # No model but Bedrock's and Anthropic's takes a document of a tool.
    named = {"text": "[attached, and not shown to you: Q3 report (final).pdf, application/pdf]"}
    assert drawn == [{"text": "drawn"}, image, named]
    assert without == [image]


async def test_a_file_that_is_sent_in_two_turns_has_two_names(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    class Looking(Model):
        def get_config(self) -> Any:
            return {}

        def update_config(self, **model_config: Any) -> None:
            raise NotImplementedError

        def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            seen.append([name for each in messages for name in names_in(each["content"])])
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockDelta": {"delta": {"text": "seen"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    agent = Agent(Looking(), name="looker", callback_handler=None)
    store = tmp_path / "hitl.db"
    for _ in range(2):
        run = await hitl.run(agent, look(PDF), store=store, session="s")
        assert run.output == "seen"
    assert seen[1][:1] == seen[0]
    assert len(set(seen[1])) == 2
