"""Items of the SDK and our messages: what everybody reads of a conversation, and a conversation that it has not had.

Its conversations are lists of items in the form of the Responses API, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from agents import Model, OpenAIChatCompletionsModel
from pydantic_core import to_jsonable_python

from hitl.ext.native import has_kept, keep, recall
from hitl.messages import ChatMessage, ToolCall
from hitl.models.attached import in_the_form_of_its_role
from hitl.models.responses_wire import part_of

Item: TypeAlias = dict[str, Any]

FORM: Final = "openai_agents"
"""Names the form in which a session's messages carry the SDK's items."""

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_OUTPUT_END: Final = "_call_output"
_EXTENSIONS: Final = "agents.extensions."
_ELSEWHERE: Final = {"input_image": ("image_url", "an image"), "input_file": ("file_url", "a file")}


def prompt_of(message: ChatMessage) -> Item:
    """A person's message as an item."""
    return {"role": "user", "content": _content(message)}


def _content(message: ChatMessage) -> str | list[Item]:
    attached = message.attached
    if not attached:
        return message.content or ""
    parts: list[Item] = [{"type": "input_text", "text": message.content}] if message.content else []
    return [*parts, *map(part_of, attached)]


def suited(input: str | list[Any], model: Model) -> str | list[Any]:
    """What a model is asked, with the addresses told in text that it would raise at, or fetch itself.

    The Responses API fetches them, and so are they kept. Chat completions take none of a file. LiteLLM and any-llm
    fetch images in the process that asks, and so would a worker, for whoever may send a message. A model of the
    program's own gets them as they are.
    """
    is_extension = any(each.__module__.startswith(_EXTENSIONS) for each in type(model).__mro__)
    if isinstance(input, str) or not (is_extension or isinstance(model, OpenAIChatCompletionsModel)):
        return input
    told = ("input_image", "input_file") if is_extension else ("input_file",)
    return [_in_text(item, told) for item in input]


def _in_text(item: Any, told: Sequence[str]) -> Any:
    """An item, with the addresses of these kinds told in text."""
    changed = {}
    for member in ("content", "output"):
        parts = item.get(member) if isinstance(item, dict) else None
        if isinstance(parts, list):
            changed[member] = [_part_in_text(part, told) for part in parts]
    return {**item, **changed} if changed else item


def _part_in_text(part: Any, told: Sequence[str]) -> Any:
    kind = str(part.get("type")) if isinstance(part, dict) else ""
    if kind not in told:
        return part
    member, what = _ELSEWHERE[kind]
    address = part.get(member)
    if not isinstance(address, str) or address.startswith("data:"):
        return part
    return {"type": "input_text", "text": f"[attached, and not shown to you: {what}, at {address}]"}


def history_of(state: Sequence[ChatMessage]) -> list[Item]:
    """A session's messages as the items that a run goes on from."""
    history: list[Item] = []
    for found in recall(state, FORM):
        history += _from_chat(found) if isinstance(found, ChatMessage) else found
    return history


def turn_of(message: ChatMessage, made: Sequence[Item], reply: str, agent: str) -> list[ChatMessage]:
    """The messages of a turn: what the person said, what ``made`` of it, and the reply, in the name of the agent that
    gave it, which carries all of it."""
    shown = [message, *to_chat(made)]
    last = shown[-1]
    if last.role == "assistant" and not last.tool_calls:
        shown[-1] = replace(last, content=reply, name=agent)
    else:
        shown.append(ChatMessage.assistant_message(content=reply, name=agent))
    return keep(shown, FORM, [prompt_of(message), *made])


def last_agent(state: Sequence[ChatMessage]) -> str | None:
    """Who spoke last in a session: the agent that the conversation was handed to."""
    return next((each.name for each in reversed(state) if has_kept(each, FORM)), None)


def plain(items: Iterable[Any]) -> list[Item]:
    """Items as JSON."""
    made: list[Item] = to_jsonable_python(list(items), by_alias=True, exclude_none=False, fallback=repr)
    return made


def to_chat(items: Iterable[Item]) -> list[ChatMessage]:
    """What of items everybody reads. What a model said and called at once is one message."""
    shown: list[ChatMessage] = []
    names: dict[str, str] = {}
    said: _Speech | None = None
    for item in items:
        kind, role = item.get("type") or "message", item.get("role")
        if role in ("user", "system", "developer"):
            said = _close(said, shown)
            text = _text_of(item.get("content"))
            if role == "user":
                shown.append(ChatMessage.user_message(content=text))
            else:
                shown.append(ChatMessage.system_message(content=text))
        elif kind in _OUTPUTS:
            said = _close(said, shown)
            call_id = str(item.get("call_id") or "")
            content = _text_of(item.get("output"))
            name = names.get(call_id, "tool")
            shown.append(ChatMessage.tool_message(content=content, tool_call_id=call_id, name=name))
        elif kind.endswith(_OUTPUT_END):
            said = _close(said, shown)  # of a tool of the provider's kind: a shell, a computer
        else:
            said = said or _Speech()
            said.add(kind, item)
            if kind in _CALLS:
                names[str(item.get("call_id") or "")] = str(item.get("name") or "tool")
    _close(said, shown)
    return shown


class _Speech:
    """What a model said at once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []

    def add(self, kind: str, item: Item) -> None:
        if kind == "message":
            self.texts.append(_text_of(item.get("content")))
        elif kind == "reasoning":
            self.thoughts.append(_text_of([*(item.get("summary") or ()), *(item.get("content") or ())]))
        elif kind in _CALLS:
            arguments = item.get("arguments")
            call: ToolCall = {
                "id": str(item.get("call_id") or ""),
                "type": "function",
                "function": {
                    "name": str(item.get("name") or "tool"),
                    "arguments": arguments if isinstance(arguments, str) else json.dumps({"input": item.get("input")}),
                },
            }
            self.calls.append(call)

    def message(self) -> ChatMessage | None:
        text, thoughts = "".join(self.texts), "\n".join(self.thoughts)
        if not (text or thoughts or self.calls):
            return None
        return ChatMessage.assistant_message(
            content=text or None, reasoning=thoughts or None, tool_calls=self.calls or None
        )


def _close(said: _Speech | None, shown: list[ChatMessage]) -> _Speech | None:
    """Show what was said until here: nothing is said then."""
    message = None if said is None else said.message()
    if message is not None:
        shown.append(message)
    return None


def spoken(items: Iterable[Item]) -> ChatMessage:
    """One reply of a model."""
    messages = to_chat(items)
    return messages[0] if messages else ChatMessage.assistant_message(content=None)


def _from_chat(message: ChatMessage) -> list[Item]:
    """A message that no run of the SDK has made."""
    message = in_the_form_of_its_role(message)
    if message.role == "assistant":
        text: list[Item] = [{"role": "assistant", "content": message.content}] if message.content else []
        calls: list[Item] = [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in message.tool_calls or ()
        ]
        return [*text, *calls]
    if message.role == "tool":
        output = _content(message)
        if isinstance(output, list) and all(part["type"] == "input_text" for part in output):
            output = "\n\n".join(part["text"] for part in output)  # a text, as far as the API takes it for one
        return [{"type": "function_call_output", "call_id": message.tool_call_id or "", "output": output}]
    if message.role == "system":
        return [{"role": "system", "content": message.content or ""}]
    return [prompt_of(message)]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content)
    texts = [part.get("text") or part.get("refusal") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
