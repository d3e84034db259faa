"""A model without a mind: fixed plans behind the interface of a chat client, for trying things out with no key.

It sees what a real model would see, asks for the same tools and gets the same results, rejections included. Like a
real one it keeps nothing between two requests: each time, the plan for the last user message starts from its top and
is fed what the conversation already holds, until it wants something new.

The plans below are those of `hitl.examples.file_agent`; the other examples have their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import PurePosixPath
from typing import Any

from hitl import ChatMessage
from hitl.models import ChatClient, ModelReply, ModelRequest, OpenAIChatClient, OpenRouterChatClient

Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""
Plan = Generator[Call | list[Call], Any, str]
"""Yields the calls it wants, one or several at once, is sent what they returned, and returns the reply."""
Plans = Sequence[tuple[str, Callable[[str], Plan]]]
"""For which messages (a pattern somewhere in the text, of whatever case) which plan is; the first that fits."""
File = dict[str, Any]

ABILITIES = (
    "I am the offline demo model, and I follow fixed plans. Try:\n"
    "- delete the old logs file\n"
    "- help me organize my downloads\n"
    "- move todo.txt to lists/todo.txt\n"
    "- list the files\n"
    "- read todo.txt\n"
    "With OPENROUTER_API_KEY or OPENAI_API_KEY set, a real model takes my place in "
    "`hitl serve hitl.examples.file_agent:agent`."
)


class DemoModel:
    """A `ChatClient` that needs no key and no network; `abilities` is what it says where none of its plans fits."""

    def __init__(self, plans: Plans | None = None, abilities: str = ABILITIES) -> None:
        self._plans = PLANS if plans is None else plans
        self._abilities = abilities

    async def complete(self, request: ModelRequest) -> ModelReply:
        """See `ChatClient`."""
        reply = self.next_message(request.messages)
        if request.on_delta is not None:
            for word in re.findall(r"\S+\s*", reply.content or ""):
                request.on_delta({"content": word})
        return ModelReply(reply, finish_reason="tool_calls" if reply.tool_calls else "stop")

    def next_message(self, messages: list[ChatMessage]) -> ChatMessage:
        """What the plan for the last user message says or calls next."""
        start = max(index for index, message in enumerate(messages) if message.role == "user")
        results = [read_result(message.content or "") for message in messages[start:] if message.role == "tool"]
        plan = self._plan_for(messages[start].content or "")
        try:
            wanted = next(plan)
            while results:
                several = isinstance(wanted, list)
                count = len(wanted) if several else 1
                came, results = results[:count], results[count:]
                wanted = plan.send(came if several else came[0])
        except StopIteration as finished:
            return ChatMessage.assistant_message(content=finished.value)
        calls = [
            {
                "id": f"call_{len(messages)}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for number, (name, arguments) in enumerate(wanted if isinstance(wanted, list) else [wanted])
        ]
        return ChatMessage.assistant_message(tool_calls=calls)

    def _plan_for(self, request: str) -> Plan:
        for pattern, plan in self._plans:
            if re.search(pattern, request, re.IGNORECASE):
                return plan(request)
        return say(self._abilities)


def choose_model(offline: ChatClient) -> tuple[ChatClient, str]:
    """The chat client there is a key for, and the model to ask; without a key `offline`."""
    if os.environ.get("OPENROUTER_API_KEY"):
        return OpenRouterChatClient(), os.environ.get("HITL_MODEL") or "anthropic/claude-sonnet-4"
    if os.environ.get("OPENAI_API_KEY"):
        return OpenAIChatClient(), os.environ.get("HITL_MODEL") or "gpt-4.1"
    return offline, "demo"


def read_result(text: str) -> Any:
    """A tool's result as data where it is JSON, else its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def error_of(result: Any) -> str | None:
    """What went wrong with a call: the tool's own error, or a person's "no" with the reason."""
    match result:
        case {"error": error, **others} if not others:
            return str(error)
        case _:
            return None


def done(result: Any) -> str:
    """What a tool says it did: a person may have changed its arguments, which stands below that, or answered for it."""
    said, _, _ = str(result).partition("\n")
    return f"Done: {said}."


# --- plans ----------------------------------------------------------------------------------------------------------


def say(text: str) -> Plan:
    """The plan that only says something."""
    yield from ()  # a plan that wants nothing is still a generator
    return text


def list_all(request: str) -> Plan:
    files = yield "list_files", {}
    if error := error_of(files):
        return f"I could not look: {error}"
    if not files:
        return "There are no files."
    return "\n".join(["These are the files:", *(f"- {file['path']} ({file['bytes']:,} bytes)" for file in files)])


def read(request: str) -> Plan:
    path = yield from find_file(request)
    if path is None:
        return f"I cannot tell which file you mean. Say {NAME_IT}."
    text = yield "read_file", {"path": path}
    return f"I could not read {path}: {error}" if (error := error_of(text)) else f"{path} says:\n\n{text}"


