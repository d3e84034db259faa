"""What streams into a chat is broken between words, at any width and however it comes in pieces."""

from __future__ import annotations

import pytest

from hitl.cli.chat.flow import Flow

TEXT = "I can call list_files and delete_file,\nand look at \u6587\u4ef6 in_a_folder."


def on_screen(pieces: list[str], columns: int) -> list[str]:
    """What stands on a terminal of that width at the end, which itself would break a line anywhere."""
    flow = Flow()
    lines: list[list[str]] = [[]]
    column = 0
    for character in "".join(flow.take(piece, columns) for piece in pieces):
        if character == "\n":
            lines.append([])
            column = 0
        elif character == "\b":
            column -= 1
        else:
            lines[-1][column : column + 1] = [character]
            column += 1
    return ["".join(line).rstrip() for line in lines]


@pytest.mark.parametrize("columns", [14, 17, 20, 27, 40, 80])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_no_word_is_cut(columns: int, size: int) -> None:
    shown = on_screen([TEXT[start : start + size] for start in range(0, len(TEXT), size)], columns)
    assert " ".join(shown).split() == TEXT.split()
    assert all(len(line) < columns for line in shown)


def test_a_word_that_no_line_has_room_for_is_left_to_the_terminal() -> None:
    assert on_screen(["a ", "x" * 50], 20) == ["a " + "x" * 50]


def test_what_fits_is_written_as_it_comes() -> None:
    flow = Flow()
    assert [flow.take(piece, 80) for piece in ("It is sun", "ny", " to", "day.")] == ["It is sun", "ny", " to", "day."]
