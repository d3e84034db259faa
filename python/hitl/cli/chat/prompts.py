"""The widgets of the chat: a menu with arrow keys, a line of text. Each vanishes when it is done.

Ctrl-C and Ctrl-D raise `PersonLeft`. Cancelling the task that awaits a widget closes it cleanly.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app, get_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import AnyContainer, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import Frame

from hitl.cli.text import one_line, plain
from hitl.errors import HitlError

_STYLE = Style.from_dict(
    {
        "title": "bold",
        "chip": "reverse",
        "current": "ansicyan bold",
        "detail": "ansibrightblack",
        "help": "ansibrightblack",
        "complaint": "ansired",
        "frame.border": "ansibrightblack",
    }
)

NARROW = 80
"""Columns. Below this a preview stands under the list."""


class PersonLeft(HitlError):
    """Ctrl-C or Ctrl-D in a prompt: whoever sat there does not want to answer now."""

    code = "person_left"


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu. Texts may come from an agent; menus print them safely.

    preview: shown in a box beside the list while the choice is the current one.
    """

    label: str
    description: str = ""
    preview: str | None = None


async def choose(
    title: str, choices: Sequence[Choice], *, chip: str = "", spellings: Mapping[str, int] = MappingProxyType({})
) -> int:
    """Let a person pick one; the index of it. What is typed is what a choice is called, its number or one of
    `spellings`, or nothing is chosen: whoever types a no and Enter has not said yes. Nor has who presses Enter alone:
    nothing is marked before an arrow key or what is typed marks it."""
    return (await _Menu(title, chip, choices, spellings={**_called(choices), **spellings}).run())[0]


async def choose_or_write(title: str, choices: Sequence[Choice], *, chip: str = "") -> int | str:
    """As `choose`, where the last choice stands for any text: what is typed and no choice is such a text."""
    menu = _Menu(title, chip, choices, spellings=_called(choices), takes_text=True)
    found = await menu.run()
    return found[0] if found else menu.typed


def _called(choices: Sequence[Choice]) -> dict[str, int]:
    """Which choice is meant by its label, exactly or, where that is none, in other letters."""
    labels = list(reversed(list(enumerate(choice.label for choice in choices))))
    return {label.casefold(): index for index, label in labels} | {label: index for index, label in labels}


async def choose_several(title: str, choices: Sequence[Choice], *, chip: str = "") -> list[int]:
    """Let a person pick at least one, with the space bar; the indices in the order of the menu."""
    return await _Menu(title, chip, choices, spellings=None).run()


async def enter_text(label: str, *, default: str = "", before: str = "") -> str:
    """A line of text that answers something, without surrounding white space; it may be empty.

    before: what was typed to the same question and not taken; the up arrow brings it back.
    """
    _discard_typed_ahead()
    return (await _line(label, default, before)).strip()


async def enter_message(history: PromptSession[str]) -> str | None:
    """The next message; None for Ctrl-D."""
    try:
        while True:
            text = (await history.prompt_async("> ")).strip()
            if text:
                return text
    except EOFError:
        return None


def message_history() -> PromptSession[str]:
    """Remembers messages for the arrow keys, as long as the chat is open. Ctrl-C takes what is typed away first."""
    keys = KeyBindings()

    @keys.add("c-c", filter=Condition(lambda: get_app().current_buffer.text != ""))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return PromptSession(interrupt_exception=PersonLeft, eof_exception=EOFError, key_bindings=keys)


async def press_enter(text: str) -> None:
    """Wait for Enter, so that a key meant for something that has just vanished decides nothing."""
    _discard_typed_ahead()
    await _line(text, "")


async def _line(label: str, default: str, before: str = "") -> str:
    prompt: PromptSession[str] = PromptSession(
        erase_when_done=True,
        history=InMemoryHistory([before] if before else []),
        interrupt_exception=PersonLeft,
        eof_exception=PersonLeft,
        style=_STYLE,
    )
    return await prompt.prompt_async([("class:title", one_line(label) + " ")], default=default)


