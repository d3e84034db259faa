"""What a graph keeps from turn to turn: its last checkpoint, in the session, beside the messages that everybody reads.

During a turn checkpoints are in memory only: a turn that goes on is served from its journal. At its end the last one of
the graph, and of each subgraph that keeps its own, is written down; its messages in LangChain's wire form, those that
the turn has added alone, so that a conversation does not grow with the square of its length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple, get_checkpoint_id
from pydantic_core import to_json

from hitl.ext.langgraph.messages import from_chats, text_of, to_chat
from hitl.ext.langgraph.wire import from_wire, message_from_wire, message_to_wire, to_wire
from hitl.ext.native import keep, recall, shown_turn, without_old
from hitl.ext.versions import reading
from hitl.journal.codec import decode, encode
from hitl.messages import ChatMessage

FORM: Final = "langgraph"
"""Names the form in which a session's messages carry a graph's state."""

MESSAGES: Final = "messages"
"""The channel that a conversation is in."""

_TYPED: Final = "structured_response"
"""The one that LangChain puts a reply of a type into."""


class TurnSaver(BaseCheckpointSaver[int]):
    """Checkpoints of one turn, in memory. Nothing of it has to outlive the process."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: dict[tuple[str, str], dict[str, tuple[Any, Any, str | None]]] = {}
        self._writes: dict[tuple[str, str, str], dict[tuple[str, int], tuple[str, str, Any]]] = {}

    def last(self) -> dict[str, dict[str, Any]]:
        """The last checkpoint of each namespace that another turn can find again, by namespace."""
        return {ns: list(kept.values())[-1][0] for (_, ns), kept in self._threads.items() if kept and ":" not in ns}

    def begin(self, thread: str, checkpoints: dict[str, dict[str, Any]]) -> None:
        """Go on from these."""
        for ns, checkpoint in checkpoints.items():
            self._threads[thread, ns] = {checkpoint["id"]: (checkpoint, {"source": "loop", "step": -1}, None)}

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        thread, ns = _names(config)
        kept = self._threads.get((thread, ns), {})
        wanted = get_checkpoint_id(config) or next(reversed(kept), None)
        return None if wanted not in kept else self._tuple(thread, ns, wanted)

    def _tuple(self, thread: str, ns: str, checkpoint_id: str) -> CheckpointTuple:
        checkpoint, metadata, parent = self._threads[thread, ns][checkpoint_id]
        writes = self._writes.get((thread, ns, checkpoint_id), {})
        return CheckpointTuple(
            _config(thread, ns, checkpoint_id),
            checkpoint,
            metadata,
            None if parent is None else _config(thread, ns, parent),
            list(writes.values()),
        )

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        found = 0
        for thread, ns in [*self._threads]:
            if config is not None and _names(config) != (thread, ns):
                continue
            for checkpoint_id in reversed([*self._threads[thread, ns]]):
                if before is not None and checkpoint_id >= (get_checkpoint_id(before) or ""):
                    continue
                each = self._tuple(thread, ns, checkpoint_id)
                if all(each.metadata.get(name) == value for name, value in (filter or {}).items()):
                    if limit is not None and found >= limit:
                        return
                    found += 1
                    yield each

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, ns = _names(config)
        self._threads.setdefault((thread, ns), {})[checkpoint["id"]] = (checkpoint, metadata, get_checkpoint_id(config))
        return _config(thread, ns, checkpoint["id"])

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        thread, ns = _names(config)
        kept = self._writes.setdefault((thread, ns, get_checkpoint_id(config) or ""), {})
        for index, (channel, value) in enumerate(writes):
            kept[task_id, WRITES_IDX_MAP.get(channel, index)] = (task_id, channel, value)

    def delete_thread(self, thread_id: str) -> None:
        for names in [each for each in self._threads if each[0] == thread_id]:
            del self._threads[names]

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        for each in self.list(config, filter=filter, before=before, limit=limit):
            yield each

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)


def _names(config: Any) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns", "")


