"""`Attachment`: an image or another file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from hitl import Attachment
from hitl.journal.codec import decode, encode

PIXEL = base64.b64decode("R0lGODlhAQABAAAAACw=")


def test_bytes_are_kept_as_base64_and_come_back() -> None:
    attachment = Attachment.of_bytes(PIXEL, "image/gif", name="dot.gif")
    assert attachment.data == "R0lGODlhAQABAAAAACw="
    assert attachment.to_bytes() == PIXEL
    assert attachment.data_url == "data:image/gif;base64,R0lGODlhAQABAAAAACw="
    assert attachment.described == "dot.gif, image/gif"
    assert attachment.is_image


def test_one_that_is_elsewhere_has_an_address_and_no_bytes() -> None:
    attachment = Attachment("application/pdf", url="https://example.com/a.pdf")
    assert (attachment.to_bytes(), attachment.data_url) == (None, "https://example.com/a.pdf")
    assert (attachment.described, attachment.is_image) == ("application/pdf", False)


def test_a_file_has_its_own_name_and_the_type_that_the_name_tells(tmp_path: Path) -> None:
    file = tmp_path / "dot.gif"
    file.write_bytes(PIXEL)
    assert Attachment.of_file(file) == Attachment.of_bytes(PIXEL, "image/gif", name="dot.gif")
    assert Attachment.of_file(str(file), "image/x-own").media_type == "image/x-own"
    (tmp_path / "dot").write_bytes(PIXEL)
    with pytest.raises(ValueError, match="the name 'dot' tells no media type"):
        Attachment.of_file(tmp_path / "dot")
    with pytest.raises(FileNotFoundError):
        Attachment.of_file(tmp_path / "gone.gif")


@pytest.mark.parametrize(
    ("image", "kind", "data"),
    [
        ("iVBORw0KGgo=", "image/png", "iVBORw0KGgo="),
        ("/9j/abcd", "image/jpeg", "/9j/abcd"),
        ("R0lGODlh", "image/gif", "R0lGODlh"),
        ("UklGRg==", "image/webp", "UklGRg=="),
        ("AAAA", "image/png", "AAAA"),
        ("AA\nAA\n", "image/png", "AAAA"),
        ("data:image/webp;base64,UklGRg==", "image/webp", "UklGRg=="),
        ("data:;base64,AAAA", "image/png", "AAAA"),
    ],
)
def test_the_older_member_is_told_by_its_first_characters_or_its_url(image: str, kind: str, data: str) -> None:
    assert Attachment.of_base64_image(image) == Attachment(kind, data=data)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"media_type": None, "data": ""}, TypeError, "Attachment.media_type must be a str, got NoneType"),
        ({"media_type": "a/b", "data": b"x"}, TypeError, "Attachment.data must be a str or None, got bytes"),
        ({"media_type": "png", "data": ""}, ValueError, "Attachment.media_type must be a media type such as image/png"),
        ({"media_type": "text/plain; charset=utf-8", "data": ""}, ValueError, "Attachment.media_type"),
        ({"media_type": "a/b"}, ValueError, "an Attachment must have either data or url"),
        (
            {"media_type": "a/b", "data": "", "url": "https://a.b"},
            ValueError,
            "an Attachment must have either data or url",
        ),
        ({"media_type": "a/b", "data": "a"}, ValueError, "Attachment.data must be base64"),
        ({"media_type": "a/b", "data": "aa-_"}, ValueError, "Attachment.data must be base64"),
        ({"media_type": "a/b", "data": "é"}, ValueError, "Attachment.data must be base64"),
        ({"media_type": "a/b", "url": "file:///etc/passwd"}, ValueError, "Attachment.url must be an address"),
        ({"media_type": "a/b", "url": "https://"}, ValueError, "Attachment.url must be an address"),
        ({"media_type": "a/b", "url": "https://[x"}, ValueError, "Attachment.url must be an address"),
        ({"media_type": "", "data": ""}, ValueError, "Attachment.media_type"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Attachment(**fields)


@pytest.mark.parametrize(
    "attachment",
    [Attachment.of_bytes(PIXEL, "image/gif"), Attachment("a/b", url="https://example.com", name="x")],
)
def test_it_is_stored_and_read_back(attachment: Attachment) -> None:
    assert decode(encode([attachment])) == [attachment]
    assert Attachment.from_dict(dict(attachment.to_dict())) == attachment
