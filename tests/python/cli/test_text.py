"""What agents write cannot reach the terminal's controls, nor show something else than what it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.cli.output import Failure
from hitl.cli.tables import print_failure, print_fields
from hitl.cli.text import Stream, exact, exact_json, one_line, plain

HOSTILE = {
    "colour": ("a\x1b[31mred\x1b[0m", "ared"),
    "window title": ("a\x1b]0;title\x07b", "ab"),
    "clipboard, closed by ST": ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
    "device control": ("a\x1bPq#0\x1b\\b", "ab"),
    "8-bit CSI": ("a\x9b2Jb", "ab"),
    "8-bit OSC": ("a\x9d0;t\x9cb", "ab"),
    "erase by backspace": ("rm -rf\x08\x08\x08ls", "rm -rfls"),
    "overwrite the line": ("evil\rgood", "evil\ngood"),
    "reset": ("a\x1bcb", "ab"),
    "character set": ("a\x1b(0b", "ab"),
    "right to left override": ("a\u202egpj.exe", "agpj.exe"),
    "isolates": ("\u2066a\u2069", "a"),
    "zero width": ("pay\u200bpal", "paypal"),
    "lone surrogate": ("a\ud800b", "ab"),
    "unfinished": ("a\x1b[31", "a[31"),
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=HOSTILE.keys())
def test_controls_are_removed_from_prose(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_prose_keeps_its_lines_and_its_scripts() -> None:
    text = "a\n\tb é 日本語 👩\u200d💻 क्\u200dष"
    assert plain(text) == text
    assert one_line("a\n\n b\tc ") == "a b c"


def test_what_is_approved_shows_everything_that_is_there() -> None:
    assert exact("a\x1b[31m\u202e\u200d") == "a\\x1b[31m\\u202e\\u200d"
    assert exact_json({"path": "a\x1b\u202eb\x7f\ud800"}) == '{"path": "a\\u001b\\u202eb\\u007f\\ud800"}'


@pytest.mark.parametrize(
    "character",
    [
        *"\u3164\u115f\u1160\uffa0\u034f\ufe00\ufe0f\u180f\u2065\u2800\ufff0\ufff8",
        *"\u00a0\u2000\u200a\u202f\u3000\u1680",
        *"\U000e0100\U000e01ef\U000e0400\U0001bca0\U0001d173\ue000\U000f0000\U0010fffd\uffff\u0378",
    ],
    ids=lambda character: f"U+{ord(character):04X}",
)
def test_what_shows_nothing_or_looks_like_a_space_is_written_out(character: str) -> None:
    written = json.dumps(character)[1:-1]
    assert exact(f"/srv/data{character}") == f"/srv/data{written}".replace("\\u00a0", "\\xa0")
    assert exact_json([character]) == f'["{written}"]'


def test_what_can_be_seen_is_shown_as_it_is() -> None:
    text = "a b\n\tc é 日本語 क्ष 👩 ❤ — “x” ½ ¥ عربى"
    assert exact(text) == text


@settings(deadline=None)
@given(st.text())
def test_shown_json_is_the_value(text: str) -> None:
    assert json.loads(exact_json({"path": text})) == {"path": text}


# A busy machine may stop in the middle of any example.
@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("\x1b[]0;m\x07\\\r\nP\x9b\x9c ab\u202e"), max_size=30), st.data())
def test_pieces_come_out_as_safe_as_the_whole(text: str, data: st.DataObject) -> None:
    stream, shown, rest = Stream(), "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown, rest = shown + stream.feed(rest[:size]), rest[size:]
    shown += stream.finish()
    assert shown == plain(text)


def test_text_that_only_looks_like_an_endless_sequence_is_let_out() -> None:
    stream = Stream()
    shown = stream.feed("\x1b]0;") + stream.feed("x" * 10_000)
    assert shown == "]0;" + "x" * 10_000


def test_fields_and_failures_show_what_others_wrote_and_do_nothing_that_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evil = "old\rnew \u202etxt.exe \x1b]0;title\x07\x1b[8mhidden"
    print_fields([("agent\r", evil)])
    print_failure(Failure(evil, evil))
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert "txt.exe" in text
        for character in ("\r", "\u202e", "\x07", "\x1b]", "\x1b[8m"):
            assert character not in text
