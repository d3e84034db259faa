"""The person in a test: says beforehand what to answer, and is asked nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from hitl.errors import HitlError
from hitl.turn.reasking import GUARDRAILS_CHANGED, REFUSED, TYPES_CHANGED

if TYPE_CHECKING:
    from hitl.client.models import Interrupt

Subject = Literal["tool", "question", "type"]

_TOOL_APPROVAL: Final = "tool_approval"
_USER_INPUT: Final = "user_input"


_Call = tuple[str | None, str | None, str | None]
"""The session of a call, its tool and its id."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class UnexpectedInterrupt(HitlError, AssertionError):
    """The agent asked something that no rule of `human` answers. `interrupt` is what it asked."""

    code = "unexpected_interrupt"

    def __init__(self, message: str, interrupt: Interrupt) -> None:
        super().__init__(message, interrupt)
        self.message = message
        self.interrupt = interrupt

    def __str__(self) -> str:
        return self.message


@dataclass
class Rule:
    """One answer, prepared for a tool, a question or a type of interrupt."""

    subject: Subject
    name: str
    value: Any
    edits: dict[str, Any] | None = None
    """For an edit: the arguments to change; the others stay as they are shown."""

    uses: int = 0
    """How often it answered."""

    by: str | None = None
    """Whose answer it is, of those that `Human.as_` knows; None is nobody in particular."""

    def __str__(self) -> str:
        how = {"tool": "on", "question": "on_question", "type": "on_type"}[self.subject]
        value = self.value if self.edits is None else {**self.value, "args": self.edits}
        human = "human" if self.by is None else f"human.as_({self.by!r})"
        return f"{human}.{how}({self.name!r}) -> {_shown(value)}"

    def answer_to(self, interrupt: Interrupt) -> Any:
        """The value that answers `interrupt`."""
        if self.edits is None:
            return self.value
        return {**self.value, "args": {**(interrupt.tool_args or {}), **self.edits}}


@dataclass(frozen=True)
class Prepared:
    """The answer that rules have to an interrupt, which may not have been given, or not have counted."""

    interrupt: Interrupt
    rules: list[Rule]
    value: Any

    @property
    def by(self) -> str | None:
        """Whose answer it is: one person's."""
        return self.rules[0].by

    def says(self, stored: Any) -> bool:
        """Whether the server has stored the same answer, whether or not it holds for later calls."""
        if self.interrupt.type != _TOOL_APPROVAL:
            return bool(self.value == stored)
        return bool(_decision(self.value) == _decision(stored))


