"""From an interrupt to a person's answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hitl.cli.chat.expected import expected
from hitl.cli.chat.prompts import Choice, choose, choose_or_write, choose_several, enter_text
from hitl.cli.chat.rendering import Screen
from hitl.cli.text import exact, exact_json
from hitl.client import Interrupt
from hitl.strict_json import read_json

OTHER = Choice("Other", "Type something else")


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """value: what goes to the server. said: the same in words, as `(what was asked, what was answered)`.

    draft: the text it was typed as, to be had again when the server refuses it.
    """

    value: Any
    said: Sequence[tuple[str, str]]
    draft: str = ""


class Answerer:
    """Asks a person, in the way that fits the type of the interrupt."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    async def ask(self, interrupt: Interrupt, refused: ChatAnswer | None) -> ChatAnswer:
        """refused: the answer that the server would not take, when this is not the first attempt."""
        if interrupt.type == "tool_approval":
            return await self._approval(interrupt, refused)
        if _has_questions(interrupt):
            return await self._questions(interrupt.payload["questions"])
        answers = _all_answers(interrupt.response_schema)
        if refused is None:
            self._screen.custom(interrupt, has_menu=answers is not None)
        if answers is not None:
            return await _one_of(interrupt.type, answers)
        return await self._any_json(interrupt, "" if refused is None else refused.draft)

    async def _approval(self, interrupt: Interrupt, refused: ChatAnswer | None) -> ChatAnswer:
        tool, allowed = str(interrupt.tool_name), interrupt.allowed_decisions
        ways: list[tuple[str, Callable[[], Awaitable[ChatAnswer | None]]]] = []
        again: int | None = None

        def plainly(label: str, value: Any) -> None:
            async def decide() -> ChatAnswer:
                return ChatAnswer(value, [(tool, label)])

            ways.append((label, decide))

        if allowed is None or "approve" in allowed:
            plainly("Yes", {"approved": True})
        if allowed is None or "reject" in allowed:
            plainly("No", {"approved": False})
            ways.append(("No, and tell it why", partial(self._rejection, tool)))
        if allowed is not None and "approve" in allowed:
            plainly("Yes, and do not ask again in this session", {"approved": True, "always": True})
        if allowed is not None and "edit" in allowed:
            again = len(ways) if _is_of(refused, "edit") else again
            ways.append(("Yes, with other arguments", partial(self._edit, interrupt, _draft(refused, "edit"))))
        if allowed is not None and "respond" in allowed:
            again = len(ways) if _is_of(refused, "respond") else again
            ways.append(("Answer in its place", partial(self._response, tool, _draft(refused, "respond"))))
        choices = [Choice(label) for label, _ in ways]
        letters = _letters([label for label, _ in ways])
        while True:
            # What was refused is typed once more, and not chosen anew: a menu could be a yes to what was asked.
            index = again if again is not None else await choose(f"Run {tool}?", choices, spellings=letters)
            answer = await ways[index][1]()
            if answer is not None:
                return answer
            again = None

    async def _rejection(self, tool: str) -> ChatAnswer | None:
        reason = await enter_text("Why not? (empty to go back)")
        return ChatAnswer({"approved": False, "reason": reason}, [(tool, f"No: {reason}")]) if reason else None

    async def _edit(self, interrupt: Interrupt, draft: str) -> ChatAnswer | None:
        """None: the person goes back, or leaves the arguments as they are."""
        shown = exact_json(interrupt.tool_args)
        while True:
            draft = await enter_text("Its arguments as JSON (empty to go back):", default=draft or shown)
            if not draft:
                return None
            try:
                args = read_json(draft)
            except ValueError as error:
                self._screen.note(f"That is not JSON: {error}")
                continue
            if isinstance(args, dict):
                value = {"type": "edit", "args": args}
                return ChatAnswer(value, [(str(interrupt.tool_name), f"Yes, with {exact_json(args)}")], draft)
            self._screen.note("Arguments are a JSON object, such as " + shown)

    async def _response(self, tool: str, draft: str) -> ChatAnswer | None:
        text = await enter_text("What does it return? (empty to go back)", before=draft)
        return ChatAnswer({"type": "respond", "message": text}, [(tool, text)], text) if text else None

    async def _questions(self, questions: Sequence[Mapping[str, Any]]) -> ChatAnswer:
        answers: dict[str, Any] = {}
        said = []
        for position, question in enumerate(questions, start=1):
            chip = str(question.get("header") or "")
            if len(questions) > 1:
                chip = f"{chip} {position}/{len(questions)}".strip()
            text = question["question"]
            answers[text] = await _question(text, chip, question)
            said.append((text, ", ".join(answers[text]) if isinstance(answers[text], list) else answers[text]))
        return ChatAnswer({"answers": answers}, said)

    async def _any_json(self, interrupt: Interrupt, draft: str) -> ChatAnswer:
        """Each time from an empty line: whoever was told what is wrong types an answer, and would type it behind."""
        while True:
            draft = await enter_text("Answer as JSON (Ctrl-C to leave it for later):", before=draft)
            try:
                value = read_json(draft)
            except ValueError as error:
                self._screen.note(_no_json(draft, error, interrupt.response_schema))
            else:
                return ChatAnswer(value, [(interrupt.type, exact_json(value))], draft)


