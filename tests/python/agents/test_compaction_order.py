"""A compaction among history processors: what it is given, what its summary stands for, and what of the rest."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hitl import ChatMessage, Compaction, ReActAgent, RunContext, tool
from hitl.agents.compaction import SummedUp, shown_to_models
from hitl.errors import ReplayMismatch
from hitl.models import ModelReply, ModelRequest
from hitl.testing import HitlServer, Human
from tests.python.support.local import Journal, LocalTurn, run_locally

Messages = list[ChatMessage]
Context = RunContext[Any]

LONG = "word " * 80
"""About a hundred tokens."""

SHORT = Compaction(over_tokens=400, keep_tokens=118)


class Model:
    """Calls `look` as often as a request has question marks, and then answers; its summaries hold all marks, `<7>`, of
    what they were made of."""

    default_model = "m"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.summed_up: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        first = request.messages[0]
        if first.role == "system" and "summary" in (first.content or ""):
            told = request.messages[1].content or ""
            self.summed_up.append(told)
            summary = f"of {' '.join(marks(told))}"
            return ModelReply(ChatMessage.assistant_message(content=summary), {}, "stop")
        self.requests.append(request)
        last = request.messages[-1]
        if last.role != "user" or "?" not in (last.content or ""):
            return ModelReply(ChatMessage.assistant_message(content="done"), {}, "stop")
        calls: list[Any] = [
            {"id": f"c{len(self.requests)}-{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for n in range((last.content or "").count("?"))
        ]
        return ModelReply(ChatMessage.assistant_message(tool_calls=calls), {}, "tool_calls")


def marks(text: str) -> list[str]:
    return re.findall(r"<\d+>", text)


def marks_of(messages: Sequence[ChatMessage]) -> list[str]:
    return marks(" ".join(message.content or "" for message in messages))


def looker(words: str = LONG * 4) -> Any:
    """A tool whose results are long, each with a mark of its own."""
    count = 1000

    @tool
    async def look() -> str:
        nonlocal count
        count += 1
        return f"<{count}> {words}"

    return look


def turns(number: int) -> Messages:
    each = [
        [ChatMessage.user_message(content=f"<{n}> {LONG}"), ChatMessage.assistant_message(content=f"yes {n}")]
        for n in range(number)
    ]
    return [message for pair in each for message in pair]


def said(state: Sequence[ChatMessage]) -> Messages:
    return [message for message in state if message.role != "system"]


def stands_for(state: Sequence[ChatMessage]) -> list[Any]:
    return [message.user_params for message in state if message.role == "system"]


def check_whole(messages: Sequence[ChatMessage]) -> None:
    """No call without its results, no result without its call."""
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            open_calls.remove(message.tool_call_id or "")
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.tool_calls or []]
    assert open_calls == []


def cut(ctx: Context, messages: Messages) -> Messages:
    """Long results, to their first words."""
    for message in messages:
        if message.role == "tool":
            message.content = (message.content or "")[:20]
    return messages


def hide(ctx: Context, messages: Messages) -> Messages:
    """What users said with an even mark, while nobody says otherwise."""
    if ctx.context == "all":
        return messages
    even = re.compile(r"<\d*[02468]>")
    return [message for message in messages if message.role != "user" or not even.match(message.content or "")]


def recent(ctx: Context, messages: Messages) -> Messages:
    """The last six, without a result at the beginning."""
    kept = messages[-6:]
    while kept and kept[0].role == "tool":
        kept = kept[1:]
    return kept


def noted(ctx: Context, messages: Messages) -> Messages:
    return [ChatMessage.user_message(content="(note)"), *messages]


# -- what it is given ------------------------------------------------------------------------------------------------


async def test_it_measures_what_those_before_it_have_left() -> None:
    asked = "look <1>?? now"
    for options, summaries in (
        ({"history_processors": [cut, SHORT]}, 0),
        ({"history_processors": [SHORT, cut]}, 1),
        ({"history_processors": [cut], "compaction": SHORT}, 1),
    ):
        model = Model()
        state = (await run_locally(ReActAgent(Model(), tools=[looker()]), asked)).state
        agent = ReActAgent(model, tools=[looker()], **options)  # type: ignore[arg-type]
        await run_locally(agent, "and <2>", state)
        assert len(model.summed_up) == summaries


async def test_it_sums_up_what_it_is_given_and_the_session_keeps_what_was_said() -> None:
    model = Model()
    agent = ReActAgent(model, tools=[looker()], history_processors=[cut, SHORT, noted])
    state = [*turns(1), *(await run_locally(ReActAgent(Model(), tools=[looker()]), "<7> ??")).state, *turns(4)]
    result = await run_locally(agent, "now", state)
    (told,) = model.summed_up
    assert "Result of look: <1001> word word wor\n" in told
    assert [message.content for message in model.requests[0].messages[:2]] == [
        "(note)",
        "[What was said before, summed up]\n\nof <0> <7> <1001> <1002> <0> <1> <2>",
    ]
    assert said(result.state)[: len(state)] == state
    assert stands_for(result.state) == [{"hitl_stands_for": 13}]


async def test_the_first_of_the_processors_is_what_compaction_is_short_for() -> None:
    journals = []
    for options in ({"compaction": SHORT, "history_processors": [noted]}, {"history_processors": [SHORT, noted]}):
        result = await run_locally(ReActAgent(Model(), **options), "go", turns(5))  # type: ignore[arg-type]
        journals.append([(entry.get("step"), entry.get("result")) for entry in result.port.journal])
    assert journals[0] == journals[1]


async def test_those_before_it_are_given_what_no_summary_stands_for() -> None:
    """So that what they change, which is recorded with each request, does not grow with the session."""
    model, given = Model(), list[list[str]]()

    def look_on(ctx: Context, messages: Messages) -> Messages:
        given.append(marks_of(messages))
        return messages

    agent = ReActAgent(model, history_processors=[look_on, SHORT])
    result = await run_locally(agent, "<5>", turns(5))
    await run_locally(agent, "<6>", result.state)
    assert given == [["<0>", "<1>", "<2>", "<3>", "<4>", "<5>"], ["<4>", "<5>", "<6>"]]


def test_a_summary_stands_up_to_the_next_message_and_a_conversation_that_somebody_cut_is_no_bar() -> None:
    summary = ChatMessage.system_message(content="s", user_params={"hitl_stands_for": 2})
    assert SummedUp([*turns(2), summary, *turns(1)]).and_for({2, 3}) == {"hitl_stands_for": 5}
    result = ChatMessage.tool_message(content="1", tool_call_id="c")
    parted = SummedUp([*turns(1), result, result, summary, *turns(1)])
    assert parted.whole(parted.given()) == 4


# -- what was left out -----------------------------------------------------------------------------------------------


async def test_what_was_left_out_is_in_no_summary_and_comes_back_when_it_is_left_in() -> None:
    model = Model()
    agent = ReActAgent(model, history_processors=[hide, SHORT])
    result = await run_locally(agent, "<21>", turns(12))
    assert [marks(told) for told in model.summed_up] == [["<1>", "<3>", "<5>", "<7>", "<9>"]]
    assert marks_of(model.requests[0].messages) == ["<1>", "<3>", "<5>", "<7>", "<9>", "<11>", "<21>"]
    (params,) = stands_for(result.state)
    assert params["hitl_not_for"][:3] == [[0, 1], [4, 5], [8, 9]]
    # Nothing that it was not made of: not for this processor once it shows all, not for an agent without any.
    await run_locally(agent, "<23>", result.state, context="all")
    assert sorted(marks_of(model.requests[1].messages)) == sorted([f"<{n}>" for n in [*range(12), 21, 23]])
    assert sorted(marks_of(shown_to_models(result.state))) == sorted([f"<{n}>" for n in [*range(12), 21]])


async def test_a_window_does_not_go_back_over_what_it_has_passed() -> None:
    model = Model()
    agent = ReActAgent(model, history_processors=[recent, SHORT])
    state = turns(5)
    for number in range(5, 12):
        state = (await run_locally(agent, f"<{number}> {LONG * 2}", state)).state
    assert len(model.summed_up) > 2
    assert not {"<0>", "<1>"} & set(marks(" ".join(model.summed_up)))
    for request in model.requests:
        numbers = [int(mark[1:-1]) for mark in marks_of(request.messages)]
        assert numbers == sorted(set(numbers))


async def test_a_summary_is_there_whatever_those_before_it_return() -> None:
    model = Model()
    first = await run_locally(ReActAgent(model, compaction=SHORT), "<5>", turns(5))
    none: Callable[[Context, Messages], Messages] = lambda ctx, messages: []  # noqa: E731
    await run_locally(ReActAgent(model, history_processors=[none, SHORT]), "<6>", first.state)
    assert [message.content for message in model.requests[1].messages] == [
        "[What was said before, summed up]\n\nof <0> <1> <2> <3>"
    ]


async def test_calls_that_became_text_stay_together_with_their_results() -> None:
    """Else the session would be left with results whose calls are in the summary."""

    def as_text(ctx: Context, messages: Messages) -> Messages:
        for message in messages:
            if message.role == "tool":
                message.role, message.tool_call_id = "user", None
            message.tool_calls = None
        return messages

    model = Model()
    agent = ReActAgent(model, tools=[looker(LONG)], history_processors=[as_text, SHORT])
    state = (await run_locally(ReActAgent(Model(), tools=[looker(LONG)]), "<1> ??????")).state
    for number in range(2, 12):
        result = await run_locally(agent, f"<{number}> {LONG}", state)
        state = result.state
        check_whole(shown_to_models(state))
    assert model.summed_up


# -- any order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
async def test_in_any_order_each_message_is_shown_or_summed_up_and_none_is_both(seed: int) -> None:
    chance = random.Random(seed)
    order: list[Any] = chance.sample([cut, hide], chance.randint(0, 2))
    order.insert(chance.randint(0, len(order)), Compaction(over_tokens=chance.choice([200, 400, 800]), keep_tokens=118))
    if chance.random() < 0.5:
        order.append(noted)
    is_hidden_first = hide in order and order.index(hide) < next(
        index for index, each in enumerate(order) if isinstance(each, Compaction)
    )
    model, state, everything = Model(), list[ChatMessage](), list[ChatMessage]()
    agent = ReActAgent(model, tools=[looker(LONG)], history_processors=order)
    for number in range(1, 14):
        message = ChatMessage.user_message(content=f"<{number}> {LONG}{'?' * chance.randint(0, 3)}")
        before, model.requests = state, []
        first = LocalTurn()
        response, state = await first.run(agent.run_turn, message, before)
        assert response.content == "done"
        assert said(state)[: len(everything)] == everything
        everything = said(state)
        shown, written = list(model.requests), len(model.summed_up)
        for request in shown:
            check_whole(request.messages)
        check_whole(shown_to_models(state))
        now = marks_of(shown[-1].messages)
        assert len(now) == len(set(now))
        in_session = set(marks_of(everything))
        hidden = {f"<{n}>" for n in range(2, 16, 2)} if hide in order else set[str]()
        assert in_session - hidden <= set(now)
        if is_hidden_first:
            assert not hidden & {*now, *marks(" ".join(model.summed_up))}
        # A crash anywhere: nothing is summed up again that is recorded, and it comes to the same end.
        journal = first.port.journal
        for end in {chance.randint(1, len(journal) - 1), len(journal)}:
            steps = [(entry["step"]["name"], entry["step"]["path"]) for entry in journal[end:]]
            asked = sum(name == "m" and not path.startswith("~compaction") for name, path in steps)
            model.requests, looked = shown[: len(shown) - asked], "look" in dict(steps)
            _, again = await LocalTurn(journal=journal[:end]).run(agent.run_turn, message, before)
            if not looked:  # its results are marked by a count
                assert said(again) == everything
                assert [request.messages for request in model.requests] == [request.messages for request in shown]
            assert stands_for(again) == stands_for(state)
        del model.summed_up[written:]
    if not is_hidden_first:
        assert model.summed_up


@pytest.mark.parametrize("seed", range(10))
async def test_nor_does_anything_get_lost_between_agents_of_several_orders(seed: int) -> None:
    chance, model, tools = random.Random(seed), Model(), [looker(LONG)]
    agents = [
        ReActAgent(model, tools=tools, history_processors=order)
        for order in (
            [hide, SHORT],
            [SHORT],
            [cut, hide, Compaction(over_tokens=800, keep_tokens=300), noted],
            [],
            [cut],
        )
    ]
    state: Messages = []
    for number in range(1, 30):
        agent = chance.choice(agents)
        state = (await run_locally(agent, f"<{number}> {LONG}{'?' * chance.randint(0, 3)}", state)).state
        hidden = {f"<{n}>" for n in range(2, 30, 2)} if hide in agent.history_processors else set[str]()
        now = marks_of(model.requests[-1].messages)
        assert len(now) == len(set(now))
        assert set(marks_of(said(state))) - hidden <= set(now)
        check_whole(model.requests[-1].messages)
    assert len(model.summed_up) > 2


async def test_a_message_that_is_there_twice_is_two() -> None:
    model = Model()
    state = [ChatMessage.user_message(content=f"again {LONG}")] * 8
    result = await run_locally(ReActAgent(model, history_processors=[cut, SHORT]), "go", state)
    assert len(model.summed_up) == 1
    assert stands_for(result.state) == [{"hitl_stands_for": 7}]


# -- what is refused ---------------------------------------------------------------------------------------------------


async def test_before_it_a_processor_makes_no_messages() -> None:
    def copied(ctx: Context, messages: Messages) -> Messages:
        return [ChatMessage.from_dict({**message.to_dict()}) for message in messages]

    for processor in (copied, noted):
        words = f"'{processor.__name__}' stands before a compaction and returned a message that it was not given"
        with pytest.raises(ValueError, match=words):
            await run_locally(ReActAgent(Model(), history_processors=[processor, SHORT]), "go")
        await run_locally(ReActAgent(Model(), history_processors=[SHORT, processor]), "go")


async def test_before_it_a_processor_leaves_out_all_of_a_call_or_nothing() -> None:
    def first_only(ctx: Context, messages: Messages) -> Messages:
        kept = [message for message in messages if message.tool_call_id != "c1-1"]
        for message in kept:
            message.tool_calls = message.tool_calls and message.tool_calls[:1]
        return kept

    state = (await run_locally(ReActAgent(Model(), tools=[looker()]), "<1> ??")).state
    with pytest.raises(ValueError, match="'first_only' stands before a compaction and left out a part of a message"):
        await run_locally(ReActAgent(Model(), history_processors=[first_only, SHORT]), "go", state)
    await run_locally(ReActAgent(Model(), history_processors=[SHORT, first_only]), "go", state)


def test_an_agent_takes_one() -> None:
    with pytest.raises(TypeError, match="compaction= puts a Compaction before all history_processors, which have one"):
        ReActAgent(compaction=SHORT, history_processors=[cut, SHORT])
    with pytest.raises(ValueError, match="history_processors has 2 Compactions; an agent takes one"):
        ReActAgent(history_processors=[SHORT, cut, Compaction()])
    with pytest.raises(TypeError, match=r"is a function \(ctx, messages\) or a Compaction, got <class"):
        ReActAgent(history_processors=[Compaction])  # type: ignore[list-item]


async def test_what_senders_write_of_a_summary_harms_no_turn() -> None:
    for rows in ("all", [3], [[1]], [["a", "b"]], [[-5, 10**12]], [[1, 2, 3]], {"a": 1}):
        params = {"hitl_stands_for": 2, "hitl_not_for": rows}
        state = [*turns(2), ChatMessage.system_message(content="s", user_params=params)]
        model = Model()
        await run_locally(ReActAgent(model, history_processors=[cut, SHORT]), "go", state)
        assert len(model.requests) == 1


# -- replay ------------------------------------------------------------------------------------------------------------


async def replayed(agent: ReActAgent[Any], journal: Journal, state: Messages, message: str = "go") -> Messages:
    """The turn's messages after a replay without a warning."""
    again = LocalTurn(journal=journal)
    _, after = await again.run(agent.run_turn, ChatMessage.user_message(content=message), state)
    assert again.port.replays == [[]]
    return after