def delete(request: str) -> Plan:
    path = yield from find_file(request)
    if path is None:
        return f"I cannot tell which file to delete, so I deleted none. Say {NAME_IT}."
    result = yield "delete_file", {"path": path}
    if error := error_of(result):
        return f"{path} is still there. I was told: {error}"
    return f"Done: {path} is gone." if result == f"deleted {path}" else done(result)


MOVE = r"\b(?:move|rename)\s+(\S+)\s+(?:to|into|as)\s+(\S*\w)"


def move(request: str) -> Plan:
    if (paths := re.search(MOVE, request, re.IGNORECASE)) is None:
        return 'I cannot tell what goes where. Say it as in "move todo.txt to lists/todo.txt".'
    result = yield "move_files", {"moves": {paths[1]: paths[2]}}
    if error := error_of(result):
        return f"{paths[1]} stays where it is. I was told: {error}"
    return done(result)


STRATEGY = {
    "question": "How should I organize the files?",
    "header": "Strategy",
    "options": [
        {"label": "By type", "description": "A folder for each kind of file", "markdown": "csv/\nsvg/\ntxt/"},
        {"label": "By date", "description": "A folder for each month", "markdown": "2024-09/\n2025-01/\n2025-05/"},
        {"label": "By size", "description": "Large files apart, the rest stays", "markdown": "large/"},
    ],
}


def organize(request: str) -> Plan:
    files = yield "list_files", {}
    if error := error_of(files):
        return f"I could not look: {error}"
    loose = [file for file in files if PurePosixPath(file["path"]).parent.as_posix() in ("downloads", "Downloads")]
    loose = loose or [file for file in files if "/" not in file["path"]]
    if not loose:
        return "Everything is in a folder already: there is nothing to organize."
    answers = yield "ask_user_question", {"questions": [STRATEGY]}
    if error := error_of(answers):
        return f"I moved nothing. I was told: {error}"
    answer = answers[STRATEGY["question"]]
    folder_of = read_strategy(answer)
    if folder_of is None:
        return (
            f'I moved nothing. You said "{answer}"; being the offline demo model, I can sort by type, by date or by '
            'size, or put everything "into" one folder you name.'
        )
    moves: dict[str, str] = {}
    for file in loose:
        path = PurePosixPath(file["path"])
        if folder := folder_of(file):
            moves[str(path)] = str(path.parent / folder / path.name)
    if not moves:
        return f'"{answer}" leaves every file where it is.'
    result = yield "move_files", {"moves": moves}
    if error := error_of(result):
        return f"The files are not organized. I was told: {error}"
    return done(result)


PLANS: Plans = [
    (r"\b(delete|remove|erase)\b", delete),
    (r"\b(organi[sz]e|tidy|sort|clean)\b", organize),
    (r"\b(move|rename)\b", move),
    (r"\b(read|open|cat)\b", read),
    (r"\b(list|ls|show|which|what)\b.*\b(files?|there|directory|folder)\b|^\s*ls\b", list_all),
]


# --- what was meant -------------------------------------------------------------------------------------------------

NAME_IT = 'its name, as in "delete old_logs.txt", or ask me to list the files'
IGNORED = {"delete", "remove", "erase", "read", "open", "cat", "the", "my", "a", "file", "files", "please", "me", "and"}
ONE_FOLDER = r"\b(?:into|called|named)\s+(?:(?:an?|the|one|folder|called)\s+)*[\"']?([\w-]+)"


def find_file(request: str) -> Generator[Call, Any, str | None]:
    """The path of the one file that has most of the request's words in it; None when none or several do."""
    files = yield "list_files", {}
    if error_of(files):
        return None
    words = set(re.findall(r"[\w./-]*\w", request.lower())) - IGNORED
    scores = {file["path"]: sum(word in file["path"].lower() for word in words) for file in files}
    best = max(scores.values(), default=0)
    found = [path for path, score in scores.items() if score == best]
    return found[0] if best and len(found) == 1 else None


def read_strategy(answer: str) -> Callable[[File], str | None] | None:
    """Which folder a file goes to under an answer, a label or free text; None for an answer that says nothing."""
    if re.search(r"\b(type|kind|extension)s?\b", answer, re.IGNORECASE):
        return lambda file: PurePosixPath(file["path"]).suffix.lstrip(".").lower() or "other"
    if re.search(r"\b(date|month|year|age)s?\b", answer, re.IGNORECASE):
        return lambda file: str(file["modified"])[: len("2025-01")]
    if re.search(r"\b(size|large|big)\b", answer, re.IGNORECASE):
        return lambda file: "large" if file["bytes"] > 100_000 else None
    one = re.search(ONE_FOLDER, answer, re.IGNORECASE)
    return (lambda _: one[1]) if one else None