def _config(thread: str, ns: str, checkpoint_id: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


# -- in the session ----------------------------------------------------------------------------------------------------


class PastTurns:
    """What turns before this one have left: messages in order, and the checkpoints of the last of them."""

    def __init__(self, state: Sequence[ChatMessage]) -> None:
        self.messages: list[BaseMessage] = []
        self.checkpoints: dict[str, dict[str, Any]] = {}
        unmade: list[ChatMessage] = []
        for item in recall(state, FORM):
            if isinstance(item, ChatMessage):
                unmade.append(item)
                continue
            self.messages += from_chats(unmade)
            unmade = []
            kept, *wire = item
            with reading("langgraph"):
                self.messages = [*self.messages[: kept["after"]], *(message_from_wire(decode(each)) for each in wire)]
                self.checkpoints = {ns: from_wire(decode(each)) for ns, each in kept["checkpoints"].items()}
        self.messages += from_chats(unmade)
        self.has_checkpoint = bool(state) and bool(self.checkpoints)
        """Whether a graph has had it, so that it goes on from a checkpoint."""
        if (root := self.checkpoints.get("")) is not None and MESSAGES in root["channel_versions"]:
            root["channel_values"][MESSAGES] = self.messages


def turn_of(
    message: ChatMessage,
    before: list[BaseMessage],
    checkpoints: dict[str, dict[str, Any]],
    reply: str,
    prompt_id: str | None = None,
) -> list[ChatMessage]:
    """The messages of a turn: what the person said, what the graph has made of it, and the reply, which carries its
    last checkpoints. ``prompt_id``: of what the graph got for the person's message, where that is known."""
    after = _messages_of(checkpoints)
    same = 0
    while same < min(len(before), len(after)) and _is_same(before[same], after[same]):
        same += 1
    shown = shown_turn(message, to_chat([*_shown(before, after, prompt_id)]), reply)
    kept = {"after": same, "checkpoints": {ns: encode(to_wire(_slim(each, ns))) for ns, each in checkpoints.items()}}
    return keep(shown, FORM, [kept, *(encode(message_to_wire(each)) for each in after[same:])])


def without_checkpoints(state: Sequence[ChatMessage]) -> list[ChatMessage]:
    """A session's messages without the checkpoints of the turns that they are of: those of the next one stand for all
    that was before."""
    return without_old(state, FORM, lambda native: [{**native[0], "checkpoints": {}}, *native[1:]])


def reply_of(output: Any, checkpoints: dict[str, dict[str, Any]]) -> str | None:
    """What the last message of a graph says; None for a graph without messages. Where that is what LangChain has for
    the result of the call by which a model gave a reply of a type, the reply as JSON."""
    messages = output.get(MESSAGES) if isinstance(output, dict) else None
    if not (isinstance(messages, list) and messages and isinstance(messages[-1], BaseMessage)):
        messages = _messages_of(checkpoints)
    if not messages:
        return None
    if isinstance(messages[-1], ToolMessage) and isinstance(output, dict) and output.get(_TYPED) is not None:
        return to_json(output[_TYPED], fallback=repr).decode()
    return text_of(messages[-1])


def _messages_of(checkpoints: dict[str, dict[str, Any]]) -> list[BaseMessage]:
    found = checkpoints.get("", {}).get("channel_values", {}).get(MESSAGES)
    return found if isinstance(found, list) and all(isinstance(each, BaseMessage) for each in found) else []


def _shown(before: list[BaseMessage], after: list[BaseMessage], prompt_id: str | None) -> Iterator[BaseMessage]:
    """What everybody reads of what a turn has added. A graph may take earlier messages away and write others anew, with
    the ids that they had: these have been read.

    Neither what models are told alone, system prompts and what LangChain marks as not typed by the person it is from,
    for example a summary of what was said.
    """
    known = {each.id for each in before if each.id is not None}
    unnamed = [each for each in before if each.id is None]
    prompt = next((each for each in after if prompt_id is not None and each.id == prompt_id), None)
    if prompt is not None:
        yield prompt  # first, wherever the graph has it: what everybody reads in its place is the person's own
    for each in after:
        if each.id is None and each in unnamed:
            unnamed.remove(each)
        elif each is not prompt and each.id not in known and not _is_for_models(each):
            yield each


def _is_for_models(message: BaseMessage) -> bool:
    if isinstance(message, HumanMessage):
        return isinstance(message.additional_kwargs.get(_ADDED_BY), str)
    return isinstance(message, SystemMessage)


_ADDED_BY: Final = "lc_source"


def _slim(checkpoint: dict[str, Any], ns: str) -> dict[str, Any]:
    """A checkpoint without the messages that are beside it."""
    if ns or not _messages_of({"": checkpoint}):
        return checkpoint
    values = {name: value for name, value in checkpoint["channel_values"].items() if name != MESSAGES}
    return {**checkpoint, "channel_values": values}


def _is_same(one: BaseMessage, other: BaseMessage) -> bool:
    return one is other or (one.id == other.id and one == other)