def _all_answers(schema: Any) -> list[tuple[str, Any]] | None:
    """Each answer and what it is called, where a schema allows words or a yes and no, and nothing else."""
    if not isinstance(schema, Mapping):
        return None
    words = schema.get("enum")
    if words is None and schema.get("type") == "boolean" and "const" not in schema:
        return [("Yes", True), ("No", False)]
    # A word that does not look like what it is has to be typed.
    if isinstance(words, list) and words and all(isinstance(word, str) and _is_seen(word) for word in words):
        return [(word, word) for word in words]
    return None


def _letters(labels: Sequence[str]) -> dict[str, int]:
    """What people type for a yes and a no."""
    return {label[0].lower(): index for index, label in enumerate(labels) if label in ("Yes", "No")}


def _is_seen(word: str) -> bool:
    return word != "" and word == " ".join(word.split()) == exact(word)


async def _one_of(what: str, answers: Sequence[tuple[str, Any]]) -> ChatAnswer:
    # As JSON writes it too: it is what the same question takes everywhere else.
    spellings = {exact_json(value): index for index, (_, value) in enumerate(answers)} | _letters(
        [label for label, _ in answers]
    )
    label, value = answers[await choose("Your answer?", [Choice(label) for label, _ in answers], spellings=spellings)]
    return ChatAnswer(value, [(what, label)])


def _no_json(text: str, error: ValueError, schema: Any) -> str:
    if not text:
        return "An answer is JSON: text in quotes, a number, true or false, null, [...] or {...}"
    asked_for = expected(schema)
    if asked_for is not None and not isinstance(asked_for.example, str):
        return f"That is not JSON: {error}. The answer is {asked_for}"
    if re.fullmatch(r"[^\W\d_][\w .,:;!?-]*", text):
        return f"Text needs quotes: {exact_json(text)}"
    return f'That is not JSON: {error}. Text needs quotes: "yes"'


def _draft(refused: ChatAnswer | None, kind: str) -> str:
    """What was typed for a decision of this kind, when the server would not take it."""
    return refused.draft if refused is not None and _is_of(refused, kind) else ""


def _is_of(refused: ChatAnswer | None, kind: str) -> bool:
    return refused is not None and refused.value.get("type") == kind


async def _question(text: str, chip: str, question: Mapping[str, Any]) -> str | list[str]:
    options = question["options"]
    labels = [str(option["label"]) for option in options]
    choices = [
        Choice(
            str(option["label"]), str(option.get("description") or ""), option.get("markdown") or option.get("preview")
        )
        for option in options
    ]
    choices.append(OTHER)
    while True:
        if question.get("multiSelect"):
            indices = await choose_several(text, choices, chip=chip)
        elif isinstance(chosen := await choose_or_write(text, choices, chip=chip), str):
            return chosen.strip()
        else:
            indices = [chosen]
        found = [labels[index] for index in indices if index < len(labels)]
        if len(labels) in indices:
            other = await enter_text(f"{text} (empty to go back)")
            if not other:
                continue
            found.append(other)
        return found if question.get("multiSelect") else found[0]


def _has_questions(interrupt: Interrupt) -> bool:
    """Whether it is answered as `ask_user_question` is: the server says so by the schema that goes with questions. An
    agent may borrow the type for something else, and its questions may be none that the server reads."""
    schema = interrupt.response_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if interrupt.type != "user_input" or not isinstance(properties, Mapping) or "answers" not in properties:
        return False
    questions = interrupt.payload.get("questions")
    return (
        isinstance(questions, list)
        and bool(questions)
        and all(
            isinstance(question, dict)
            and isinstance(question.get("question"), str)
            and isinstance(question.get("options"), list)
            and all(isinstance(option, dict) and "label" in option for option in question["options"])
            for question in questions
        )
    )
