"""What of a long conversation a model is shown: summaries, and history processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hitl
from hitl import Attachment, ChatMessage, Compaction, ReActAgent, RunContext, RunState, tool
from hitl.agents.compaction import shown_to_models, transcript
from hitl.models import ModelReply, ModelRequest
from tests.python.support.local import LocalTurn, run_locally

GO = ChatMessage.user_message(content="go")
LONG = "word " * 80
"""About a hundred tokens."""


class Model:
    """Says what a function makes of each request; a summary when it is given nothing else to do."""

    default_model = "m"

    def __init__(self, say: Callable[[ModelRequest], Any] = lambda request: "done") -> None:
        self.say = say
        self.requests: list[ModelRequest] = []
        self.summed_up: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        first = request.messages[0]
        if first.role == "system" and "summary" in (first.content or ""):
            self.summed_up.append(request.messages[1].content or "")
            return ModelReply(ChatMessage.assistant_message(content=f"SUMMARY {len(self.summed_up)}"), {}, "stop")
        self.requests.append(request)
        said = self.say(request)
        if isinstance(said, str):
            return ModelReply(ChatMessage.assistant_message(content=said), {}, "stop")
        return ModelReply(ChatMessage.assistant_message(tool_calls=said), {}, "tool_calls")


def shown(request: ModelRequest) -> list[str]:
    return [f"{message.role}: {(message.content or '')[:60]}" for message in request.messages]


def turns(number: int) -> list[ChatMessage]:
    each = [
        [ChatMessage.user_message(content=f"{n} {LONG}"), ChatMessage.assistant_message(content=f"yes {n}")]
        for n in range(number)
    ]
    return [message for pair in each for message in pair]


SHORT = Compaction(over_tokens=400, keep_tokens=118)


async def test_a_long_conversation_goes_on_with_a_summary_and_the_session_keeps_all_of_it() -> None:
    model, state = Model(), turns(5)
    agent = ReActAgent(model, compaction=SHORT)
    result = await run_locally(agent, "and now?", state)
    assert shown(model.requests[0]) == [
        "user: [What was said before, summed up]\n\nSUMMARY 1",
        f"user: {state[8].content}"[:66],
        "assistant: yes 4",
        "user: and now?",
    ]
    assert result.state[:10] == state
    assert [message.role for message in result.state[10:]] == ["user", "system", "assistant"]
    (told,) = model.summed_up
    assert told.startswith("User: 0 word")
    assert "Assistant: yes 3" in told
    assert "yes 4" not in told

    # The next turn asks for no other summary; the one after many more sums up the first one too.
    again = await run_locally(agent, "and then?", result.state)
    assert len(model.summed_up) == 1
    assert shown(model.requests[1])[0] == shown(model.requests[0])[0]
    await run_locally(agent, "at last?", [*again.state, *turns(5)])
    assert model.summed_up[1].startswith("Summary of what was before:\nSUMMARY 1")
    assert shown(model.requests[2])[0] == "user: [What was said before, summed up]\n\nSUMMARY 2"


async def test_a_call_and_its_results_stay_together() -> None:
    @tool
    async def read(number: int) -> str:
        return f"{number} {LONG}"

    def say(request: ModelRequest) -> Any:
        number = len(model.requests)
        if number > 6:
            return "done"
        return [
            {"id": f"{number}{each}", "type": "function", "function": {"name": "read", "arguments": '{"number": 1}'}}
            for each in "abc"
        ]

    model = Model(say)
    result = await run_locally(ReActAgent(model, tools=[read], compaction=SHORT), "read all")
    assert result.response.content == "done"
    assert model.summed_up
    for request in model.requests:
        open_calls: list[str] = []
        for message in request.messages:
            if message.role == "tool":
                open_calls.remove(message.tool_call_id or "")
            else:
                assert open_calls == []
                open_calls = [call["id"] for call in message.tool_calls or []]
        assert open_calls == []


async def test_a_summary_is_written_once_whatever_happens_after_it() -> None:
    asked: list[Any] = [
        {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}},
    ]
    model = Model(lambda request: asked if len(model.requests) == 1 else "done")

    @tool(requires_approval=True)
    async def pay() -> str:
        return "paid"

    agent = ReActAgent(model, tools=[pay], compaction=SHORT)
    async with hitl.Store("memory") as store:
        for number in range(4):
            model.requests = [ModelRequest("m", [])] * 5
            await hitl.run(agent, f"{number} {LONG}", store=store, session="s")
        model.requests.clear()
        waits = await hitl.run(agent, f"pay {LONG}", store=store, session="s")
        assert waits.state is not None
        before = len(model.summed_up)
        assert before >= 1
        state = RunState.from_string(agent, waits.state.to_string())
        done = await hitl.run(agent, state.approve(state.interrupts[0]), store=store)
        assert (done.output, len(model.summed_up)) == ("done", before)


async def test_a_crash_after_every_entry_comes_to_the_same_end() -> None:
    model = Model()
    agent = ReActAgent(model, compaction=SHORT, history_processors=[only_last])
    first = LocalTurn()
    _, whole = await first.run(agent.run_turn, GO, turns(5))
    assert len(model.summed_up) == 1
    for cut in range(2, len(first.port.journal)):
        _, state = await LocalTurn(journal=first.port.journal[:cut]).run(agent.run_turn, GO, turns(5))
        assert state == whole


async def test_a_turn_that_began_without_either_goes_on_without() -> None:
    model = Model()
    first = LocalTurn()
    await first.run(ReActAgent(model).run_turn, GO, turns(5))
    agent = ReActAgent(model, compaction=SHORT, history_processors=[only_last])
    response, _ = await LocalTurn(journal=first.port.journal).run(agent.run_turn, GO, turns(5))
    assert (response.content, model.summed_up) == ("done", [])


async def test_where_the_end_alone_is_too_long_nothing_is_summed_up() -> None:
    """Little would be won, and the next request would do it again."""
    model = Model()
    await run_locally(
        ReActAgent(model, compaction=SHORT), LONG * 10, [GO, ChatMessage.assistant_message(content="yes")]
    )
    assert model.summed_up == []


async def test_what_users_and_models_say_is_no_summary() -> None:
    sly = ChatMessage.user_message(content="forget it", user_params={"hitl_stands_for": 3})
    state = [*turns(1), sly]
    assert shown_to_models(state) == state
    far = ChatMessage.system_message(content="s", user_params={"hitl_stands_for": 9})
    assert shown_to_models([*state, far]) == state  # it cannot stand for what came after it


async def test_another_model_may_write_the_summary() -> None:
    model, writer = Model(), Model()
    agent = ReActAgent(model, compaction=Compaction(over_tokens=400, keep_tokens=150, client=writer))
    await run_locally(agent, "go", turns(5))
    assert (len(model.summed_up), len(writer.summed_up)) == (0, 1)


async def test_the_agent_says_how_its_own_client_is_asked_again() -> None:
    asked = 0

    class Away(Model):
        async def complete(self, request: ModelRequest) -> ModelReply:
            nonlocal asked
            asked += 1
            raise hitl.TransientError("away", retry_after=0)

    agent = ReActAgent(Away(), compaction=SHORT, retries=1, transient="raise")
    with pytest.raises(hitl.TransientError, match="away"):
        await run_locally(agent, "go", turns(5))
    assert asked == 2
    asked = 0
    other = Compaction(over_tokens=400, keep_tokens=118, client=Away())
    with pytest.raises(hitl.errors.ModelUnavailable):
        await run_locally(ReActAgent(Model(), compaction=other, retries=0, transient="raise"), "go", turns(5))
    assert asked == 3  # that client says nothing, and so 2 retries


def test_a_transcript_shows_calls_and_results_as_text() -> None:
    calls: list[Any] = [{"id": "1", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 5}'}}]
    messages = [
        ChatMessage.user_message(content="pay"),
        ChatMessage.assistant_message(tool_calls=calls),
        ChatMessage.tool_message(content="paid", tool_call_id="1", name="pay"),
    ]
    assert transcript(messages) == 'User: pay\n\nAssistant: [calls pay({"cents": 5})]\n\nResult of pay: paid'


def test_a_transcript_tells_of_files_by_their_text_or_their_name() -> None:
    """Else the summary would never mention them."""
    report = Attachment.of_bytes(b"%PDF", "application/pdf", name="report.pdf")
    notes = Attachment.of_bytes(b"Buy tea.", "text/markdown", name="notes.md")
    elsewhere = Attachment("image/png", url="https://example.com/a.png")
    messages = [
        ChatMessage.user_message(attachments=[report, notes]),
        ChatMessage.tool_message(content="drawn", tool_call_id="1", name="draw", attachments=[elsewhere]),
    ]
    assert transcript(messages) == (
        "User: \n[attached: report.pdf, application/pdf]\n[attached: notes.md, text/markdown]\nBuy tea."
        "\n\nResult of draw: drawn\n[attached: image/png, at https://example.com/a.png]"
    )


async def test_a_long_file_makes_a_conversation_long() -> None:
    long = Attachment.of_bytes(LONG.encode() * 5, "text/plain", name="long.txt")
    model = Model()
    history = [ChatMessage.user_message(attachments=[long]), *turns(1)]
    await run_locally(ReActAgent(model, compaction=SHORT), "go", history)
    [summed_up] = model.summed_up
    assert "[attached: long.txt, text/plain]\nword word" in summed_up


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"over_tokens": 0}, "over_tokens must be a whole number of 1 or more, got 0"),
        ({"over_tokens": 10, "keep_tokens": 10}, r"keep_tokens \(10\) must be less than over_tokens \(10\)"),
        ({"client": object()}, "a client needs model_name beside it"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Compaction(**options)
    with pytest.raises(TypeError, match="compaction must be a Compaction, got bool"):
        ReActAgent(compaction=True)  # type: ignore[arg-type]


# -- history processors -------------------------------------------------------------------------------------------


def only_last(ctx: RunContext[Any], messages: list[ChatMessage]) -> list[ChatMessage]:
    return [ChatMessage.user_message(content="(left out)"), *messages[-1:]]


async def test_a_processor_says_what_a_model_is_shown_and_changes_nothing_else() -> None:
    async def shout(ctx: RunContext[Any], messages: list[ChatMessage]) -> list[ChatMessage]:
        return [*messages[:-1], ChatMessage.user_message(content=(messages[-1].content or "").upper())]

    model = Model()
    agent = ReActAgent(model, history_processors=[only_last, shout], system_prompt="Be brief.")
    result = await run_locally(agent, "go", turns(2))
    assert shown(model.requests[0]) == ["system: Be brief.", "user: (left out)", "user: GO"]
    assert result.state == [*turns(2), GO, ChatMessage.assistant_message(content="done")]
    steps = [entry["result"]["value"] for entry in result.port.journal if entry.get("step", {}).get("key")]
    assert steps[0] == [{"role": "user", "content": "(left out)"}, 4]  # what stays is a number


async def test_what_a_processor_changes_in_place_is_shown_and_is_no_part_of_the_conversation() -> None:
    """Else a replay, which has what was recorded of it, would go on with another conversation."""

    def without_images(ctx: RunContext[Any], messages: list[ChatMessage]) -> list[ChatMessage]:
        for message in messages:
            message.base64_image = None
        return messages

    model = Model()
    agent = ReActAgent(model, history_processors=[without_images])
    first = LocalTurn()
    image = ChatMessage.user_message(content="look", base64_image="iVBORw0KGgo=")
    _, whole = await first.run(agent.run_turn, GO, [image, ChatMessage.assistant_message(content="a cat")])
    assert [message.base64_image for message in model.requests[0].messages] == [None, None, None]
    assert whole[0].base64_image == "iVBORw0KGgo="
    _, again = await LocalTurn(journal=first.port.journal[:-1]).run(agent.run_turn, GO, whole[:2])
    assert again == whole


@pytest.mark.parametrize("options", [{"history_processors": [len]}, {"system_prompt": lambda: "Be brief."}])
def test_a_function_that_cannot_be_called_is_refused_when_the_agent_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="ReActAgent: .* must take .* the RunContext"):
        ReActAgent(**options)


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (None, TypeError, "history processor 'wrong' must return a list of ChatMessage, got NoneType"),
        (slice(2, None), ValueError, "left the result of a tool call without the call"),
        (slice(0, 2), ValueError, "left a tool call without its result"),
    ],
)
async def test_a_processor_that_returns_what_no_provider_takes_fails_the_turn(
    returned: Any, error: type[Exception], words: str
) -> None:
    def wrong(ctx: RunContext[Any], messages: list[ChatMessage]) -> Any:
        return messages[returned] if returned is not None else None

    calls: list[Any] = [{"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}]
    state = [
        GO,
        ChatMessage.assistant_message(tool_calls=calls),
        ChatMessage.tool_message(content="paid", tool_call_id="1"),
        ChatMessage.assistant_message(content="done"),
    ]
    with pytest.raises(error, match=words):
        await run_locally(ReActAgent(Model(), history_processors=[wrong]), "go", state)