@dataclass
class Human:
    """Answers interrupts from rules, made before the agent runs.

    Several rules for the same thing are used in the order they were made; the last one then holds for every further
    interrupt, except for one that says that the rule's answer was refused. A rule for a tool or a question goes before
    one for the type.

    Example:
        human = Human()
        human.on("delete_file").approve()
        human.on("send_mail").reject("not to customers")
        human.on("pay").edit(cents=500)
        human.on("look_up").respond("nothing found")
        human.on_question("Strategy").answer("By date")
        human.on_type("color_picker").answer({"hex": "#ff6b6b"})
        human.as_("olga", groups=["ops"]).on("close_account").approve()
    """

    rules: list[Rule] = field(default_factory=list)
    """Every rule, in the order made."""

    seen: list[Interrupt] = field(default_factory=list)
    """Every interrupt that was answered, in order; `seen[0].tool_args` is what the first approval showed."""

    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The people that `as_` was called for, by name, with the groups of each."""

    _edits: dict[_Call, Rule] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Which rule edited the arguments of each call last."""

    @property
    def unused(self) -> list[Rule]:
        """The rules that never answered anything."""
        return [rule for rule in self.rules if rule.uses == 0]

    def as_(self, name: str, groups: Sequence[str] | None = None) -> Person:
        """Somebody with a key of that name, as `approvers` name people. The server of the test makes it, and asks for
        keys from then on; `server.client` has one that may do everything.

        groups: those that the key is in; where they are left out, those that were said of this name before.

        Raises `ValueError` for other groups than before, and `TypeError` for what is no name or list of groups.
        """
        _text("human.as_()", name)
        if isinstance(groups, str) or not all(isinstance(group, str) for group in groups or ()):
            raise TypeError(f"groups is a list of str, got {groups!r}")
        known = self.groups.get(name)
        said = (known or ()) if groups is None else tuple(groups)
        if known is not None and known != said:
            raise ValueError(f"{name} is in {list(known)} already, and cannot be in {list(said)} as well")
        self.groups[name] = said
        return Person(self, name)

    def on(self, tool: str | _Named) -> Decide:
        """Decide about calls of a tool, given by its name or as the tool itself."""
        return Decide(self, tool if isinstance(tool, str) else _name_of(tool))

    def on_question(self, header_or_text: str) -> Answer:
        """Answer a question of `ask_user_question`, named by its header or by its whole text."""
        return Answer(self, "question", _text("human.on_question()", header_or_text))

    def on_type(self, type: str) -> Answer:
        """Answer interrupts of a type with any JSON value; `type` is `unknown` where the payload has none."""
        return Answer(self, "type", _text("human.on_type()", type))

    def answer(self, interrupt: Interrupt) -> Any:
        """The value that answers `interrupt`; raises `UnexpectedInterrupt` when no rule is for it."""
        prepared = self.prepare(interrupt)
        self.count(prepared)
        return prepared.value

    def expects(self, interrupt: Interrupt) -> None:
        """Raise `UnexpectedInterrupt` unless a rule is for `interrupt`; uses nothing up."""
        self.prepare(interrupt)

    def count(self, given: Prepared) -> None:
        """Note that `given` was taken as the answer."""
        for rule in given.rules:
            rule.uses += 1
            if rule.edits is not None:
                self._edits[_call_of(given.interrupt)] = rule
        self.seen.append(given.interrupt)

    def prepare(self, interrupt: Interrupt) -> Prepared:
        """The answer to `interrupt`; raises `UnexpectedInterrupt` when no rule is for it. Uses nothing up."""
        if interrupt.type == _TOOL_APPROVAL and (rule := self._rule("tool", interrupt.tool_name)):
            if rule is self._edits.get(_call_of(interrupt)):
                _check_not_refused(rule, interrupt)
            return Prepared(interrupt, [rule], rule.answer_to(interrupt))
        if interrupt.type == _USER_INPUT:
            rules: dict[str, Rule | None] = {}
            for question in interrupt.payload.get("questions", ()):
                text = question["question"]
                rules[text] = self._rule("question", question.get("header"), text, taken=rules.values())
            found = {text: rule for text, rule in rules.items() if rule is not None}
            if len({rule.by for rule in found.values()}) > 1:
                raise self._unexpected(interrupt, [], "one person answers all of its questions: one human.as_(...)")
            if found and len(found) == len(rules):
                value = {"answers": {text: rule.value for text, rule in found.items()}}
                return Prepared(interrupt, list(found.values()), value)
            if found:
                raise self._unexpected(interrupt, [text for text in rules if text not in found])
        if rule := self._rule("type", interrupt.type):
            if rule.uses:
                _check_not_refused(rule, interrupt)
            return Prepared(interrupt, [rule], rule.value)
        raise self._unexpected(interrupt, [])

    def _rule(self, subject: Subject, *names: str | None, taken: Iterable[Rule | None] = ()) -> Rule | None:
        """The first rule that was not used yet, else the last: a rule repeats until another one follows it.

        taken: those that answer other questions of the same interrupt.
        """
        matching = [rule for rule in self.rules if rule.subject == subject and rule.name in names]
        # By what they are: two rules may say the same.
        used = {id(rule) for rule in taken} | {id(rule) for rule in matching if rule.uses}
        return next((rule for rule in matching if id(rule) not in used), matching[-1] if matching else None)

    def _unexpected(self, interrupt: Interrupt, unanswered: list[str], hint: str | None = None) -> UnexpectedInterrupt:
        asked_by = f" by {interrupt.agent}" if interrupt.agent else ""
        lines = [f"nobody answers this interrupt ({interrupt.type}){asked_by}:", ""]
        lines += [f"    {line}" for line in _pretty(interrupt.payload).splitlines()]
        if unanswered:
            lines += ["", "no rule for: " + ", ".join(repr(text) for text in unanswered)]
        lines += ["", "rules:" if self.rules else "there are no rules"]
        lines += [f"    {rule}" for rule in self.rules]
        lines += ["", f"hint: {hint or _hint(interrupt, unanswered)}"]
        return UnexpectedInterrupt("\n".join(lines), interrupt)


@dataclass(frozen=True)
class Person:
    """What `human.as_(name)` returns: rules of somebody with a name."""

    human: Human
    name: str

    def on(self, tool: str | _Named) -> Decide:
        """As `Human.on`."""
        return replace(self.human.on(tool), by=self.name)

    def on_question(self, header_or_text: str) -> Answer:
        """As `Human.on_question`."""
        return replace(self.human.on_question(header_or_text), by=self.name)

    def on_type(self, type: str) -> Answer:
        """As `Human.on_type`."""
        return replace(self.human.on_type(type), by=self.name)


