"""Messages: what goes into a turn, what comes out of it, and what a session remembers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, Required, TypedDict

from hitl.attachments import Attachment, AttachmentDict, image_of

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


class FunctionCall(TypedDict):
    """The function a model wants called; ``arguments`` is JSON text as the model wrote it, valid or not."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """One tool call of an assistant message, in the chat-completions shape."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessageDict(TypedDict, total=False):
    """A message as JSON; every field but ``role`` may be absent."""

    role: Required[Role]
    content: str | None
    reasoning: str | None
    reasoning_details: list[Any] | None
    tool_calls: list[ToolCall] | None
    tool_call_id: str | None
    name: str | None
    base64_image: str | None
    attachments: list[AttachmentDict] | None
    user_params: dict[str, Any] | None


@dataclass(slots=True)
class ChatMessage:
    """One message of a conversation.

    ``role`` is one of ``system``, ``user``, ``assistant`` and ``tool``; every other field is optional. Two messages
    are equal when all ten fields are. A wrong type in a field is a ``TypeError`` and an unknown role a
    ``ValueError``, both naming the field.

    Example:
        message = ChatMessage.user_message(content="delete the old logs file")
        asked = ChatMessage.user_message(content="Whose is it?", attachments=[Attachment.of_file("cat.png")])
        reply = ChatMessage.assistant_message(content="It is gone.")
    """

    role: Role
    content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    base64_image: str | None = None
    """One image, base64 or a `data:` URL: what `attachments` is for since, and as good."""

    attachments: list[Attachment] | None = None
    """Images and other files."""

    user_params: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise if a field holds what cannot be sent; fields can be assigned to, so this runs again before sending."""
        if self.role in ROLES and self._is_plain():
            return
        if self.role not in ROLES:
            raise ValueError(f"ChatMessage.role must be one of {', '.join(ROLES)}, got {self.role!r}")
        for name in _TEXT_FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"ChatMessage.{name} must be a str or None, got {type(value).__name__}")
        for name, expected in _CONTAINER_FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, expected):
                raise TypeError(f"ChatMessage.{name} must be a {expected.__name__} or None, got {type(value).__name__}")
        for index, call in enumerate(self.tool_calls or ()):
            _check_call(f"ChatMessage.tool_calls[{index}]", call)
        for item in self.attachments or ():
            if not isinstance(item, Attachment):
                raise TypeError(
                    f"ChatMessage.attachments must be a list of Attachment, got one of {type(item).__name__}"
                )

    def _is_plain(self) -> bool:
        """Whether it is text alone, as most are; messages are checked often."""
        return (
            type(self.content) in _PLAIN
            and type(self.name) in _PLAIN
            and type(self.tool_call_id) in _PLAIN
            and type(self.reasoning) in _PLAIN
            and self.base64_image is None
            and self.attachments is None
            and self.tool_calls is None
            and self.reasoning_details is None
            and self.user_params is None
        )

    @classmethod
    def user_message(cls, content: str | None = None, **fields: Any) -> ChatMessage:
        """A message of the person who uses the agent."""
        return cls(role="user", content=content, **fields)

    @classmethod
    def assistant_message(cls, content: str | None = None, **fields: Any) -> ChatMessage:
        """A message of the model: text, tool calls, or both."""
        return cls(role="assistant", content=content, **fields)

    @classmethod
    def system_message(cls, content: str | None = None, **fields: Any) -> ChatMessage:
        """Instructions to the model."""
        return cls(role="system", content=content, **fields)

    @classmethod
    def tool_message(cls, content: str | None = None, **fields: Any) -> ChatMessage:
        """The result of one tool call; give ``tool_call_id`` so that the model can match it."""
        return cls(role="tool", content=content, **fields)

    def to_dict(self) -> ChatMessageDict:
        """The message as JSON, fields that are None left out. Containers are shared with the message, not copied."""
        data: Any = {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
        if self.attachments is not None:
            data["attachments"] = [attachment.to_dict() for attachment in self.attachments]
        return data  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChatMessage:
        """The message that ``to_dict`` or the HTTP API wrote; a missing role means ``user``.

        Raises TypeError for an unknown field or a wrong type, ValueError for an unknown role.
        """
        if not data.keys() <= _KNOWN:
            raise TypeError(f"ChatMessage has no field {min(map(str, data.keys() - _KNOWN))!r}")
        attachments = data.get("attachments")
        if isinstance(attachments, list):
            data = {**data, "attachments": [_attachment(item) for item in attachments]}
        return cls(**{"role": "user", **data})

    @property
    def attached(self) -> list[Attachment]:
        """All that is attached, `base64_image` first. Where that cannot be read it is an attachment without bytes, of
        the type `application/octet-stream`, of which a model is told that it cannot be read."""
        image = [image_of(self.base64_image)] if self.base64_image else []
        return [*image, *(self.attachments or ())]


def _check_call(where: str, call: Any) -> None:
    """TypeError or ValueError for a tool call that is none in the chat-completions shape."""
    _check_member(where, call, dict)
    _check_member(f"{where}.id", call.get("id"), str)
    function = call.get("function")
    _check_member(f"{where}.function", function, dict)
    _check_member(f"{where}.function.name", function.get("name"), str)
    _check_member(f"{where}.function.arguments", function.get("arguments"), str, " of JSON")
    if call.get("type", "function") != "function":
        raise ValueError(f'{where}.type must be "function", got {call["type"]!r}')


def _check_member(where: str, value: Any, expected: type, of: str = "") -> None:
    if not isinstance(value, expected):
        raise TypeError(f"{where} must be a {expected.__name__}{of}, got {type(value).__name__}")


def _attachment(item: Any) -> Any:
    """An attachment as JSON read back; anything else as it is, which `check` refuses."""
    return Attachment.from_dict(item) if isinstance(item, dict) else item


FIELDS: tuple[str, ...] = tuple(field.name for field in fields(ChatMessage))
_KNOWN = frozenset(FIELDS)
_PLAIN = frozenset({str, type(None)})
_CONTAINER_FIELDS: tuple[tuple[str, type], ...] = (
    ("reasoning_details", list),
    ("tool_calls", list),
    ("attachments", list),
    ("user_params", dict),
)
_TEXT_FIELDS = tuple(name for name in FIELDS if name != "role" and name not in dict(_CONTAINER_FIELDS))
