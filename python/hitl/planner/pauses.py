"""Tokens for paused runs: issued once, taken once."""

from __future__ import annotations

import inspect
import logging
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, runtime_checkable

logger = logging.getLogger("hitl.planner")

VERSION: Final = 1
"""Of the records in a store."""

_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, kw_only=True)
class MemoryKey:
    """Whose run it is. A pause of a run that had one cannot be resumed with another.

    Example:
        pause = await made.run("write hello", memory_key=MemoryKey(session_id="demo", user_id="ann"))
    """

    session_id: str
    tenant_id: str | None = None
    user_id: str | None = None


@runtime_checkable
class SupportsPlannerState(Protocol):
    """A store that can keep pauses. The token is the key, and whoever has it may resume: keep it like a password.

    Example:
        async def copy(token: str, old: SupportsPlannerState, new: SupportsPlannerState) -> None:
            if (record := await old.load_planner_state(token)) is not None:
                await new.save_planner_state(token, record)
    """

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        """Keep a JSON object under a token, in the place of what was there. Raise where that fails."""

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """What is kept under a token; None for an unknown one."""


@runtime_checkable
class StateStore(SupportsPlannerState, Protocol):
    """What `ReactPlanner(state_store=...)` takes. It may also be one that `SupportsPlannerClaims`.

    Example:
        class Kept:
            records: dict[str, dict[str, Any]] = {}

            async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
                self.records[token] = payload

            async def load_planner_state(self, token: str) -> dict[str, Any] | None:
                return self.records.get(token)

        store: StateStore = Kept()
    """


@runtime_checkable
class SupportsPlannerClaims(SupportsPlannerState, Protocol):
    """A store that several processes share, which therefore says who may resume.

    Example:
        async def is_mine(store: SupportsPlannerClaims, token: str) -> bool:
            return await store.claim_planner_state(token)  # True once, over all processes
    """

    async def claim_planner_state(self, token: str) -> bool:
        """True for exactly one caller, over all processes and for ever; False for all others."""


class _Memory:
    """Pauses of this process, where there is no store."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, Any]] = {}

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        if _is_tombstone(payload):
            self._records.pop(token, None)
        else:
            self._records[token] = payload

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        return self._records.get(token)


@dataclass(frozen=True)
class Record:
    """A paused run."""

    run_state: dict[str, Any]
    """`RunState.to_string()`, as an object."""

    interrupt_id: str
    """Which of its interrupts the token stands for."""

    tool: str | None
    reason: str
    step: int
    """How often the model has been asked."""

    paused_at: float
    """Seconds since 1970."""

    memory_key: MemoryKey | None

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Record:
        version = given.get("version")
        if version != VERSION:
            raise ValueError(f"this pause is of version {version!r}, and this release of hitl reads {VERSION}")
        members = {name: given[name] for name in cls.__dataclass_fields__}
        key = members["memory_key"]
        return cls(**{**members, "memory_key": None if key is None else MemoryKey(**key)})


class Pauses:
    """The pauses of one planner."""

    def __init__(self, store: Any) -> None:
        """`store`: see `ReactPlanner`. TypeError for one that can only save, or only load."""
        has = [callable(getattr(store, name, None)) for name in ("save_planner_state", "load_planner_state")]
        if any(has) and not all(has):
            raise TypeError("a state_store needs save_planner_state and load_planner_state; this one has one of them")
        if store is not None and not any(has):
            logger.warning("%s keeps no planner state: pauses end with this process", type(store).__name__)
        self._store: SupportsPlannerState = store if all(has) else _Memory()
        self._claim = getattr(store, "claim_planner_state", None) if all(has) else None
        self._at_work: set[str] = set()
        self._claimed: set[str] = set()
        """Claimed here, and nothing has come of it: a second attempt may go on."""

    async def issue(self, record: Record) -> str:
        """Keep a pause; the token for it. Raises what the store raises."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        await self._store.save_planner_state(token, record.to_json())
        return token

    async def look(self, token: str, memory_key: MemoryKey | None) -> Record:
        """The pause of a token; KeyError for one that is unknown, used, or of another memory key."""
        if not isinstance(token, str):
            raise TypeError(f"a resume token is a str, got {type(token).__name__}")
        if token in self._at_work:
            raise KeyError("this resume token is being used")
        payload = await self._store.load_planner_state(token)
        if payload is None:
            raise KeyError("unknown resume token")
        if _is_tombstone(payload):
            raise KeyError("this resume token was used before")
        record = Record.from_json(payload)
        if memory_key is not None and record.memory_key is not None and memory_key != record.memory_key:
            raise KeyError("unknown resume token")  # of somebody else, who is not to be told that it exists
        return record

    async def take(self, token: str) -> None:
        """Use the token up; KeyError where somebody else was first. What the store raises leaves it usable here."""
        if token in self._at_work:
            raise KeyError("this resume token is being used")
        self._at_work.add(token)
        try:
            if self._claim is not None and token not in self._claimed:
                claimed = self._claim(token)
                claimed = await claimed if inspect.isawaitable(claimed) else claimed
                if claimed is not True:
                    raise KeyError("this resume token was used before")
                self._claimed.add(token)
            if self._claim is None:
                kept = await self._store.load_planner_state(token)
                if kept is None or _is_tombstone(kept):  # since `look`
                    raise KeyError("this resume token was used before")
            await self._store.save_planner_state(token, {"version": VERSION, "resumed_at": time.time()})
            self._claimed.discard(token)
        finally:
            self._at_work.discard(token)

    async def give_back(self, token: str, record: Record) -> None:
        """Make a taken token usable again. Raises what the store raises."""
        await self._store.save_planner_state(token, record.to_json())
        if self._claim is not None:
            self._claimed.add(token)


def _is_tombstone(payload: dict[str, Any] | None) -> bool:
    return payload is not None and "resumed_at" in payload
