"""The pytest plugin: fixtures against real servers, in this process and with real workers."""

from __future__ import annotations

import asyncio
import json
import random
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

import hitl
from hitl import ChatMessage, ReActAgent, ask_user_question, interrupt, step, tool
from hitl.client import Client, Conflict, Forbidden, Interrupt, Invalid
from hitl.testing import HitlServer, Human, ScriptedChatClient, TurnFailed, UnexpectedInterrupt

if TYPE_CHECKING:
    State = list[ChatMessage]
    Agent = Callable[[ChatMessage, State], Awaitable[tuple[ChatMessage, State]]]

QUESTION = {
    "question": "How would you like to organize the files?",
    "header": "Strategy",
    "options": [{"label": "By date", "description": "…"}, {"label": "By type", "description": "…"}],
}


@tool(requires_approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    Path(path).unlink()
    return f"deleted {path}"


def deleting_agent(path: Path) -> tuple[ReActAgent, ScriptedChatClient]:
    client = ScriptedChatClient(
        [{"tool_calls": [{"name": "delete_file", "args": {"path": str(path)}}]}, {"content": "done"}]
    )
    return ReActAgent(client, "scripted", tools=[delete_file, ask_user_question]), client


async def color_picker(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    choice = await interrupt({"type": "color_picker", "prompt": message.content})
    reply = ChatMessage.assistant_message(content=choice["hex"])
    return reply, [*state, message, reply]


async def echo(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    reply = ChatMessage.assistant_message(content=f"{len(state)}: {message.content}")
    return reply, [*state, message, reply]


async def first_of_two(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
    """Asks twice at once, and leaves the question that is answered later."""
    tasks = [asyncio.ensure_future(interrupt({"type": "race", "n": number})) for number in range(2)]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return ChatMessage.assistant_message(content=done.pop().result()), state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "old.log"
    path.write_text("old")
    return path


class TestTurns:
    def test_an_approved_tool_runs(self, hitl_server: HitlServer, human: Human, path: Path) -> None:
        agent, client = deleting_agent(path)
        server = hitl_server(agent)
        human.on("delete_file").approve()
        assert server.send("delete it").content == "done"
        assert not path.exists()
        assert human.seen[0].tool_args == {"path": str(path)}
        assert client.requests[1]["messages"][-1]["content"] == f"deleted {path}"

    def test_a_rejected_tool_does_not(self, hitl_server: HitlServer, human: Human, path: Path) -> None:
        agent, client = deleting_agent(path)
        human.on(delete_file).reject("keep it")
        assert hitl_server(agent).send("delete it").content == "done"
        assert path.exists()
        assert "User rejected delete_file: keep it" in client.requests[1]["messages"][-1]["content"]

    def test_a_question_is_answered(self, hitl_server: HitlServer, human: Human) -> None:
        client = ScriptedChatClient(
            [{"tool_calls": [{"name": "ask_user_question", "args": {"questions": [QUESTION]}}]}, {"content": "done"}]
        )
        human.on_question("Strategy").answer("By date")
        server = hitl_server(ReActAgent(client, "scripted", tools=[ask_user_question]))
        assert server.send("clean up").content == "done"
        assert "By date" in client.requests[1]["messages"][-1]["content"]

    def test_a_custom_interrupt_is_answered(self, hitl_server: HitlServer, human: Human) -> None:
        human.on_type("color_picker").answer({"hex": "#ff6b6b"})
        assert hitl_server(color_picker).send("pick").content == "#ff6b6b"

    def test_a_session_goes_on(self, hitl_server: HitlServer) -> None:
        server = hitl_server(echo)
        session = server.create_session()
        assert [server.send(word, session).content for word in ("a", "b")] == ["0: a", "2: b"]
        assert server.send("c", session.session_id).content == "4: c"
        assert server.send("d").content == "0: d"
        earlier = server.create_session([ChatMessage.user_message("earlier")])
        assert server.send(ChatMessage.user_message("e"), earlier).content == "1: e"

    def test_a_question_that_an_answer_makes_needless_is_left(self, hitl_server: HitlServer, human: Human) -> None:
        human.on_type("race").answer("me")
        assert hitl_server(first_of_two).send("go").content == "me"


@tool(requires_approval=True)
def wipe(host: str) -> str:
    """Wipe a host."""
    return f"wiped {host}"


@pytest.fixture
def two_wipes() -> ReActAgent:
    """Asks for two approvals at once."""
    calls = [{"name": "wipe", "args": {"host": host}} for host in ("db-1", "db-2")]
    return ReActAgent(ScriptedChatClient([{"tool_calls": calls}, {"content": "done"}]), "scripted", tools=[wipe])


class TestAnswersThatDidNotCount:
    """The answer to another question settled this one too."""

    def test_an_answer_that_came_to_nothing_is_not_counted(
        self, hitl_server: HitlServer, human: Human, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        human.on_type("race").answer("me").on_type("race").answer("too late")
        server = hitl_server(first_of_two)
        post = server.client.answer

        def post_and_wait(interrupt_id: str, value: Any) -> None:
            post(interrupt_id, value)
            # Otherwise the second answer might come before the question is withdrawn.
            server.client.wait(server.client.get_interrupt(interrupt_id).session_id)

        monkeypatch.setattr(server.client, "answer", post_and_wait)
        assert server.send("go").content == "me"
        assert [rule.value for rule in human.unused] == ["too late"]
        assert [asked.payload["n"] for asked in human.seen] == [0]

    def test_a_rejection_of_what_is_approved_already_fails(
        self, hitl_server: HitlServer, human: Human, two_wipes: ReActAgent
    ) -> None:
        human.on("wipe").approve(always=True).on("wipe").reject("not db-2")
        with pytest.raises(Conflict, match="already") as caught:
            hitl_server(two_wipes).send("wipe both")
        assert caught.value.code == "already_resolved"
        assert "human.on('wipe')" in "".join(caught.value.__notes__)
        assert [rule.value["approved"] for rule in human.unused] == [False]
        assert len(human.seen) == 1

    @pytest.mark.parametrize(
        "decide",
        [
            lambda on: on.approve(always=True),
            lambda on: on.reject("no", always=True),
            lambda on: on.reject(message="Ask first.", always=True),
        ],
        ids=["approve", "reject", "reject with a message"],
    )
    def test_a_decision_for_all_calls_is_needed_once(
        self, hitl_server: HitlServer, human: Human, two_wipes: ReActAgent, decide: Any
    ) -> None:
        decide(human.on("wipe"))
        decide(human.on("wipe"))
        assert hitl_server(two_wipes).send("wipe both").content == "done"
        assert [rule.uses for rule in human.rules] == [1, 0]
        assert len(human.seen) == 1


class TestFailures:
    def test_an_unexpected_interrupt_fails_at_once(self, hitl_server: HitlServer, path: Path) -> None:
        agent, _ = deleting_agent(path)
        server = hitl_server(agent)
        with pytest.raises(UnexpectedInterrupt, match=r"human\.on\('delete_file'\)\.approve\(\)"):
            server.send("delete it")
        assert path.exists()

    def test_an_error_of_the_agent(self, hitl_server: HitlServer) -> None:
        async def broken(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            raise ValueError("out of paper")

        with pytest.raises(TurnFailed, match=r"^ValueError: out of paper$") as caught:
            hitl_server(broken).send("go")
        assert caught.value.session.status == "error"

    def test_it_is_raised_from_what_the_agent_raised(self, hitl_server: HitlServer) -> None:
        async def broken(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            raise ValueError("out of paper")

        with pytest.raises(TurnFailed) as caught:
            hitl_server(broken).send("go")
        cause = caught.value.__cause__
        assert isinstance(cause, ValueError)
        assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)][-1] == "broken"

    def test_a_turn_that_takes_too_long(self, hitl_server: HitlServer) -> None:
        async def endless(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            await asyncio.Event().wait()
            return message, state

        with pytest.raises(TurnFailed, match=r"did not end within 0\.2 s"):
            hitl_server(endless, shutdown_timeout=0.2).send("go", timeout=0.2)

    def test_an_answer_the_server_refuses(self, hitl_server: HitlServer, human: Human) -> None:
        human.on_type("tool_approval").answer({"approved": "yes"})
        with pytest.raises(Invalid) as refused:
            hitl_server(deleting_agent(Path("/nowhere"))[0]).send("go")
        assert refused.value.__notes__ == [f"it was given by {human.rules[0]}"]
        assert "human.on_type('tool_approval')" in str(human.rules[0])


@tool(requires_approval=True, approvers=["group:ops"])
def close_account(number: int) -> str:
    """Close an account."""
    return f"closed {number}"


def closing_agent() -> ReActAgent:
    call = {"tool_calls": [{"name": "close_account", "args": {"number": 7}}]}
    return ReActAgent(ScriptedChatClient([call, {"content": "done"}]), "scripted", tools=[close_account])


class TestPeople:
    """`human.as_`: answers of somebody with a key, for what only some may answer."""

    @pytest.mark.parametrize("is_known_before", [True, False])
    def test_an_approver_answers(self, hitl_server: HitlServer, human: Human, is_known_before: bool) -> None:
        if is_known_before:
            human.as_("olga", groups=["ops"])
        server = hitl_server(closing_agent())
        client = server.client
        human.as_("olga", groups=["ops"]).on(close_account).approve()
        assert server.send("close it").content == "done"
        [answered] = client.list_interrupts(status="resolved")  # held on to since before there was a key
        assert answered.resolved_by == "olga"

    def test_each_answers_in_their_own_name(self, hitl_server: HitlServer, human: Human) -> None:
        async def asking(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            said = [await interrupt({"type": who}, approvers=[who]) for who in ("ada", "bob")]
            return ChatMessage.assistant_message(content=" ".join(said)), state

        human.as_("ada").on_type("ada").answer("yes")
        human.as_("bob").on_type("bob").answer("no")
        assert hitl_server(asking).send("go").content == "yes no"

    def test_the_next_server_of_the_same_store_knows_them_too(
        self, hitl_server: HitlServer, human: Human, tmp_path: Path
    ) -> None:
        human.as_("olga", groups=["ops"]).on(close_account).approve()
        for _ in range(2):
            server = hitl_server(closing_agent(), store=f"sqlite:{tmp_path}/hitl.db")
            assert server.send("close it").content == "done"
            server.stop()

    def test_without_a_name_the_error_says_how_to_get_one(self, hitl_server: HitlServer, human: Human) -> None:
        human.on("close_account").approve()
        with pytest.raises(Forbidden) as refused:
            hitl_server(closing_agent()).send("close it")
        assert refused.value.__notes__ == [
            "it was given by human.on('close_account') -> {\"approved\": true}",
            "\nhint: a rule of one of them answers: human.as_('somebody', groups=['ops']).on('close_account')",
        ]

    def test_nobody_is_in_other_groups_the_second_time(self, human: Human) -> None:
        human.as_("olga", groups=["ops"]).on("close_account").reject()
        assert (
            str(human.as_("olga").on("pay").approve().rules[1])
            == """human.as_('olga').on('pay') -> {"approved": true}"""
        )
        with pytest.raises(ValueError, match="olga is in \\['ops'\\] already"):
            human.as_("olga", groups=["finance"])
        with pytest.raises(TypeError, match="groups is a list of str"):
            human.as_("bob", groups="ops")

    def test_one_person_answers_all_questions_of_an_interrupt(self, human: Human) -> None:
        questions = [QUESTION, {**QUESTION, "question": "And where?", "header": "Place"}]
        human.as_("ada").on_question("Strategy").answer("By date")
        human.on_question("Place").answer("By type")
        payload = {"type": "user_input", "questions": questions}
        with pytest.raises(UnexpectedInterrupt, match="one person answers all of its questions"):
            human.prepare(Interrupt(interrupt_id="i", type="user_input", payload=payload))


class TestReplays:
    """`hitl_replay`: an agent that does not do the same again fails here, and not in production."""

    @staticmethod
    def gambler(chance: Callable[[], Awaitable[float]]) -> Agent:
        async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            odds = await chance()
            await step(round, odds, 9)
            answer = await interrupt({"type": "bet", "odds": odds})
            reply = ChatMessage.assistant_message(content=f"{answer} at {odds}")
            return reply, [*state, message, reply]

        return agent

    def test_chance_between_steps_is_caught(self, hitl_replay: HitlServer, human: Human) -> None:
        async def chance() -> float:
            return random.random()

        human.on_type("bet").answer("yes")
        with pytest.raises(TurnFailed, match="ReplayMismatch") as caught:
            hitl_replay(self.gambler(chance)).send("go")
        session = caught.value.session
        assert (session.error_code, session.can_be_retried) == ("replay_mismatch", True)
        for part in ("recorded: ", "attempted: ", '"round"', "arguments that differ:", "hint: "):
            assert part in str(caught.value)

    def test_without_the_fixture_it_is_not(self, hitl_server: HitlServer, human: Human) -> None:
        async def chance() -> float:
            return random.random()

        human.on_type("bet").answer("yes")
        assert hitl_server(self.gambler(chance)).send("go").content.startswith("yes at 0.")

    def test_chance_as_a_step_is_the_same_again(self, hitl_replay: HitlServer, human: Human) -> None:
        human.on_type("bet").answer("yes")
        content = hitl_replay(self.gambler(hitl.random)).send("go").content
        assert content == f"yes at {human.seen[0].payload['odds']}"

    def test_every_answer_goes_through_one(self, hitl_replay: HitlServer, human: Human) -> None:
        began = []

        async def agent(message: ChatMessage, state: State) -> tuple[ChatMessage, State]:
            began.append(message.content)
            answers = [await interrupt({"type": "question", "n": number}) for number in range(3)]
            reply = ChatMessage.assistant_message(content=str(answers))
            return reply, [*state, message, reply]

        human.on_type("question").answer(7)
        assert hitl_replay(agent).send("go").content == "[7, 7, 7]"
        assert began == ["go"] * 4

    def test_real_workers_replay_too(self, hitl_replay: HitlServer, human: Human) -> None:
        human.on_type("question").answer(7)
        server = hitl_replay("tests.python.support.agents:playbook")
        questions = [{"type": "question", "n": number} for number in range(3)]
        assert server.send(f"ask_in_turn {json.dumps(questions)}").content == "[7, 7, 7]"
        assert "\nhitl_turns_parked_total 3\n" in httpx2.get(f"{server.url}/metrics", trust_env=False, timeout=100).text

    def test_a_test_may_say_otherwise(self, hitl_replay: HitlServer) -> None:
        assert hitl_replay.options == {"park_after": 0}
        assert hitl_replay(echo, park_after=60).send("hi").content == "0: hi"


class TestServers:
    def test_listen_on_a_free_port_until_the_test_ends(self, hitl_server: HitlServer) -> None:
        one, two = hitl_server(echo), hitl_server(echo)
        assert one.url != two.url
        for server in (one, two):
            assert httpx2.get(f"{server.url}/health", trust_env=False, timeout=100).json()["status"] == "ok"

    def test_take_the_options_of_serve(self, hitl_server: HitlServer, tmp_path: Path) -> None:
        database = tmp_path / "hitl.db"
        server = hitl_server(echo, api_key="a key for this test", store=f"sqlite:{database}", max_sessions=1)
        assert httpx2.get(f"{server.url}/sessions", trust_env=False, timeout=100).status_code == 401
        assert server.send("hi").content == "0: hi"
        assert server.client.health().raw["total_sessions"] == 1
        assert database.exists()

    def test_run_an_agent_named_by_module_in_real_workers(self, hitl_server: HitlServer, human: Human) -> None:
        human.on_type("question").answer(7)
        server = hitl_server("tests.python.support.agents:playbook")
        assert server.send('ask {"type": "question"}').content == "7"

    def test_have_a_client(self, hitl_server: HitlServer, hitl_client: Client) -> None:
        with pytest.raises(LookupError, match="no server was started"):
            hitl_client.health()
        server = hitl_server(echo)
        session = hitl_client.create_session()
        assert hitl_client.url.rstrip("/") == server.url
        assert server.client.get_session(session.session_id).status == "idle"


class TestInAProjectOfItsOwn:
    """As users see it: a test file, a pytest run, its report."""

    AGENT = """
        from hitl import ChatMessage, interrupt

        async def agent(message, state):
            reply = ChatMessage.assistant_message(content=str(await interrupt({"type": "color_picker", "prompt": "?"})))
            return reply, [*state, message, reply]
    """

    def run(self, pytester: pytest.Pytester, test: str) -> Any:
        pytester.makepyfile(agents=self.AGENT, test_agent=test)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")

    def test_the_fixtures_are_there_without_any_set_up(self, pytester: pytest.Pytester) -> None:
        outcome = self.run(
            pytester,
            """
            from agents import agent

            def test_it(hitl_server, hitl_client, human):
                human.on_type("color_picker").answer(7)
                assert hitl_server(agent).send("go").content == "7"
                assert hitl_client.health().total_sessions == 1
                assert human.unused == []
            """,
        )
        outcome.assert_outcomes(passed=1)

    def test_an_unexpected_interrupt_is_explained_in_the_report(self, pytester: pytest.Pytester) -> None:
        outcome = self.run(
            pytester,
            """
            from agents import agent

            def test_it(hitl_server, human):
                hitl_server(agent).send("go")
            """,
        )
        outcome.assert_outcomes(failed=1)
        outcome.stdout.fnmatch_lines(
            ["*nobody answers this interrupt (color_picker)*", "*hint: human.on_type('color_picker').answer(...)*"]
        )
        # The report points at the test, not into the plugin.
        assert "live_server.py" not in outcome.stdout.str()

    def test_loading_the_plugin_imports_nothing_heavy(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(
            """
            import sys

            def test_it():
                heavy = {"httpx2", "pydantic", "openai", "typer", "hitl._core"} & set(sys.modules)
                assert not heavy
            """
        )
        # What is installed besides, and imports for itself.
        others = ("cacheprovider", "asyncio", "schemathesis", "langsmith_plugin")
        pytester.runpytest_subprocess(*(part for name in others for part in ("-p", f"no:{name}"))).assert_outcomes(
            passed=1
        )