async def test_a_journal_of_a_release_that_knew_one_order_replays_as_it_was() -> None:
    kept = json.loads((Path(__file__).parent / "kept" / "compaction_first.json").read_text("utf-8"))

    def noted(ctx: Context, messages: Messages) -> Messages:
        last = ChatMessage.from_dict({**messages[-1].to_dict(), "name": "x"})
        return [ChatMessage.user_message(content="(note)"), *messages[:-1], last]

    @tool
    async def look(number: int) -> str:
        return f"{number} {LONG}"

    state = [
        message
        for n in range(5)
        for message in (
            ChatMessage.user_message(content=f"{n} {LONG}"),
            ChatMessage.assistant_message(content=f"yes {n}"),
        )
    ]
    for options in ({"compaction": SHORT, "history_processors": [noted]}, {"history_processors": [SHORT, noted]}):
        model = Model()
        agent = ReActAgent(model, tools=[look], **options)  # type: ignore[arg-type]
        after = await replayed(agent, kept["journal"], state)
        assert ([message.to_dict() for message in after], model.requests) == (kept["state"], [])


async def test_a_turn_that_began_before_one_stood_behind_its_processors_goes_on_as_far_as_it_is_recorded() -> None:
    """Also where the processor made messages, where a summary of another turn is in the session, and without either."""
    summed = (await run_locally(ReActAgent(Model(), compaction=SHORT), "<5>", turns(5))).state
    for processor in (cut, hide, noted):
        for state, order in ((turns(9), [processor]), ([*summed, *turns(9)], [processor]), (turns(9), [])):
            model, first = Model(), LocalTurn()
            before = ReActAgent(model, tools=[looker("")], history_processors=order)
            message = ChatMessage.user_message(content="<9> ?")
            _, whole = await first.run(before.run_turn, message, state)
            now = ReActAgent(model, tools=[looker("")], history_processors=[processor, SHORT])
            assert await replayed(now, first.port.journal, state, "<9> ?") == whole
            assert model.summed_up == []
            # What was not asked yet is asked as it is now.
            last = len(first.port.journal) - 2
            asked = LocalTurn(journal=first.port.journal[:last])
            if processor is noted:
                with pytest.raises(ValueError, match="stands before a compaction"):
                    await asked.run(now.run_turn, message, state)
            else:
                await asked.run(now.run_turn, message, state)
                assert len(model.summed_up) == 1


