"""What only a provider can read of a reply, in a message and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hitl.messages import ChatMessage, ToolCall
from hitl.models.replies import Part, keep_parts, parts_of
from hitl.models.wire import to_wire


def call(number: int) -> ToolCall:
    return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


texts = st.builds(lambda text, marks: Part("text", text=text, native=marks), st.text("ab", min_size=1), st.none())
marked = st.builds(lambda text: Part("text", text=text, native={"phase": "commentary"}), st.text("ab", min_size=1))
own = st.builds(lambda number: Part("own", native={"type": "thinking", "n": number}), st.integers())
calls = st.builds(lambda: Part("call"))


def numbered(parts: list[Part]) -> list[Part]:
    """Each call with an id of its own, as a reply has them, and no two texts side by side, as no reply has them."""
    made: list[Part] = []
    for part in parts:
        if part.kind == "call":
            part = Part("call", call=call(len(made)))  # noqa: PLW2901
        if not (made and made[-1].kind == part.kind == "text"):
            made.append(part)
    return made


def message_of(parts: list[Part]) -> ChatMessage:
    return ChatMessage.assistant_message(
        content="".join(part.text for part in parts) or None,
        tool_calls=[part.call for part in parts if part.call is not None] or None,
        reasoning_details=keep_parts("test", parts),
    )


@given(st.lists(texts | marked | own | calls, max_size=8).map(numbered))
def test_a_reply_goes_back_as_it_came_through_journal_and_state(parts: list[Part]) -> None:
    message = ChatMessage.from_dict(dict(message_of(parts).to_dict()))
    assert list(parts_of("test", message)) == parts
    others = list(parts_of("another", message))
    assert not any(part.kind == "own" or part.native for part in others)
    assert "".join(part.text for part in others) == "".join(part.text for part in parts)


def test_a_plain_reply_keeps_nothing_besides() -> None:
    assert keep_parts("test", [Part("text", text="hi"), Part("call", call=call(1))]) is None


def test_what_was_made_of_text_and_calls_since_is_what_goes_back() -> None:
    thought = Part("own", native={"type": "thinking"})
    parts = [Part("text", text="a"), thought, Part("call", call=call(1)), Part("text", text="b")]
    message = message_of(parts)
    message.content = "changed by a guardrail"
    message.tool_calls = [call(1), call(2)]
    assert [(part.kind, part.text or (part.call or {}).get("id")) for part in parts_of("test", message)] == [
        ("text", "changed by a guardrail"),
        ("own", None),
        ("call", "c1"),
        ("call", "c2"),
    ]
    message.content, message.tool_calls = None, None
    assert list(parts_of("test", message)) == [thought]


def test_chat_completions_are_sent_their_own_details_alone() -> None:
    details = [*(keep_parts("test", [Part("own", native={"type": "thinking"})]) or []), {"type": "reasoning.text"}]
    message = ChatMessage.assistant_message(content="hi", reasoning="hm", reasoning_details=details)
    assert to_wire(message, reasoning=True)["reasoning_details"] == [{"type": "reasoning.text"}]
    message.reasoning_details = details[:1]
    wire = to_wire(message, reasoning=True)
    assert (wire.get("reasoning_details"), wire["reasoning"]) == (None, "hm")
