"""Strands' messages and ours: what everybody reads of a conversation, and a conversation that it has not had."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, cast

from strands import Agent
from strands.models import BedrockModel
from strands.types.content import ContentBlock, Message
from strands.types.session import decode_bytes_values, encode_bytes_values

from hitl.attachments import Attachment
from hitl.ext.gating import edit_note
from hitl.ext.native import keep, recall, shown_turn, without_old
from hitl.ext.replies import RecordedReply
from hitl.messages import ChatMessage, ToolCall
from hitl.models.attached import PDF, in_the_form_of_its_role, text_of

FORM: Final = "strands"
"""Names the form in which a session's messages carry Strands'."""

_INSTEAD: Final = "instead"
_STATE: Final = "state"
# Items of that form besides messages: that what follows stands for the whole conversation, as a conversation manager
# left it, and the agent's state after a turn.

_IMAGES: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_OPEN_XML: Final = "application/vnd.openxmlformats-officedocument"
_OFFICE: Final = {
    "application/msword": "doc",
    f"{_OPEN_XML}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OPEN_XML}.spreadsheetml.sheet": "xlsx",
}
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_LONGEST_NAME: Final = 150  # of the 200 characters that Bedrock takes

_NOTE: Final = edit_note({}).partition("{")[0]
_USAGE: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "cacheReadInputTokens": "cached_tokens",
}


@dataclass
class History:
    """What a turn goes on from."""

    messages: list[Message] = field(default_factory=list)
    state: dict[str, Any] | None = None
    """The agent's, as the last turn that changed it left it; None: as it was made."""
    whole: bool = False
    """Whether the agent's own messages, those that it was made with, are among them."""


def history_of(state: Sequence[ChatMessage], *, office: bool = False) -> History:
    """A session's messages as those that a run goes on from. ``office``: see ``takes_office``."""
    history = History()
    for item in recall(state, FORM):
        if isinstance(item, ChatMessage):
            _append(history.messages, _from_chat(item, history.messages, office))
            continue
        for each in cast(list[dict[str, Any]], decode_bytes_values(item)):
            if _INSTEAD in each:
                history.messages.clear()
                history.whole = True
            elif _STATE in each:
                history.state = each[_STATE]
            else:
                history.messages.append(cast(Message, each))
    return history


def told_of(told: Iterable[ChatMessage], before: Sequence[Message], *, office: bool) -> list[Message]:
    """What a turn that has the messages ``before`` is told. Roles take turns, and the prompt is to go on with the last
    message: some models of Bedrock take nothing else."""
    made: list[Message] = []
    for message in told:
        each = _from_chat(message, [*before, *made], office)
        if made and made[-1]["role"] == each["role"]:
            made[-1]["content"].extend(each["content"])
        else:
            made.append(each)
    return made


def takes_office(runner: Any) -> bool:
    """Whether the models of an agent, or of all nodes of several, take documents of Office: Bedrock's do, most others
    raise."""
    if isinstance(runner, Agent):
        return isinstance(runner.model, BedrockModel)
    return all(takes_office(node.executor) for node in runner.nodes.values())


def prompt_of(
    message: ChatMessage, before: Iterable[Message] = (), *, office: bool = False
) -> str | list[ContentBlock]:
    """A person's message as the prompt of a run that has the messages ``before``. ``office``: see ``takes_office``."""
    attached = message.attached
    if not attached:
        return message.content or ""
    taken = {name for each in before for name in _names_in(each["content"])}
    prompt: list[ContentBlock] = [{"text": message.content}] if message.content and message.content.strip() else []
    prompt += [_attached(each, taken, office) for each in attached]
    if any("document" in block for block in prompt) and not any("text" in block for block in prompt):
        # Bedrock refuses a document with no text beside it.
        prompt.insert(0, {"text": "\n".join(f"[attached: {each.described}]" for each in attached)})
    return prompt


def _attached(attachment: Attachment, taken: set[str], office: bool) -> ContentBlock:
    """A block of a prompt; text where not all of Strands' models have a block for it, where only its address is
    known, and where it is empty. ``taken``: the names of documents in the conversation, and then its name too."""
    data, kind = attachment.to_bytes(), attachment.usual_type
    if not data:  # an image of none is one that models refuse
        return {"text": text_of(attachment)}
    if kind in _IMAGES:
        return cast(ContentBlock, {"image": {"format": _IMAGES[kind], "source": {"bytes": data}}})
    form = "pdf" if kind == PDF else _OFFICE.get(kind) if office else None
    if form is None:
        return {"text": text_of(attachment)}
    document = {"format": form, "name": _name_of(attachment.name, data, taken), "source": {"bytes": data}}
    return cast(ContentBlock, {"document": document})


def _name_of(name: str | None, data: bytes, taken: set[str]) -> str:
    """A document's name. Bedrock takes few characters, and no name twice in a conversation.

    The content tells documents of one name apart, in every turn alike; one that comes again gets another name.
    """
    known = _NO_NAME.sub(" ", name or "").strip()[:_LONGEST_NAME].strip() or "document"
    digest = sha256(data).hexdigest()
    while (made := f"{known} {digest[:8]}") in taken:
        digest = sha256(digest.encode()).hexdigest()
    taken.add(made)
    return made


