"""``HitlSaver``: checkpoints of graphs that run on their own, in a store of hitl."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from hitl import _core
from hitl.ext.langgraph.serde import narrowed, whole
from hitl.runs.stores import Store
from hitl.turn.naming import check_text

_PAGE: Final = 16
"""How many checkpoints are read at once: each brings the whole state of its graph."""

_BARE_PAGE: Final = 256
"""The same without their values."""

_PICKLE: Final = "pickle"

_Typed: TypeAlias = tuple[str, bytes]
_Stored: TypeAlias = tuple[
    tuple[str, str, str], str | None, _Typed, _Typed, list[tuple[str, _Typed]], list[tuple[str, str, _Typed]]
]
"""A row: key, parent, body, metadata, values by channel, and what tasks have written to channels."""


class HitlSaver(BaseCheckpointSaver[str]):
    """A checkpoint saver on a store of hitl, for a graph that runs in your own loop.

    ``store``: an address as ``hitl.run(store=...)`` takes it (a path, ``sqlite:PATH``, ``postgresql://...``,
    ``memory``), opened at the first use and closed by ``close``, ``aclose`` or ``with``; or a ``hitl.Store``, which is
    its owner's to close. ``serde``: another serializer than LangGraph's own; none that pickles.

    What is read back are messages and other values of LangGraph's and the standard library's, and dataclasses, pydantic
    models, enums and named tuples of modules that are imported already. So it is with LangGraph's serializer in
    ``serde`` too, inside of one that encrypts as well, unless it says what it reads (``allowed_msgpack_modules``).

    Usable from several threads and loops, and beside other processes without a server. What was put is on disk when the
    call returns. A thread stays until ``delete_thread``; no sweep of hitl's touches it. All methods raise StoreError
    where the store cannot be opened, read or written; ValueError for names with a null character, for more than 256 MiB
    in one checkpoint, for pickled values, and for those of other classes.
    """

    def __init__(self, store: Store | str | os.PathLike[str], *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        if _pickles(self.serde):
            raise ValueError(
                "a serializer with pickle_fallback is refused: reading what somebody else has stored would run their "
                "code; give values that cannot be written a type that can, such as a dataclass"
            )
        self.serde = narrowed(self.serde)
        if not isinstance(store, Store | str | os.PathLike):
            raise TypeError(f"store must be a Store, an address or a path, got {type(store).__name__}")
        self._is_owner = not isinstance(store, Store)
        self._store = store if isinstance(store, Store) else Store(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the store, where the saver has opened it. RuntimeError where an event loop runs: use ``aclose``."""
        if self._is_owner:
            self._store.close_sync()

    async def aclose(self) -> None:
        """``close()`` on an event loop."""
        if self._is_owner:
            await self._store.close()

    def _graphs(self) -> _core.GraphStore:
        return _core.GraphStore(self._store.open_blocking())

    # -- LangGraph's words -----------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest one of its thread and namespace."""
        thread, namespace = _names(config)
        found = self._graphs().page(limit=1, thread=thread, namespace=namespace, id=get_checkpoint_id(config) or None)
        return self._tuple(found[0]) if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first: of the thread of ``config`` and, where it says them, of its namespace and id;
        of all threads without it. ``filter``: values in their metadata; ``before``: with an id below that of this one.
        """
        query, left, after = _query(config, before), limit, None
        while left is None or left > 0:
            page = self._graphs().page(
                **query, after=after, limit=_PAGE if left is None or filter else min(left, _PAGE)
            )
            for stored in page:
                if left is not None and left <= 0:
                    return
                if self._is_wanted(stored, filter):
                    left = None if left is None else left - 1
                    yield self._tuple(stored)
            if not page:
                return
            after = page[-1][0]

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and of its channels the values that are new: the config that names it."""
        thread, namespace = _names(config)
        values = checkpoint["channel_values"]
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        said = get_checkpoint_metadata(config, metadata)
        run = said.get("run_id")
        self._graphs().put(
            (thread, namespace, checkpoint["id"]),
            get_checkpoint_id(config) or None,
            None if run is None else str(run),
            {channel: str(version) for channel, version in checkpoint["channel_versions"].items()},
            self._dump(body),
            self._dump(said),
            # A channel without a value is known by its version alone.
            [
                (each, str(version), self._dump(values[each]))
                for each, version in new_versions.items()
                if each in values
            ],
        )
        return _config(thread, namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written after a checkpoint, so that it need not run again."""
        rows = [
            (WRITES_IDX_MAP.get(channel, place), channel, self._dump(value))
            for place, (channel, value) in enumerate(writes)
        ]
        if rows:
            key = (*_names(config), config["configurable"]["checkpoint_id"])
            self._graphs().put_writes(key, task_id, task_path, rows)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all that there is of a thread."""
        self._graphs().delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs have made (``run_id`` in their metadata)."""
        _check_several("run_ids", run_ids)
        doomed: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for run in run_ids:
            for (thread, namespace, checkpoint), *_ in self._bare(run=str(run)):
                doomed[thread].append((namespace, checkpoint))
        for thread, keys in doomed.items():
            self._graphs().delete_checkpoints(thread, keys)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all that there is of a thread to another one, in the place of what has the same ids there. What the
        other one has besides stays, and its newest checkpoint may be its own: to have the copy alone, delete it first.
        """
        if source_thread_id != target_thread_id:
            self._graphs().copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of these threads (``"delete"``), or all but the newest of each namespace, and those
        before it of which its ``DeltaChannel``s are made (``"keep_latest"``)."""
        _check_several("thread_ids", thread_ids)
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', got {strategy!r}")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self._graphs().delete_thread(thread)
                continue
            keys = [(namespace, checkpoint) for (_, namespace, checkpoint), *_ in self._bare(thread=thread)]
            newest: dict[str, str] = {}
            for namespace, checkpoint in keys:
                newest.setdefault(namespace, checkpoint)
            kept = {
                key for namespace, checkpoint in newest.items() for key in self._needed(thread, namespace, checkpoint)
            }
            if doomed := [key for key in keys if key not in kept]:
                self._graphs().delete_checkpoints(thread, doomed)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """``get_tuple`` on an event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """``list`` on an event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """``put`` on an event loop."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """``put_writes`` on an event loop."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """``delete_thread`` on an event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """``delete_for_runs`` on an event loop."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """``copy_thread`` on an event loop."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """``prune`` on an event loop."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that no other branch of the thread draws: two that go on from one checkpoint hold other values."""
        count = 0 if current is None else int(str(current).partition(".")[0])
        return f"{count + 1:032}.{secrets.token_hex(8)}"

    # -- rows ------------------------------------------------------------------------------------------------------

    def _dump(self, value: Any) -> _Typed:
        kind, data = self.serde.dumps_typed(value)
        if kind.startswith(_PICKLE):
            raise ValueError(f"the serializer pickles a {type(value).__name__}, which no store of hitl takes")
        return kind, bytes(data)

    def _load(self, stored: _Typed) -> Any:
        if stored[0].startswith(_PICKLE):
            raise ValueError(
                "the store holds a pickled value, which is not read: it would run the code of whoever wrote it"
            )
        with whole():
            return self.serde.loads_typed(stored)

    def _tuple(self, stored: _Stored) -> CheckpointTuple:
        (thread, namespace, checkpoint_id), parent, body, metadata, values, writes = stored
        checkpoint: Any = {
            **self._load(body),
            "channel_values": {channel: self._load(value) for channel, value in values},
        }
        return CheckpointTuple(
            _config(thread, namespace, checkpoint_id),
            checkpoint,
            self._load(metadata),
            None if parent is None else _config(thread, namespace, parent),
            [(task, channel, self._load(value)) for task, channel, value in writes],
        )

    def _is_wanted(self, stored: _Stored, filter: dict[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self._load(stored[3])
        return all(metadata.get(name) == value for name, value in filter.items())

    def _bare(self, *, thread: str | None = None, run: str | None = None) -> Iterator[_Stored]:
        """Checkpoints without their values, the newest first."""
        after = None
        while page := self._graphs().page(limit=_BARE_PAGE, thread=thread, run=run, after=after, bare=True):
            yield from page
            after = page[-1][0]

    def _needed(self, thread: str, namespace: str, newest: str) -> Iterable[tuple[str, str]]:
        """The keys of a checkpoint, and of those before it that it cannot be read without: a channel that is stored as
        what was written to it has its value in one of them."""
        yield namespace, newest
        each = self.get_tuple(_config(thread, namespace, newest))
        if each is None:
            return
        channels = {*each.metadata.get("counters_since_delta_snapshot", ())} - {*each.checkpoint["channel_values"]}
        while channels and each.parent_config is not None:
            each = self.get_tuple(each.parent_config)
            if each is None:
                return
            yield namespace, each.checkpoint["id"]
            channels -= {*each.checkpoint["channel_values"]}


def _pickles(serde: Any) -> bool:
    """Whether a serializer, or the one that it encrypts the bytes of, falls back to pickle."""
    inner = getattr(serde, "serde", None)
    return bool(getattr(serde, "pickle_fallback", False)) or (inner is not None and _pickles(inner))


def _check_several(what: str, given: Sequence[str]) -> None:
    """Of one name each letter would be one, of which there is nothing to delete."""
    if isinstance(given, str):
        raise TypeError(f"{what} must be a list, got the str {given!r}; to mean that one, give [{given!r}]")


def _names(config: RunnableConfig) -> tuple[str, str]:
    given = config.get("configurable", {})
    if given.get("thread_id") is None:
        raise ValueError('the config names no thread; invoke the graph with {"configurable": {"thread_id": "..."}}')
    check_text("the thread_id", thread := str(given["thread_id"]))
    return thread, given.get("checkpoint_ns", "")


def _config(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _query(config: RunnableConfig | None, before: RunnableConfig | None) -> dict[str, Any]:
    query: dict[str, Any] = {"before": None if before is None else get_checkpoint_id(before) or None}
    if config is not None:
        given = config.get("configurable", {})
        thread, _ = _names(config)
        query |= {"thread": thread, "namespace": given.get("checkpoint_ns"), "id": get_checkpoint_id(config) or None}
    return query
