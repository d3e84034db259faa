"""LangChain's hooks on middleware: called with its shapes, or refused when the agent is made; never ignored."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import hitl
from hitl import ChatMessage, ReActAgent, interrupt, tool
from hitl.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolCallAgent
from hitl.testing import ScriptedChatClient
from tests.python.support.local import run_locally
from tests.python.support.prefixes import Effects, run_all_prefixes

CALL = {"tool_calls": [{"name": "act", "args": {"what": "x"}}]}
SCRIPT = [CALL, {"content": "done"}]
APPROVE = {"type": "approve"}


class Plain(AgentMiddleware):
    """Notes what is called; `name` tells several apart."""

    def __init__(self, notes: list[str], name: str = "m") -> None:
        self.notes, self.name = notes, name

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}")

    def before_agent(self, state: Any, runtime: Any) -> Any:
        self.note(f"before_agent {len(state['messages'])}")
        return {"budget": 3}

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.note(f"before_model {state['budget']}")
        return {"budget": state["budget"] - 1}

    def after_model(self, state: Any, runtime: Any) -> Any:
        self.note(f"after_model {state['messages'][-1].role}")

    def after_agent(self, state: Any, runtime: Any) -> Any:
        self.note(f"after_agent {state['messages'][-1].content}")

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        reply = handler(request)
        self.note("wrap_model_call")
        return reply

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        message = handler(request)
        self.note(f"wrap_tool_call {request.tool_call['name']} {message.content}")
        return message


class Async(AgentMiddleware):
    """The same by the async twins; the plain ones beside them must not be called."""

    def __init__(self, notes: list[str], name: str = "m") -> None:
        self._plain = Plain(notes, name)

    def before_model(self, state: Any, runtime: Any) -> Any:
        raise AssertionError("the async twin is called in its place")

    async def abefore_agent(self, state: Any, runtime: Any) -> Any:
        return self._plain.before_agent(state, runtime)

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        return self._plain.before_model(state, runtime)

    async def aafter_model(self, state: Any, runtime: Any) -> Any:
        return self._plain.after_model(state, runtime)

    async def aafter_agent(self, state: Any, runtime: Any) -> Any:
        return self._plain.after_agent(state, runtime)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        reply = await handler(request)
        return self._plain.wrap_model_call(request, lambda _: reply)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        message = await handler(request)
        return self._plain.wrap_tool_call(request, lambda _: message)


def agent(*middleware: Any, effects: list[Any] | None = None, script: Any = None, **options: Any) -> ReActAgent:
    did = [] if effects is None else effects

    @tool(**options)
    async def act(what: str) -> str:
        did.append(what)
        return f"did {what}"

    return ReActAgent(client=ScriptedChatClient(script or SCRIPT), tools=[act], middleware=middleware)


@pytest.mark.parametrize("kind", [Plain, Async])
async def test_every_hook_is_called_the_first_middleware_first_before_and_last_after(kind: Any) -> None:
    notes: list[str] = []
    await run_locally(agent(kind(notes, "a"), kind(notes, "b")), "go")
    assert notes == [
        "a before_agent 1",
        "b before_agent 1",
        "a before_model 3",
        "b before_model 2",
        "b wrap_model_call",
        "a wrap_model_call",
        "b after_model assistant",
        "a after_model assistant",
        "b wrap_tool_call act did x",
        "a wrap_tool_call act did x",
        "a before_model 1",
        "b before_model 0",
        "b wrap_model_call",
        "a wrap_model_call",
        "b after_model assistant",
        "a after_model assistant",
        "b after_agent done",
        "a after_agent done",
    ]


@pytest.mark.parametrize("kind", [Plain, Async])
async def test_every_replay_goes_the_same_way_and_a_gated_tool_runs_once(kind: Any) -> None:
    def make(effects: Effects) -> ReActAgent:
        return agent(kind([]), effects=effects, requires_approval=True)  # type: ignore[arg-type]

    run = await run_all_prefixes(make, lambda asked: APPROVE)
    assert run.effects == ["x"]
    assert run.response.content == "done"


async def test_a_base_class_that_overrides_nothing_changes_nothing() -> None:
    class Says(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return super().wrap_tool_call(request, handler)

    result = await run_locally(agent(AgentMiddleware(), Says()), "go")
    assert [message.role for message in result.state] == ["user", "assistant", "tool", "assistant"]


async def test_messages_that_before_model_adds_join_the_conversation() -> None:
    class Reminds(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [ChatMessage.user_message(content=f"reminder {len(state['messages'])}")]}

    run = agent(Reminds(), script=[{"content": "done"}])
    result = await run_locally(run, "go")
    assert [message.content for message in result.state] == ["go", "reminder 1", "done"]


@pytest.mark.parametrize(
    ("hook", "returned", "complaint"),
    [
        ("before_model", {"jump_to": "end"}, r"Wrong\.before_model\(\) returned jump_to.*wrap_model_call"),
        ("after_model", {"messages": [ChatMessage.user_message(content="x")]}, "only before_agent and before_model"),
        ("before_model", ["x"], "a dict of state updates, got list"),
        ("before_agent", {"messages": ["text"]}, "must return ChatMessages as messages, got str"),
    ],
)
async def test_an_update_that_cannot_be_taken_fails_the_turn(hook: str, returned: Any, complaint: str) -> None:
    wrong = type("Wrong", (), {hook: lambda self, state, runtime: returned})()
    with pytest.raises(TypeError, match=f"(?s){complaint}"):
        await run_locally(agent(wrong), "go")


class TestWrapToolCall:
    """Around the whole way of a call, approval included."""

    async def test_changed_arguments_are_what_a_person_is_shown_and_what_runs(self) -> None:
        class Upper(AgentMiddleware):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                call = {**request.tool_call, "args": {"what": request.tool_call["args"]["what"].upper()}}
                return handler(request.override(tool_call=call))

        effects: list[str] = []
        made = agent(Upper(), effects=effects, requires_approval=True)
        paused = await hitl.run(made, "go")
        assert paused.state is not None
        (asked,) = paused.interrupts
        assert asked.tool_args == {"what": "X"}
        done = await hitl.run(made, paused.state.approve(asked))
        assert (done.status, effects) == ("idle", ["X"])

    async def test_a_message_in_the_tools_place_runs_nothing(self) -> None:
        class Denies(AgentMiddleware):
            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                name, call_id = request.tool_call["name"], request.tool_call["id"]
                return ChatMessage.tool_message(content="not today", tool_call_id=call_id, name=name)

        effects: list[str] = []
        made = agent(Denies(), effects=effects, requires_approval=True)
        result = await run_locally(made, "go", answers=lambda asked: APPROVE)
        assert (result.state[2].content, effects) == ("not today", [])

    async def test_a_person_who_is_asked_around_a_call_is_asked_once(self) -> None:
        class Asks(AgentMiddleware):
            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                sure = await interrupt({"type": "sure", "call": request.tool_call["name"]})
                message = await handler(request)
                return replace(message, content=f"{message.content}, {sure}")

        run = await run_all_prefixes(
            lambda effects: agent(Asks(), effects=effects),  # type: ignore[arg-type]
            lambda asked: "sure",
        )
        assert run.effects == ["x"]
        assert run.state[2].content == "did x, sure"

    async def test_a_call_that_fails_may_be_made_again(self) -> None:
        class Retries(AgentMiddleware):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                message = handler(request)
                return handler(request) if "error" in message.content else message

        tries: list[int] = []

        @tool
        async def act(what: str) -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError("down")
            return "up"

        made = ReActAgent(client=ScriptedChatClient(SCRIPT), tools=[act], middleware=[Retries()])
        assert (await run_locally(made, "go")).state[2].content == "up"

    async def test_a_call_that_cannot_be_read_and_one_of_no_tool_stay_the_model_s_mistakes(self) -> None:
        seen: list[Any] = []

        class Sees(AgentMiddleware):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                seen.append((request.tool_call["name"], request.tool))
                return handler(request)

        wrong = {"tool_calls": [{"name": "act", "args": "{"}, {"name": "nothing", "args": {}}]}
        result = await run_locally(agent(Sees(), script=[wrong, {"content": "done"}]), "go")
        assert "not valid JSON" in (result.state[2].content or "")
        assert "unknown tool 'nothing'" in (result.state[3].content or "")
        assert seen == [("nothing", None)]

    @pytest.mark.parametrize(
        ("wrap", "complaint"),
        [
            (lambda request, handler: "text", r"wrap_tool_call\(\) must return a ChatMessage, got str"),
            (
                lambda request, handler: ChatMessage.tool_message(content="x", tool_call_id="other"),
                "a tool message with the id of the call",
            ),
            (
                lambda request, handler: handler(request.override(tool_call={**request.tool_call, "name": "other"})),
                "cannot make a call of 'act' another one",
            ),
            (lambda request, handler: handler({"name": "act"}), "takes a ToolCallRequest, got dict"),
        ],
    )
    async def test_what_is_no_answer_to_the_call_fails_the_turn(self, wrap: Any, complaint: str) -> None:
        effects: list[str] = []
        with pytest.raises(TypeError, match=complaint):
            await run_locally(agent(SimpleNamespace(wrap_tool_call=wrap), effects=effects), "go")
        assert effects == []

    async def test_a_handoff_goes_through_it_too(self) -> None:
        notes: list[str] = []
        other = ReActAgent(client=ScriptedChatClient([{"content": "x"}, {"content": "taken over"}]), name="Other")
        script = [{"tool_calls": [{"name": "transfer_to_other"}]}, {"content": "stayed"}]
        made = ReActAgent(client=ScriptedChatClient(script), handoffs=[other], middleware=[Plain(notes)])
        result = await run_locally(made, "go")
        assert result.response.content == "taken over"
        assert notes[-2:] == ["m wrap_tool_call transfer_to_other Transferred to Other.", "m after_agent taken over"]


class TestRefused:
    """What nothing would ever call is an error where the agent is made, which names it and what to use."""

    @pytest.mark.parametrize(
        ("name", "use"),
        [
            ("after_tool_call", "use one of wrap_tools, before_agent"),
            ("on_model_start", "use one of"),
            ("modify_model_request", "use one of"),
            ("befor_model", "use before_model"),
            ("wrap_tool_calls", "use wrap_tool_call"),
            ("awrap_tools", "use wrap_tools"),
        ],
    )
    @pytest.mark.parametrize("make", [ReActAgent, ToolCallAgent])
    def test_a_name_that_looks_like_a_hook(self, make: Any, name: str, use: str) -> None:
        gate = type("Gate", (HumanInTheLoopMiddleware,), {name: lambda self, *args: None})({})
        with pytest.raises(TypeError, match=rf"(?s)Gate\.{name}\(\) looks like a hook.*{use}"):
            make(middleware=[gate])

    def test_a_hook_that_wants_to_jump(self) -> None:
        def before_model(state: Any, runtime: Any) -> None: ...

        before_model.__can_jump_to__ = ["end"]  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"before_model\(\) wants to jump"):
            ReActAgent(middleware=[SimpleNamespace(before_model=before_model)])

    def test_methods_that_look_like_none_are_nobody_s_business(self) -> None:
        class Helps(AgentMiddleware):
            def _before_model(self) -> None: ...
            def price_of(self) -> None: ...

        ReActAgent(middleware=[Helps()])