@dataclass(frozen=True)
class Decide:
    """What `human.on(tool)` returns: say what to decide."""

    human: Human
    tool: str
    by: str | None = None

    def approve(self, *, always: bool = False) -> Human:
        """Let it run with the arguments that were shown; `always`: from then on without asking."""
        return self._add({"approved": True}, always=always)

    def reject(self, reason: str | None = None, *, message: str | None = None, always: bool = False) -> Human:
        """Do not let it run. The model hears the reason, or the message in the place of the whole text."""
        said = {name: text for name, text in (("reason", reason), ("message", message)) if text is not None}
        # Only the typed form has a message.
        no: dict[str, Any] = {"approved": False} if message is None else {"type": "reject"}
        return self._add({**no, **said}, always=always)

    def edit(self, **arguments: Any) -> Human:
        """Let it run with these arguments changed; the others stay as they were shown."""
        return _with(self.human, Rule("tool", self.tool, {"type": "edit"}, arguments, by=self.by))

    def respond(self, value: Any) -> Human:
        """Answer in the tool's place: it does not run, and `value` is its result."""
        return self._add({"type": "respond", "message": value})

    def _add(self, value: dict[str, Any], *, always: bool = False) -> Human:
        if not isinstance(always, bool):
            raise TypeError(f"always is True or False, got {always!r}")
        return _with(self.human, Rule("tool", self.tool, {**value, "always": True} if always else value, by=self.by))


@dataclass(frozen=True)
class Answer:
    """What `human.on_question(...)` and `human.on_type(...)` return: say what to answer."""

    human: Human
    subject: Subject
    name: str
    by: str | None = None

    def answer(self, value: Any) -> Human:
        """Answer with `value`; for a question a label, a list of labels (with multiSelect), or free text."""
        return _with(self.human, Rule(self.subject, self.name, value, by=self.by))


def _call_of(interrupt: Interrupt) -> _Call:
    return interrupt.session_id, interrupt.tool_name, interrupt.tool_call_id


def _check_not_refused(rule: Rule, interrupt: Interrupt) -> None:
    """Answering in the same way again would go on for ever."""
    if (interrupt.message or "").startswith((REFUSED, GUARDRAILS_CHANGED, TYPES_CHANGED)):
        said = f"{rule} is no answer that the agent takes: {interrupt.message}"
        raise UnexpectedInterrupt(
            f"{said}\n\nhint: a second rule answers what is asked then, {_hint(interrupt, [])}", interrupt
        )


def _with(human: Human, rule: Rule) -> Human:
    """With one rule more, whose answer can be sent: in the line that wrote it, and not where somebody is asked."""
    from hitl import _core  # the plugin is a part of every run of pytest, and is quick to begin

    try:
        value, edits = (json.loads(_core.to_json(given)) for given in (rule.value, rule.edits))
    except (TypeError, ValueError) as error:
        raise TypeError(f"an answer is a JSON value: {error}") from None
    # As a server has it, with which it is compared: a tuple is a list there.
    human.rules.append(replace(rule, value=value, edits=edits))
    return human


def _name_of(tool: object) -> str:
    name = getattr(tool, "name", None)
    if not isinstance(name, str):
        hint = "\n\nhint: a function is made a tool by @tool" if callable(tool) else ""
        raise TypeError(f"human.on() takes a tool or its name, got {tool!r}{hint}")
    return name


def _text(taker: str, given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{taker} takes a str, got {given!r}")
    return given


def _hint(interrupt: Interrupt, unanswered: list[str]) -> str:
    if interrupt.type == _TOOL_APPROVAL and interrupt.tool_name:
        return f"human.on({interrupt.tool_name!r}).approve(), or .reject(reason), .edit(...), .respond(...)"
    if interrupt.type == _USER_INPUT:
        questions: list[Mapping[str, Any]] = list(interrupt.payload.get("questions", ()))
        missing = [question for question in questions if question["question"] in unanswered] or questions
        if missing:
            name = missing[0].get("header") or missing[0]["question"]
            return f"human.on_question({name!r}).answer({missing[0]['options'][0]['label']!r})"
    return f"human.on_type({interrupt.type!r}).answer(...)"


def hint_for_approvers(approvers: Sequence[str], given: Prepared) -> str:
    """How a rule answers what only some may answer."""
    rule = given.rules[0]
    how = {"tool": "on", "question": "on_question", "type": "on_type"}[rule.subject]
    first = approvers[0] if approvers else "NAME"
    group = first.removeprefix("group:")
    person = f"human.as_({first!r})" if group == first else f"human.as_('somebody', groups=[{group!r}])"
    return f"a rule of one of them answers: {person}.{how}({rule.name!r})"


def _decision(value: Any) -> Any:
    """A decision in the one of its two forms that has a `type`, without `always`."""
    if not isinstance(value, Mapping):
        return value
    said = {name: text for name, text in value.items() if name not in ("always", "approved") and text is not None}
    if "type" in said:
        return said
    if not value.get("approved"):
        return {**said, "type": "reject"}
    return {**said, "type": "edit" if "args" in said else "approve"}


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