async def test_a_turn_goes_on_without_a_compaction_that_its_agent_has_no_more_and_that_wrote_nothing() -> None:
    summed = (await run_locally(ReActAgent(Model(), compaction=SHORT), "<5>", turns(5))).state
    first = LocalTurn()
    _, whole = await first.run(
        ReActAgent(Model(), history_processors=[cut, SHORT, noted]).run_turn,
        ChatMessage.user_message(content="go"),
        summed,
    )
    for order in ([cut, noted], [SHORT, cut, noted]):
        assert await replayed(ReActAgent(Model(), history_processors=order), first.port.journal, summed) == whole  # type: ignore[arg-type]


async def test_one_that_has_written_a_summary_and_was_moved_is_a_mismatch() -> None:
    orders: list[list[Any]] = [[SHORT, cut], [cut, SHORT]]
    for before, now in (orders, orders[::-1]):
        first = LocalTurn()
        go = ChatMessage.user_message(content="go")
        await first.run(ReActAgent(Model(), history_processors=before).run_turn, go, turns(5))
        with pytest.raises(ReplayMismatch, match="history.cut|compaction"):
            await LocalTurn(journal=first.port.journal).run(
                ReActAgent(Model(), history_processors=now).run_turn, go, turns(5)
            )


async def test_a_summary_stands_for_what_it_was_made_of_however_the_options_are_now() -> None:
    model, first = Model(), LocalTurn()
    go = ChatMessage.user_message(content="go")
    agent = ReActAgent(model, history_processors=[hide, SHORT])
    _, whole = await first.run(agent.run_turn, go, turns(14))
    names = [entry["step"]["name"] for entry in first.port.journal[1:]]
    end = names.index("compaction") + 2
    longer = ReActAgent(model, history_processors=[hide, Compaction(over_tokens=400, keep_tokens=250)])
    _, again = await LocalTurn(journal=first.port.journal[:end]).run(longer.run_turn, go, turns(14))
    assert again == whole
    assert len(model.summed_up) == 1


