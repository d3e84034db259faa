"""`agent(...)`: what it takes when, and that a wrong answer changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl import InvalidAnswer, NothingPending, UnknownInterrupt, tool
from hitl.hooks import Agent, AgentResult
from hitl.testing import ScriptedChatClient
from tests.python.hooks.asking import Deleted, answer, approve, delete, make, told

DONE = {"content": "done"}


@pytest.fixture
def deleted() -> Deleted:
    return Deleted()


@pytest.fixture
def paused(deleted: Deleted) -> tuple[Agent, AgentResult]:
    agent = make([delete("X", "Y"), DONE], approve, tools=[deleted.tool])
    return agent, agent("go")


def test_partial_answers_run_what_is_decided(paused: tuple[Agent, AgentResult], deleted: Deleted) -> None:
    agent, result = paused
    result = agent(answer(result.interrupts[1]))
    assert deleted == ["Y"]
    assert result.stop_reason == "interrupt"
    result = agent(answer(*result.interrupts, response="no"))
    assert result.stop_reason == "end_turn"
    assert deleted == ["Y"]
    assert told(agent) == ["approval was not granted", "true"]


def test_an_ungated_sibling_runs_once(deleted: Deleted) -> None:
    looked: list[str] = []

    def look(key: str) -> str:
        """Look at an object."""
        looked.append(key)
        return key

    calls = [*delete("X")["tool_calls"], {"name": "look", "args": {"key": "Z"}}]
    agent = make([{"tool_calls": calls}, DONE], approve, tools=[deleted.tool, look])
    result = agent("go")
    assert looked == ["Z"]
    agent(answer(*result.interrupts))
    assert (looked, deleted) == (["Z"], ["X"])


@pytest.mark.parametrize("prompt", ["delete it", [{"text": "delete it"}], None, {"interruptResponse": {}}])
def test_anything_but_answers_is_a_type_error_while_interrupted(
    paused: tuple[Agent, AgentResult], deleted: Deleted, prompt: Any
) -> None:
    agent, result = paused
    with pytest.raises(TypeError, match="interrupted"):
        agent(prompt)
    assert agent([]).interrupts == result.interrupts
    assert deleted == []


def test_answers_between_other_content_are_a_type_error(paused: tuple[Agent, AgentResult]) -> None:
    agent, result = paused
    with pytest.raises(TypeError, match="text"):
        agent([*answer(*result.interrupts), {"text": "and hurry"}])
    assert agent([]).interrupts == result.interrupts


def test_an_unknown_id_is_a_key_error(paused: tuple[Agent, AgentResult], deleted: Deleted) -> None:
    agent, result = paused
    wrong = {"interruptResponse": {"interruptId": "nope", "response": "A"}}
    with pytest.raises(KeyError, match="nope"):
        agent([*answer(*result.interrupts), wrong])
    with pytest.raises(UnknownInterrupt):
        agent([wrong])
    assert deleted == []
    assert agent([]).interrupts == result.interrupts


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({"interruptId": "ID"}, ValueError),
        ({"response": "A"}, ValueError),
        ({"interruptId": "ID", "response": "A", "name": "n"}, ValueError),
        ({"interruptId": 3, "response": "A"}, TypeError),
        ("A", TypeError),
    ],
)
def test_an_incomplete_answer_is_an_error(
    paused: tuple[Agent, AgentResult], deleted: Deleted, response: Any, error: type[Exception]
) -> None:
    agent, result = paused
    if isinstance(response, dict) and response.get("interruptId") == "ID":
        response = {**response, "interruptId": result.interrupts[0].id}
    with pytest.raises(error):
        agent([{"interruptResponse": response}])
    assert agent([]).interrupts == result.interrupts
    assert deleted == []


def test_two_answers_to_one_interrupt_are_an_error(paused: tuple[Agent, AgentResult], deleted: Deleted) -> None:
    agent, result = paused
    with pytest.raises(ValueError, match="two responses"):
        agent(answer(result.interrupts[0], result.interrupts[0]))
    assert deleted == []


def test_an_answer_that_is_no_json_is_an_error(paused: tuple[Agent, AgentResult], deleted: Deleted) -> None:
    agent, result = paused
    with pytest.raises(TypeError):
        agent(answer(result.interrupts[0], response=object()))
    assert agent([]).interrupts == result.interrupts


def test_answers_when_nothing_is_pending_are_a_value_error(paused: tuple[Agent, AgentResult], deleted: Deleted) -> None:
    agent, result = paused
    agent(answer(*result.interrupts))
    with pytest.raises(ValueError, match="asks nothing") as raised:
        agent(answer(*result.interrupts))
    assert isinstance(raised.value, NothingPending)
    assert sorted(deleted) == ["X", "Y"]


def test_answers_before_any_message_are_a_value_error(deleted: Deleted) -> None:
    with pytest.raises(NothingPending):
        make([DONE], approve, tools=[deleted.tool])([{"interruptResponse": {"interruptId": "i", "response": 1}}])


@pytest.mark.parametrize("prompt", [None, 3, [], [{"image": {}}], ["text"]])
def test_what_is_no_prompt_is_a_type_error(deleted: Deleted, prompt: Any) -> None:
    with pytest.raises(TypeError, match="prompt"):
        make([DONE], approve, tools=[deleted.tool])(prompt)


def test_a_prompt_may_be_a_list_of_texts(deleted: Deleted) -> None:
    client = ScriptedChatClient([DONE])
    result = Agent(client=client)([{"text": "one"}, {"text": "two"}])
    assert (result.stop_reason, str(result)) == ("end_turn", "done")
    assert result.message == {"role": "assistant", "content": [{"text": "done"}]}
    assert client.requests[0]["messages"][-1]["content"] == "one\ntwo"


def test_the_conversation_goes_on(deleted: Deleted) -> None:
    client = ScriptedChatClient([{"content": "Hi Ada."}, {"content": "Ada."}])
    agent = Agent(client=client)
    agent("I am Ada")
    assert str(agent("Who am I?")) == "Ada."
    assert [message["content"] for message in client.requests[-1]["messages"]] == ["I am Ada", "Hi Ada.", "Who am I?"]


def test_tools_that_need_approval_come_out_as_interrupts_too(deleted: Deleted) -> None:
    gated = tool(deleted.tool, requires_approval=True)
    agent = make([delete("X"), DONE], tools=[gated])
    result = agent("go")
    (asked,) = result.interrupts
    assert (asked.name, asked.reason["tool_args"]) == ("tool_approval", {"key": "X"})
    with pytest.raises(InvalidAnswer):
        agent(answer(asked, response="A"))
    assert deleted == []
    agent(answer(asked, response={"approved": True}))
    assert deleted == ["X"]


async def test_a_call_inside_a_running_loop_names_its_async_twin(deleted: Deleted) -> None:
    with pytest.raises(RuntimeError, match="invoke_async"):
        make([DONE], approve, tools=[deleted.tool])("go")


async def test_one_object_has_one_conversation(deleted: Deleted) -> None:
    agent = make([DONE, DONE], approve, tools=[deleted.tool])
    first, second = await asyncio.gather(agent.invoke_async("a"), agent.invoke_async("b"), return_exceptions=True)
    assert str(first) == "done"
    with pytest.raises(RuntimeError, match="is at work"):
        raise second  # type: ignore[misc]
    assert str(await agent.invoke_async("b")) == "done"


def test_what_the_models_client_raises_is_raised() -> None:
    agent = Agent(client=ScriptedChatClient([]))
    with pytest.raises(Exception, match="the script has 0 replies"):
        agent("go")


def test_the_callback_handler_gets_the_text_as_it_comes_and_each_piece_once(deleted: Deleted) -> None:
    shown: list[Any] = []
    script = [{**delete("X"), "content": "Let me see."}, {"content": "Now it is gone.", "reasoning": "It was X."}]
    agent = make(script, approve, tools=[deleted.tool], callback_handler=lambda **piece: shown.append(piece))
    result = agent("go")
    assert shown == [{"data": "Let"}, {"data": " me"}, {"data": " see."}]
    shown.clear()
    agent(answer(*result.interrupts))
    assert "".join(piece.get("data", "") for piece in shown) == "Now it is gone."
    assert "".join(piece["reasoningText"] for piece in shown if piece.get("reasoning")) == "It was X."


def test_an_agent_is_no_tool() -> None:
    with pytest.raises(TypeError, match="no agents"):
        Agent(tools=[Agent()])


def test_a_session_needs_a_store() -> None:
    with pytest.raises(ValueError, match="store"):
        Agent(client=ScriptedChatClient([DONE]), session_id="s")