def _discard_typed_ahead() -> None:
    """Forget keys that were pressed before the question was on the screen: they cannot be its answer."""
    clear_typeahead(get_app_session().input)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class _Menu:
    def __init__(
        self,
        title: str,
        chip: str,
        choices: Sequence[Choice],
        *,
        spellings: Mapping[str, int] | None,
        takes_text: bool = False,
    ) -> None:
        """spellings: what may be typed for the one that is chosen; None where several are.

        takes_text: whether any other text is an answer, and the last choice stands for it; then none is chosen.
        """
        self._title = plain(title).strip()
        self._chip = one_line(chip)
        self._choices = choices
        self._several = spellings is None
        self._spellings = spellings
        self._takes_text = takes_text
        self.typed = ""
        # Of several each is taken by itself. Where one is, an Enter that was meant for something else takes none.
        self._current: int | None = 0 if self._several else None
        self._chosen: set[int] = set()
        self._complaint = ""

    async def run(self) -> list[int]:
        _discard_typed_ahead()
        application: Application[list[int]] = Application(
            layout=Layout(self._container()),
            key_bindings=self._keys(),
            style=_STYLE,
            erase_when_done=True,
        )
        return await application.run_async()

    def _container(self) -> AnyContainer:
        options: AnyContainer = Window(
            FormattedTextControl(self._option_lines, focusable=True, show_cursor=False),
            wrap_lines=True,
            dont_extend_height=True,
        )
        if any(choice.preview for choice in self._choices):
            preview = Frame(
                Window(FormattedTextControl(self._preview_text), wrap_lines=False, height=self._preview_height()),
                title="Preview",
            )
            side_by_side = _terminal_size().columns >= NARROW
            options = VSplit([options, preview], padding=2) if side_by_side else HSplit([options, preview])
        return HSplit(
            [
                Window(FormattedTextControl(self._title_line), wrap_lines=True, dont_extend_height=True),
                options,
                Window(FormattedTextControl(self._help_line), wrap_lines=True, dont_extend_height=True),
            ]
        )

    def _preview_height(self) -> Dimension:
        longest = max(1, *(len(_preview(choice).splitlines()) for choice in self._choices))
        return Dimension(preferred=longest, max=min(longest, max(5, _terminal_size().rows - 8)))

    def _title_line(self) -> StyleAndTextTuples:
        chip: StyleAndTextTuples = [("class:chip", f" {self._chip} "), ("", " ")] if self._chip else []
        return [*chip, ("class:title", self._title)]

    def _option_lines(self) -> StyleAndTextTuples:
        lines: StyleAndTextTuples = []
        for index, choice in enumerate(self._choices):
            is_current = index == self._current
            mark = ("[x] " if index in self._chosen else "[ ] ") if self._several else ""
            style = "class:current" if is_current else ""
            if is_current:
                lines.append(("[SetCursorPosition]", ""))
            lines.append((style, f"{'→' if is_current else ' '} {index + 1}. {mark}{one_line(choice.label)}\n"))
            if choice.description:
                lines.append(("class:detail", f"     {one_line(choice.description)}\n"))
        # The last new line would be an empty one on the screen.
        lines[-1] = (lines[-1][0], lines[-1][1].rstrip("\n"))
        return lines

    def _preview_text(self) -> StyleAndTextTuples:
        if self._current is None:
            return [("class:detail", "of the choice that is marked")]
        text = _preview(self._choices[self._current])
        return [("", text)] if text else [("class:detail", "none")]

    def _help_line(self) -> StyleAndTextTuples:
        if self.typed:
            return [("class:title", f"> {self.typed}")]
        if self._complaint:
            return [("class:complaint", self._complaint)]
        if self._several:
            keys = "arrows to move, space to choose, Enter when done"
        elif self._spellings is None:
            keys = "arrows to move, Enter to choose"
        else:
            keys = "arrows to move, or its number, Enter to choose"
        # In a narrow terminal a line would break anywhere.
        gap = " " if _terminal_size().columns >= NARROW else "\n"
        return [("class:help", f"{keys},{gap}Ctrl-C to leave it for later")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(step: int) -> None:
            start = self._current if self._current is not None else -1 if step > 0 else 0
            self._current = (start + step) % len(self._choices)
            self._complaint = self.typed = ""

        @keys.add("up")
        @keys.add("c-p")
        def _(event: KeyPressEvent) -> None:
            move(-1)

        @keys.add("down")
        @keys.add("c-n")
        @keys.add("tab")
        def _(event: KeyPressEvent) -> None:
            move(+1)

        if self._spellings is None:
            self._add_letters(keys, move)
        else:
            self._add_typing(keys)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if self.typed.strip() and self._meant(self.typed) is None:
                if self._takes_text:
                    event.app.exit(result=[])
                    return
                self._complaint = f"{self.typed} is none of these: type one or its number, or go to it with the arrows."
                self.typed = ""
            elif self._several and self._chosen:
                event.app.exit(result=sorted(self._chosen))
            elif self._several:
                self._complaint = "Choose at least one with the space bar."
            elif self._current is None:
                nothing = "Nothing is marked: type one or its number, or go to it with the arrows."
                self._complaint = self._complaint or nothing
                self.typed = ""
            else:
                event.app.exit(result=[self._current])

        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=PersonLeft())

        return keys

    def _add_letters(self, keys: KeyBindings, move: Callable[[int], None]) -> None:
        @keys.add("k")
        def _(event: KeyPressEvent) -> None:
            move(-1)

        @keys.add("j")
        def _(event: KeyPressEvent) -> None:
            move(+1)

        for index in range(min(9, len(self._choices))):

            @keys.add(str(index + 1))
            def _(event: KeyPressEvent, index: int = index) -> None:
                self._current, self._complaint = index, ""

        @keys.add("space")
        def _(event: KeyPressEvent) -> None:
            if self._current is not None:
                self._chosen ^= {self._current}
            self._complaint = ""

    def _add_typing(self, keys: KeyBindings) -> None:
        def typed(text: str) -> None:
            self.typed, self._complaint = text, ""
            # The arrow shows what Enter would take, and nothing where it would take nothing.
            meant = self._meant(text)
            self._current = len(self._choices) - 1 if meant is None and self._takes_text and text.strip() else meant

        @keys.add(Keys.Any)
        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            # The data of a key that writes nothing begins with Escape.
            if event.data and "\x1b" not in event.data:
                typed(self.typed + plain(event.data).replace("\n", " "))

        @keys.add("backspace")
        def _(event: KeyPressEvent) -> None:
            typed(self.typed[:-1])

        @keys.add("c-u")
        def _(event: KeyPressEvent) -> None:
            typed("")

    def _meant(self, typed: str) -> int | None:
        """Which choice that is, by what it is called or by its number."""
        spellings, typed = self._spellings or {}, typed.strip()
        for spelling in (typed, typed.casefold()):
            if spelling in spellings:
                return spellings[spelling]
        is_number = typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(self._choices)
        return int(typed) - 1 if is_number else None


def _terminal_size() -> Size:
    return get_app_session().output.get_size()


def _preview(choice: Choice) -> str:
    return plain(choice.preview or "").expandtabs(4)
