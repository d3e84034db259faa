"""Images and other files of a person's message, as an agent of Strands is given them."""

from __future__ import annotations

from hitl import Attachment, ChatMessage
from hitl.ext.strands.messages import prompt_of

IMAGE = Attachment.of_bytes(b"GIF89a", "image/gif")
PDF = Attachment.of_bytes(b"%PDF", "application/pdf", name="Q3 report (final).pdf")
ELSEWHERE = Attachment("image/png", url="https://example.com/a.png", name="a.png")


def test_images_and_documents_are_blocks_and_what_strands_has_no_block_for_is_text() -> None:
    message = ChatMessage.user_message(content="look", attachments=[IMAGE, PDF, ELSEWHERE])
    assert prompt_of(message) == [
        {"text": "look"},
        {"image": {"format": "gif", "source": {"bytes": b"GIF89a"}}},
        {"document": {"format": "pdf", "name": "2 Q3 report (final) pdf", "source": {"bytes": b"%PDF"}}},
        {"text": "[attached, and not shown to you: a.png, image/png, at https://example.com/a.png]"},
    ]


def test_a_message_without_any_is_text() -> None:
    assert prompt_of(ChatMessage.user_message(content="hi", attachments=[])) == "hi"
