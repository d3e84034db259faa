"""What turns did that came to no answer, as the messages that a model is told of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitl import Attachment, ChatMessage, ReActAgent, tool
from hitl.agents.abandoned import tell_abandoned
from hitl.testing import ScriptedChatClient
from hitl.turn.runtime import current_turn
from tests.python.support.local import LocalTurn

Json = dict[str, Any]

HANDED: Json = {"tool_calls": [{"name": "transfer_to_clerk"}]}


def call(outcome: Any, **members: Any) -> Json:
    return {"id": "c1", "name": "pay", "arguments": '{"cents": 5}', "outcome": outcome, **members}


def abandoned(*calls: Json, **members: Any) -> Json:
    turn = {"message": {"role": "user", "content": "pay it"}, "replies": [{"calls": list(calls), **members}]}
    return {"turns": [turn]}


async def told(
    given: Json, agent: ReActAgent | None = None, state: list[ChatMessage] | None = None
) -> list[ChatMessage]:
    """What an agent is told in a turn that begins with this."""
    start = {"at": 0, "entry": "start", "code": "code-1", "python": "3.11", "abandoned": given}
    run = LocalTurn(journal=[start])
    speaker = agent or ReActAgent(client=ScriptedChatClient([]))
    return await run.run(lambda: tell_abandoned(current_turn(), speaker, state or []))


async def content(outcome: Any, agent: ReActAgent | None = None, **members: Any) -> str | None:
    return (await told(abandoned(call(outcome, **members)), agent))[-1].content


async def test_a_call_with_its_result_is_told_as_any_conversation_has_it() -> None:
    asked, called, came = await told(abandoned(call({"value": {"paid": 5}}), content="I will."))
    assert asked == ChatMessage.user_message(content="pay it")
    shown: Any = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 5}'}}
    assert called == ChatMessage.assistant_message(content="I will.", tool_calls=[shown])
    assert came == ChatMessage.tool_message(content='{"paid":5}', tool_call_id="c1", name="pay")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("unknown", "outcome of this call is unknown"),
        ("undecided", "before its turn was over: it did not run"),
        ("expired", "nobody answered in time"),
        ("unfinished", "its turn was over before, and it may have run in part"),
        ({"failed": "KeyError: 'x'"}, "KeyError: 'x'"),
        ({"rejected": {"reason": "too much", "message": None, "by": "person"}}, "User rejected pay: too much"),
        ({"rejected": {"reason": None, "message": None, "by": "policy"}}, "Policy rejected pay"),
        ({"rejected": {"reason": None, "message": "Not today.", "by": "person"}}, "Not today."),
    ],
)
async def test_a_call_that_came_to_nothing_is_told_as_an_error(outcome: Any, words: str) -> None:
    said = json.loads(await content(outcome) or "")
    assert words in said["error"]


async def test_what_a_person_answered_in_the_tool_s_place_is_never_taken_for_an_encoded_value() -> None:
    tagged = {"$hitl": "path", "class": "pathlib:Path", "value": "/"}
    assert json.loads(await content({"responded": tagged}) or "") == tagged
    assert await content({"value": {"$hitl": "unheard-of", "value": 1}}) == '{"$hitl":"unheard-of","value":1}'


async def test_what_is_attached_by_address_is_told_with_its_message_and_a_mark_as_it_stands() -> None:
    far = Attachment("image/png", url="https://example.org/far.png", name="far.png")
    given = abandoned(call({"value": "Sales:\n[attachment 1: sales.png, image/png]"}))
    given["turns"][0]["message"]["attachments"] = [far.to_dict()]
    asked, _, came = await told(given)
    assert (asked.content, asked.attachments) == ("pay it", [far])
    assert (came.content, came.attachments) == ("Sales:\n[attachment 1: sales.png, image/png]", None)


async def test_what_is_left_out_is_said() -> None:
    assert (await content({"beginning": "xxx"}) or "").startswith("xxx...\n\n[The rest")
    asked, *_ = await told({**abandoned(call({"value": "paid"})), "left_out": 3})
    assert asked.content == "pay it\n\n[3 older tool calls are left out here]"


async def test_output_guardrails_that_had_not_seen_a_result_see_it_now() -> None:
    seen: list[str] = []

    def first(value: str) -> None:
        seen.append(f"first {value}")

    def second(value: str) -> str:
        seen.append(f"second {value}")
        return "***"

    @tool(output_guardrails=[first, second])
    async def pay(cents: int) -> str:
        """Pay."""
        raise AssertionError(cents)

    agent = ReActAgent(client=ScriptedChatClient([]), tools=[pay])
    assert await content({"value": "secret"}, agent, guardrails=1) == "***"
    assert seen == ["second secret"]
    assert "secret" not in (await content({"beginning": "secret"}, agent) or "")
    assert await content({"value": "***"}, agent, guardrails=2) == "***"


async def test_what_was_done_inside_of_a_call_without_an_end_is_told_with_it() -> None:
    inside = [{"name": "charge", "outcome": "finished"}, call({"value": "paid 5"}, id="c9")]
    *_, first, second = await told(
        abandoned(call({"value": "paid"}), call("unfinished", id="c2", name="clerk"), within=inside)
    )
    assert first.content == "paid"
    assert json.loads(second.content or "")["inside"] == [
        {"name": "charge", "result": "finished"},
        {"name": "pay", "arguments": {"cents": 5}, "result": "paid 5"},
    ]


async def test_calls_that_shared_an_id_are_told_under_their_own() -> None:
    _, called, *came = await told(abandoned(call("unfinished"), call("unfinished")))
    ids = [each["id"] for each in called.tool_calls or []]
    assert ids == [each.tool_call_id for each in came]
    assert len(set(ids)) == 2


async def test_a_state_that_holds_it_already_is_not_told_again() -> None:
    given = abandoned(call({"value": "paid"}))
    block = await told(given)
    before = ChatMessage.user_message(content="hi")
    assert await told(given, state=[before, *block, before]) == []
    assert await told(given, state=[before, *block[:-1]]) == block


async def test_the_conversation_stays_with_whom_the_abandoned_turn_gave_it_to() -> None:
    clerk = ReActAgent(client=ScriptedChatClient([HANDED, {"content": "clerk here"}]), name="clerk")
    desk = ReActAgent(client=ScriptedChatClient([HANDED, {"content": "desk here"}]), name="desk", handoffs=[clerk])
    handed = call({"value": "Transferred to clerk."}, name="transfer_to_clerk", arguments="{}")
    start = {"at": 0, "entry": "start", "code": "code-1", "python": "3.11", "abandoned": abandoned(handed)}
    run = LocalTurn(journal=[start])
    response, state = await run.run(lambda: desk.run_turn(ChatMessage.user_message(content="well?"), []))
    assert (response.content, len(state)) == ("clerk here", 5)


async def test_an_older_journal_tells_nothing() -> None:
    agent = ReActAgent(client=ScriptedChatClient([{"content": "hello"}]))
    run = LocalTurn(journal=[{"at": 0, "entry": "start", "code": "code-1", "python": "3.11"}])
    _, state = await run.run(lambda: agent.run_turn(ChatMessage.user_message(content="hi"), []))
    assert [message.content for message in state] == ["hi", "hello"]
