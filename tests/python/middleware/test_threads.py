"""Threads: conversations by name, in memory or in a store, in this process or in another."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from hitl import AlreadyResumed, ChatMessage, NothingPending, RunContext, RunInterrupted, Store, tool
from hitl.middleware import Command, HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient
from tests.python.middleware.files import DELETE, DELETE_TWO, DONE, Office, calls, office_agent, thread

APPROVE = Command(resume={"decisions": [{"type": "approve"}]})
CONFIG = thread()


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'threads.db'}"


def texts(result: dict[str, Any]) -> list[str | None]:
    return [message.content for message in result["messages"]]


class TestInput:
    @pytest.mark.parametrize(
        "message",
        [
            "go",
            {"messages": "go"},
            {"messages": [{"role": "user", "content": "go"}]},
            {"messages": [{"role": "human", "content": "go"}]},
            {"messages": [("user", "go")]},
            {"messages": ["go"]},
            {"messages": [ChatMessage.user_message(content="go")]},
        ],
        ids=repr,
    )
    def test_a_message(self, office: Office, message: Any) -> None:
        if message == {"messages": "go"}:
            with pytest.raises(TypeError):
                office_agent(office, DONE).invoke(message, CONFIG)
            return
        result = office_agent(office, DONE).invoke(message, CONFIG)
        assert result["messages"] == [
            ChatMessage.user_message(content="go"),
            ChatMessage.assistant_message(content="done"),
        ]

    def test_several_messages_are_a_conversation(self, office: Office) -> None:
        before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        agent = office_agent(office, {"content": "hi"}, DONE)
        result = agent.invoke({"messages": [*before, {"role": "user", "content": "go"}]}, CONFIG)
        assert texts(result) == ["hello", "hi", "go", "done"]

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"messages": []}, ValueError),
            ({"input": "go"}, TypeError),
            ({}, TypeError),
            (["go"], TypeError),
            (3, TypeError),
            ({"messages": [3]}, TypeError),
            ({"messages": [{"role": "user", "content": 3}]}, TypeError),
        ],
        ids=repr,
    )
    def test_anything_else_is_an_error(self, office: Office, given: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            office_agent(office, DONE).invoke(given, CONFIG)

    @pytest.mark.parametrize("config", [{"configurable": {"thread_id": ""}}, {"configurable": "x"}, thread(True)])  # type: ignore[arg-type]
    def test_a_thread_id_that_is_none_is_an_error(self, office: Office, config: Any) -> None:
        with pytest.raises(TypeError):
            office_agent(office, DONE).invoke("go", config)

    def test_a_thread_id_beside_its_place_is_an_error(self, office: Office) -> None:
        """Or it would name nothing, and all threads be one."""
        with pytest.raises(TypeError, match=r'config is \{"configurable": \{"thread_id": ...\}\}, got'):
            office_agent(office, DONE).invoke("go", {"thread_id": "ann"})

    def test_a_command_needs_something_to_resume_with(self) -> None:
        with pytest.raises(TypeError):
            Command()  # type: ignore[call-arg]


class TestNamed:
    def test_the_conversation_goes_on(self, office: Office) -> None:
        agent = office_agent(office, {"content": "one"}, {"content": "two"})
        agent.invoke("first", CONFIG)
        assert texts(agent.invoke("second", CONFIG)) == ["first", "one", "second", "two"]

    def test_threads_do_not_hear_each_other(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", thread("a"))
        paused = agent.invoke("go too", thread("b"))
        assert texts(paused) == ["go too", None]
        agent.invoke(APPROVE, thread("b"))
        assert office.effects == [("delete_file", "/a")]
        with pytest.raises(NothingPending):
            agent.invoke(APPROVE, thread("b"))
        agent.invoke(APPROVE, thread("a"))

    def test_a_message_to_a_thread_that_waits_is_refused(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go", CONFIG)
        with pytest.raises(RunInterrupted):
            agent.invoke("and?", CONFIG)
        assert texts(agent.invoke(APPROVE, CONFIG)) == ["go", None, "deleted /a", "done"]

    def test_the_id_may_be_anything_that_names_it(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        number = uuid.uuid4()
        agent.invoke("go", {"configurable": {"thread_id": number}, "recursion_limit": 5, "tags": ["x"]})
        agent.invoke(APPROVE, thread(str(number)))
        assert office.effects == [("delete_file", "/a")]


class TestWithoutName:
    def test_each_message_is_a_conversation_of_its_own(self, office: Office) -> None:
        agent = office_agent(office, DONE)
        assert texts(agent.invoke("first")) == ["first", "done"]
        assert texts(agent.invoke("second", {})) == ["second", "done"]

    def test_the_one_that_waits_is_resumed(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go")
        assert texts(agent.invoke(APPROVE))[-1] == "done"
        assert office.effects == [("delete_file", "/a")]
        with pytest.raises(NothingPending):
            agent.invoke(APPROVE)

    def test_while_one_waits_a_new_message_is_refused(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        agent.invoke("go")
        with pytest.raises(RunInterrupted, match="thread_id"):
            agent.invoke("and?")
        agent.invoke("and?", CONFIG)

    async def test_several_that_came_to_wait_at_once_are_told_apart_by_name(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        await asyncio.gather(agent.ainvoke("one"), agent.ainvoke("two"))
        with pytest.raises(ValueError, match="several") as error:
            await agent.ainvoke(APPROVE)
        names = str(error.value).partition("one of ")[2].split(", ")
        for name in names:
            await agent.ainvoke(APPROVE, thread(name))
        assert office.effects == [("delete_file", "/a")] * 2

    def test_in_a_store_a_thread_needs_a_name(self, office: Office, store: str) -> None:
        agent = office_agent(office, DELETE, DONE, store=store)
        for given in ("go", APPROVE, None):
            with pytest.raises((ValueError, NothingPending), match="thread_id"):
                agent.invoke(given)


class TestInAStore:
    def test_another_object_goes_on(self, office: Office, store: str) -> None:
        paused = office_agent(office, DELETE_TWO, DONE, store=store).invoke("go", CONFIG)
        agent = office_agent(office, DELETE_TWO, DONE, store=store)
        again = agent.invoke(None, CONFIG)
        assert again["__interrupt__"] == paused["__interrupt__"]
        assert again["messages"] == paused["messages"][:1]  # nothing was replayed
        decisions = [{"type": "reject"}, {"type": "approve"}]
        result = agent.invoke(Command(resume={"decisions": decisions}), CONFIG)
        assert texts(result)[-1] == "done"
        assert office.effects == [("look", "/b"), ("delete_file", "/c")]

    async def test_a_store_that_stays_open(self, office: Office, tmp_path: Path) -> None:
        async with Store(tmp_path / "threads.db") as kept:
            agent = office_agent(office, DELETE, DONE, store=kept)
            await agent.ainvoke("go", CONFIG)
            await agent.ainvoke(APPROVE, CONFIG)
        assert office.effects == [("delete_file", "/a")]

    def test_two_objects_with_the_same_answer_run_the_tool_once(self, office: Office, store: str) -> None:
        office_agent(office, DELETE, DONE, store=store).invoke("go", CONFIG)
        office_agent(office, DELETE, DONE, store=store).invoke(APPROVE, CONFIG)
        with pytest.raises((NothingPending, AlreadyResumed)):
            office_agent(office, DELETE, DONE, store=store).invoke(APPROVE, CONFIG)
        assert office.effects == [("delete_file", "/a")]

    async def test_answers_at_the_same_time_run_the_tool_once(self, office: Office, store: str) -> None:
        agents = [office_agent(office, DELETE, DONE, store=store) for _ in range(4)]
        await agents[0].ainvoke("go", CONFIG)
        outcomes = await asyncio.gather(*(agent.ainvoke(APPROVE, CONFIG) for agent in agents), return_exceptions=True)
        assert office.effects == [("delete_file", "/a")]
        assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
        for outcome in outcomes:
            assert isinstance(outcome, dict | AlreadyResumed | NothingPending), outcome


class TestResumeData:
    def test_counts_at_the_next_invocation_without_input(self, office: Office) -> None:
        gate = HumanInTheLoopMiddleware({"delete_file": True})
        agent = office_agent(office, DELETE, DONE, middleware=[gate])
        agent.invoke("go", CONFIG)
        gate.set_resume_data({"decisions": [{"type": "approve"}]})
        agent.invoke(None, CONFIG)
        assert office.effects == [("delete_file", "/a")]

    async def test_is_that_of_the_task_that_set_it(self, office: Office) -> None:
        gate = HumanInTheLoopMiddleware({"delete_file": True})
        agent = office_agent(office, DELETE, DONE, middleware=[gate])

        async def decide(name: str, kind: str) -> None:
            await agent.ainvoke("go", thread(name))
            gate.set_resume_data({"decisions": [{"type": kind}]})
            await asyncio.sleep(0)
            await agent.ainvoke(None, thread(name))

        await asyncio.gather(decide("a", "approve"), decide("b", "reject"))
        assert office.effects == [("delete_file", "/a")]


class TestInvoke:
    async def test_inside_a_running_loop_names_its_twin(self, office: Office) -> None:
        with pytest.raises(RuntimeError, match="ainvoke"):
            office_agent(office, DONE).invoke("go", CONFIG)

    def test_what_the_agent_raises(self) -> None:
        agent = ToolCallAgent(client=ScriptedChatClient([]))
        with pytest.raises(Exception, match="the script has 0 replies"):
            agent.invoke("go", CONFIG)

    @pytest.mark.parametrize("config", [CONFIG, None])
    def test_a_context_waits_with_its_thread(self, config: Any) -> None:
        @tool
        async def who(run: RunContext[dict[str, str]]) -> str:
            assert run.context is not None
            return f"{run.context['user']} of {run.context.get('team')}"

        client = ScriptedChatClient([calls(("who", {})), DONE])
        agent = ToolCallAgent(client=client, tools=[who], middleware=[HumanInTheLoopMiddleware({"who": True})])
        agent.invoke("go", config, context={"user": "ann"})
        assert texts(agent.invoke(APPROVE, config))[2] == "ann of None"
        agent.invoke("go", thread("other"), context={"user": "ann", "team": "sales"})
        result = agent.invoke(APPROVE, thread("other"), context={"user": "bob"})
        assert texts(result)[2] == "bob of sales"

    def test_a_context_that_cannot_be_kept_is_an_error(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        with pytest.raises(TypeError, match="connection"):
            agent.invoke("go", CONFIG, context={"connection": object()})

    async def test_nothing_is_watched_once_it_is_over(self, office: Office) -> None:
        agent = office_agent(office, DELETE, DONE)
        await agent.ainvoke("go", CONFIG)
        assert agent._conversations._watched == {}