def _names_in(content: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for block in content:
        if "document" in block:
            yield block["document"].get("name", "")
        elif "toolResult" in block:
            yield from _names_in((block["toolResult"] or {}).get("content") or ())


def turn_of(
    message: ChatMessage,
    reply: str,
    *,
    before: Sequence[Message],
    after: Sequence[Message],
    added: Sequence[Message],
    told: Sequence[ChatMessage] = (),
    state: Mapping[str, Any] | None,
) -> list[ChatMessage]:
    """The messages of a turn: what it was ``told`` first, what the person said, what was ``added``, and the reply.

    The reply carries what the agent's messages are ``after`` the turn: those that it did not have ``before``, or, where
    a conversation manager took some of these away, all of them. ``state``: the agent's, where a turn has changed it.
    """
    made = list(to_chat(added))
    if told:  # of that the last calls and their results were added, with what the person said
        calls = max(n for n, each in enumerate(told) if each.role == "assistant")
        made = made[len(told) - calls :]
    shown = [*told, *shown_turn(message, made, reply)]
    is_longer = list(after[: len(before)]) == list(before)
    kept: list[Any] = [_carried(each) for each in (after[len(before) :] if is_longer else after)]
    if not is_longer:
        kept.insert(0, {_INSTEAD: True})
    if state is not None:
        kept.append({_STATE: dict(state)})
    return keep(shown, FORM, encode_bytes_values(kept))


def _carried(value: Any) -> Any:
    """A message as JSON carries it: what a model wrote as ``NaN`` or ``1e400`` is its text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _carried(each) for name, each in value.items()}
    return [_carried(each) for each in value] if isinstance(value, list) else value


def without_states(state: Sequence[ChatMessage]) -> list[ChatMessage]:
    """A session's messages without what the agent's state was after the turns that they are of."""
    return without_old(state, FORM, lambda native: [each for each in native if _STATE not in each])


def to_chat(messages: Sequence[Message]) -> Iterator[ChatMessage]:
    """What of messages everybody reads."""
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            names.update({use["toolUseId"]: use["name"] for use in _uses(message)})
            yield spoken(message)
            continue
        text: list[str] = []
        for block in message["content"]:
            if "toolResult" not in block:
                text += _texts(block)
                continue
            result = cast(dict[str, Any] | None, block["toolResult"]) or {}  # a tool of one's own may return nothing
            said = [each for content in result.get("content") or () for each in _texts(content)]
            note = said.pop() if len(said) > 1 and said[-1].startswith(_NOTE) else None
            call_id = result.get("toolUseId", "")
            yield ChatMessage.tool_message(
                content="\n".join(said), tool_call_id=call_id, name=names.get(call_id, "tool")
            )
            if note is not None:
                yield ChatMessage.user_message(content=note)
        if text:
            yield ChatMessage.user_message(content="\n".join(text))


def spoken(message: Message) -> ChatMessage:
    """What a model said."""
    content = message["content"]
    text = [block["text"] for block in content if "text" in block]
    thoughts = [
        block["reasoningContent"]["reasoningText"].get("text") or ""
        for block in content
        if "reasoningContent" in block and "reasoningText" in block["reasoningContent"]
    ]
    calls: list[ToolCall] = [
        {
            "id": use["toolUseId"],
            "type": "function",
            "function": {"name": use["name"], "arguments": json.dumps(use["input"], ensure_ascii=False)},
        }
        for use in _uses(message)
    ]
    return ChatMessage.assistant_message(
        content="".join(text) or None, reasoning="".join(thoughts) or None, tool_calls=calls or None
    )


def recorded(native: Mapping[str, Any]) -> RecordedReply:
    """A model's reply for the journal. ``native``: stop_reason, message, usage and metrics."""
    return RecordedReply(spoken(native["message"]), usage_of(native["usage"]), native["stop_reason"], dict(native))


def usage_of(said: Mapping[str, Any]) -> dict[str, float]:
    """What a model has used, by our names."""
    return {ours: said[theirs] for theirs, ours in _USAGE.items() if said.get(theirs) is not None}


def _uses(message: Message) -> list[Any]:
    return [block["toolUse"] for block in message["content"] if "toolUse" in block]


def _texts(block: Mapping[str, Any]) -> list[str]:
    if "text" in block:
        return [block["text"] or ""]
    if "json" in block:
        return [json.dumps(block["json"], ensure_ascii=False)]
    return []


def _append(messages: list[Message], message: Message) -> None:
    """Results of one reply's calls are one message of Strands."""
    if messages and "toolResult" in message["content"][0] and "toolResult" in messages[-1]["content"][0]:
        messages[-1]["content"].extend(message["content"])
    else:
        messages.append(message)


def _from_chat(message: ChatMessage, before: Iterable[Message], office: bool) -> Message:
    """A message that no run of Strands has made, after those that come ``before`` it."""
    message = in_the_form_of_its_role(message)
    content: list[ContentBlock]
    if message.role == "assistant":
        content = [{"text": message.content}] if message.content else []
        for call in message.tool_calls or ():
            arguments = json.loads(call["function"]["arguments"] or "{}")
            use = {"toolUseId": call["id"], "name": call["function"]["name"], "input": arguments}
            content.append(cast(ContentBlock, {"toolUse": use}))
        return {"role": "assistant", "content": content or [{"text": ""}]}
    if message.role == "tool":
        said: list[ContentBlock] = [{"text": message.content}] if message.content else []
        # Of a tool, models take images; a document most of them refuse.
        said += [
            _attached(each, set(), False) if each.usual_type in _IMAGES else {"text": text_of(each)}
            for each in message.attached
        ]
        result = {"toolUseId": message.tool_call_id or "", "status": "success", "content": said or [{"text": ""}]}
        return {"role": "user", "content": [cast(ContentBlock, {"toolResult": result})]}
    prompt = prompt_of(message, before, office=office)
    return {"role": "user", "content": [{"text": prompt}] if isinstance(prompt, str) else prompt}