def test_over_pauses_and_replays_a_server_keeps_what_was_left_out(hitl_replay: HitlServer, human: Human) -> None:
    @tool(requires_approval=True)
    async def look() -> str:
        return f"<1001> {LONG}"

    model = Model()
    agent = ReActAgent(model, tools=[look], history_processors=[hide, cut, SHORT])
    human.on("look").approve()
    server = hitl_replay(agent)
    session = server.client.create_session().session_id
    for number in range(1, 14):
        assert server.send(f"<{number}> {LONG}{'?' if number % 4 == 1 else ''}", session).content == "done"
    told = marks(" ".join(model.summed_up))
    assert "<5>" in told
    assert not {f"<{number}>" for number in range(0, 14, 2)} & {*told, *marks_of(model.requests[-1].messages)}
    assert {f"<{number}>" for number in range(1, 14, 2)} <= set(marks_of(model.requests[-1].messages))


async def test_an_agent_without_a_compaction_is_shown_the_summary_that_another_one_wrote() -> None:
    model = Model()
    second = ReActAgent(model, name="second", system_prompt="You are the second.")
    first = ReActAgent(model, name="first", history_processors=[hide, SHORT], handoffs=[second])
    result = await run_locally(first, "<21>", turns(12))
    await run_locally(second, "<23>", result.state)
    shown = marks_of(model.requests[-1].messages)
    assert len(shown) == len(set(shown)) == 14
