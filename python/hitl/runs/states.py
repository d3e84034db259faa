"""``RunState``: a run that waits, to be decided on, kept as text, and run again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from hitl import _core
from hitl.driver.shapes import Agent, LoadedAgent, as_agent
from hitl.errors import RunStateError, UnknownInterrupt
from hitl.journal.codec import decode, encode
from hitl.messages import ChatMessage
from hitl.runs.code import code_of
from hitl.runs.interrupts import Interrupt
from hitl.runs.stores import Store, home_of, session_id, using
from hitl.runs.thread_loop import block_on, refuse_on_a_loop
from hitl.turn.reasking import Reader

if TYPE_CHECKING:
    from os import PathLike

ContextStrategy = Literal["merge", "replace"]
_NO_NAME = "<lambda>"
"""What Python calls a function without one, as a factory may be."""


class RunState:
    """The journal of a turn that waits for people: everything that is needed to go on with it, anywhere.

    Comes from ``result.state``, from ``from_string`` or from ``from_store``. Decide with ``approve``, ``reject``,
    ``edit``, ``respond``, which are for tool approvals, and ``answer``; each takes an ``Interrupt`` or its id, is
    checked at once, changes nothing when it raises, and returns the state. They raise UnknownInterrupt, InvalidAnswer,
    NothingPending (nothing is asked at all), AlreadyResolved (decided otherwise before; the same decision again is
    none), InterruptExpired and InterruptCancelled.
    ``await hitl.run(agent, state)`` then goes on: what is decided runs, what is not stays open.

    Example:
        result = await hitl.run(agent, "delete the old logs file")
        if result.status == "interrupted":
            text = result.state.to_string()  # for a year, in any database
            state = RunState.from_string(agent, text)
            for asked in state.interrupts:
                state.approve(asked)
            result = await hitl.run(agent, state)
    """

    def __init__(
        self,
        core: _core.RunState,
        context: Any = None,
        store: Store | str | None = None,
        readers: Mapping[str, Reader] | None = None,
    ) -> None:
        """Not for users: see the class. ``store`` is where its turn is kept, by an address that holds everywhere;
        ``readers``: of questions that this process asked, by path."""
        self._core = core
        self.context = context
        """The object that the run has as its context."""
        self._store = store
        self._readers = readers or {}

    # -- what it holds --------------------------------------------------------------------------------------------

    @property
    def interrupts(self) -> list[Interrupt]:
        """What is open and not decided, in order of arrival."""
        return [Interrupt.of(record) for record in json.loads(self._core.pending())]

    def interrupt(self, id: str) -> Interrupt:
        """One interrupt that was open when the run paused, decided since or not. UnknownInterrupt for another one."""
        for record in json.loads(self._core.interrupts()):
            if record["interrupt_id"] == id:
                return Interrupt.of(record)
        raise UnknownInterrupt(f"no interrupt {id!r} was open when the run paused")

    @property
    def answers(self) -> dict[str, Any]:
        """What was decided and has not been run yet, by interrupt id."""
        records = json.loads(self._core.interrupts())
        return {record["interrupt_id"]: record["value"] for record in records if record["status"] == "resolved"}

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation before the turn."""
        return [ChatMessage.from_dict(message) for message in json.loads(self._core.messages())]

    @property
    def message(self) -> ChatMessage:
        """The message that began the turn."""
        return ChatMessage.from_dict(json.loads(self._core.message()))

    @property
    def session_id(self) -> str:
        """The session that the run belongs to."""
        return self._core.session_id

    @property
    def turn_id(self) -> str:
        """The turn."""
        return self._core.turn_id

    def __repr__(self) -> str:
        return f"<RunState of turn {self.turn_id}: {len(self.interrupts)} open, {len(self.answers)} decided>"

    # -- decisions ------------------------------------------------------------------------------------------------

    def approve(self, interrupt: Interrupt | str, *, always: bool = False) -> RunState:
        """The tool may run with exactly the arguments shown; ``always``: and so may later calls of it in this run."""
        return self._decide(interrupt, {"type": "approve", **_given(always=always or None)})

    def reject(
        self,
        interrupt: Interrupt | str,
        *,
        reason: str | None = None,
        message: str | None = None,
        always: bool = False,
    ) -> RunState:
        """The tool does not run. The model is told, with ``reason``; ``message`` replaces the whole text."""
        given = _given(reason=reason, message=message, always=always or None)
        return self._decide(interrupt, {"type": "reject", **given})

    def edit(self, interrupt: Interrupt | str, args: Mapping[str, Any]) -> RunState:
        """The tool runs with ``args`` instead: all of its arguments. TypeError where they are no dict."""
        if not isinstance(args, Mapping):
            raise TypeError(f"args is a dict with all arguments of the tool, got {type(args).__name__}")
        return self._decide(interrupt, {"type": "edit", "args": dict(args)})

    def respond(self, interrupt: Interrupt | str, value: Any) -> RunState:
        """The tool does not run; ``value``, any JSON, is its result."""
        return self._decide(interrupt, {"type": "respond", "message": value})

    def answer(self, interrupt: Interrupt | str, value: Any) -> RunState:
        """Any other question: ``value`` is the answer, any JSON value, ``None`` too.

        Where the question is this process's own and asks for a type, its validators are heard at once.
        """
        self._answer([(_id_of(interrupt), value)])
        return self

    def answer_all(self, answers: Mapping[str, Any]) -> RunState:
        """Several answers by interrupt id, decisions in either form of the wire: all of them, or with an error none."""
        self._answer(list(answers.items()))
        return self

    def _decide(self, interrupt: Interrupt | str, decision: Mapping[str, Any]) -> RunState:
        """To a question without a schema a decision would be a value like any other, a rejection no less than a yes."""
        self._core.check_type(_id_of(interrupt), "tool_approval")
        return self.answer(interrupt, decision)

    def _answer(self, answers: list[tuple[str, Any]]) -> None:
        if self._readers:
            journal = json.loads(self._core.write(None))["journal"]
            paths = {entry["interrupt_id"]: entry["step"]["path"] for entry in journal if entry["entry"] == "ask"}
            for interrupt_id, value in answers:
                read = self._readers.get(paths.get(interrupt_id, ""))
                if read is not None and self._fits_schema(interrupt_id, value):  # else the core says what is wrong
                    read(value)
        self._core.answer(answers)

    def _fits_schema(self, interrupt_id: str, value: Any) -> bool:
        try:
            plain = json.loads(_core.to_json(value))
        except (TypeError, ValueError):
            return False
        return not _core.validate(self.interrupt(interrupt_id).response_schema, plain)

    def refuse_other(self, agent: LoadedAgent) -> None:
        """Not for users. RunStateError where the state is of an agent of another name: what was approved was approved
        for that one, and a tool of the same name may be another."""
        name = self._core.agent_name
        if name is not None and name != agent.name and _NO_NAME not in (name, agent.name):
            raise RunStateError(
                f"the run state is of agent {name!r}, and this one is {agent.name!r}\n\nhint: where it is the same "
                f"agent under a new name, give it the one that it had: name={name!r}",
                code="run_state_other_agent",
            )

    # -- kept elsewhere -------------------------------------------------------------------------------------------

    def to_string(self, *, key: str | None = None) -> str:
        """The state as JSON, decisions included. It holds the conversation and the context: no place for secrets.

        Of a turn in a store it says which store by an id, and not where: give ``hitl.run`` the store beside it.

        Whoever can write to where it is kept can approve what they like; with ``key`` it is signed (HMAC-SHA256), and
        ``from_string(..., key=...)``, or a server with that ``--state-key``, knows whether it was changed. ValueError
        for an empty one.
        """
        _check_key(key)
        return self._core.write(key)

    @classmethod
    def from_string(
        cls,
        agent: Agent,
        text: str,
        *,
        context: Any = None,
        context_strategy: ContextStrategy = "merge",
        key: str | None = None,
    ) -> RunState:
        """The state that ``to_string`` wrote, on any machine.

        ``context_strategy`` says what becomes of the context in it: ``"merge"``, the members of both dicts, where a
        given one wins (a given object that is no dict wins as a whole), or ``"replace"``, the given one alone.

        Raises RunStateError (a ValueError) for a text that is none, that a later release wrote, that is of an agent of
        another name, or, with a ``key``, that was not signed with it; ValueError for an empty one.
        """
        loaded = as_agent(agent)
        _check_key(key)
        core, is_ours = _core.RunState.read(text, key)
        if key is not None and not is_ours:
            raise RunStateError("the run state is not signed with this key, or was changed", code="run_state_forged")
        state = cls(core, _context(core, context, context_strategy))
        state.refuse_other(loaded)
        return state

    @classmethod
    async def from_store(
        cls,
        agent: Agent,
        store: Store | str | PathLike[str],
        session: str,
        *,
        context: Any = None,
        context_strategy: ContextStrategy = "merge",
    ) -> RunState | None:
        """The state of a session's turn that is not over, as the store has it, also after a crash; None without one."""
        loaded = as_agent(agent)
        async with using(store) as opened:
            core = await opened.load(session_id(session), loaded.name, code_of(loaded))
            home = home_of(store, await opened.open())
        if core is None:
            return None
        return cls(core, _context(core, context, context_strategy), home)

    @classmethod
    def from_store_sync(
        cls,
        agent: Agent,
        store: Store | str | PathLike[str],
        session: str,
        *,
        context: Any = None,
        context_strategy: ContextStrategy = "merge",
    ) -> RunState | None:
        """The same for programs without an event loop; RuntimeError where one runs."""
        refuse_on_a_loop("RunState.from_store_sync()", "await RunState.from_store(...)")
        loading = cls.from_store(agent, store, session, context=context, context_strategy=context_strategy)
        return block_on(loading)


def _id_of(interrupt: Interrupt | str) -> str:
    if not isinstance(interrupt, Interrupt | str):
        raise TypeError(f"an Interrupt or its id is needed, got {type(interrupt).__name__}")
    return interrupt if isinstance(interrupt, str) else interrupt.id


def _check_key(key: str | None) -> None:
    """A variable of the environment that is not set is no key: whoever can write a state could sign it with that."""
    if key == "":
        raise ValueError("a key must not be empty: anybody can sign with that one\n\nhint: openssl rand -hex 32")


def _context(core: _core.RunState, given: Any, strategy: ContextStrategy) -> Any:
    """The context that a state and its reader have together; it is the state's from here on."""
    if strategy not in ("merge", "replace"):
        raise ValueError(f"context_strategy must be 'merge' or 'replace', got {strategy!r}")
    written = core.context()
    stored = None if written is None else decode(json.loads(written))
    if given is None:
        together = stored if strategy == "merge" else None
    elif strategy == "merge" and isinstance(stored, dict) and isinstance(given, dict):
        together = {**stored, **given}
    else:
        together = given
    if together is not stored:
        core.set_context(None if together is None else encode(together, "context"))
    return together


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
