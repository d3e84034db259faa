"""A text of JSON, as models write arguments, of which people, tools and messages get the same."""

from __future__ import annotations

import pytest

from hitl.strict_json import sendable_text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('{"path": "a\\ud83d"}', '{"path": "a�"}'),
        ('{"a\\uDC00": [1.0, "b"]}', '{"a�": [1.0, "b"]}'),
        ('{"path": "\\ud83d\\ude00"}', '{"path": "\\ud83d\\ude00"}'),  # a whole character stays as it was written
        ('{ "path":"a" }', '{ "path":"a" }'),
        ('{"path": "a\\ud83d', '{"path": "a\\ud83d'),
        ('{"path": "a\ud83d"}', '{"path": "a�"}'),
        ("", ""),
    ],
)
def test_halves_of_characters_are_replaced_and_nothing_else_is_written_otherwise(text: str, sent: str) -> None:
    assert sendable_text(text) == sent
