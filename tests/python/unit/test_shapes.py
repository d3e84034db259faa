"""Which objects are agents, and what an agent may return."""

import functools
from typing import Any

import pytest

import hitl
from hitl import ChatMessage
from hitl.driver.shapes import LoadedAgent, as_agent
from hitl.errors import AgentLoadError
from tests.python.support.local import run_locally

State = list[ChatMessage]
Result = tuple[ChatMessage, State]


def answer(message: ChatMessage, state: State) -> Result:
    reply = ChatMessage.assistant_message(content=f"re: {message.content}")
    return reply, [*state, message, reply]


async def async_function(message: ChatMessage, state: State) -> Result:
    return answer(message, state)


def function(message: ChatMessage, state: State) -> Result:
    return answer(message, state)


class AsyncRunTurn:
    async def run_turn(self, message: ChatMessage, state: State) -> Result:
        return answer(message, state)


class SyncRunTurn:
    def run_turn(self, message: ChatMessage, state: State) -> Result:
        return answer(message, state)


class AsyncCall:
    async def __call__(self, message: ChatMessage, state: State) -> Result:
        return answer(message, state)


class SyncCall:
    def __call__(self, message: ChatMessage, state: State, extra: int = 0) -> Result:
        return answer(message, state)


class Static:
    @staticmethod
    async def run_turn(message: ChatMessage, state: State) -> Result:
        return answer(message, state)


async def with_more(prefix: str, message: ChatMessage, state: State) -> Result:
    return answer(message, state)


@pytest.mark.parametrize(
    "agent",
    [
        async_function,
        function,
        AsyncRunTurn(),
        SyncRunTurn(),
        AsyncCall(),
        SyncCall(),
        Static(),
        AsyncRunTurn().run_turn,
        functools.partial(with_more, "x"),
        functools.partial(functools.partial(with_more), "x"),
        lambda message, state: answer(message, state),
        lambda message, state: async_function(message, state),
        hitl.agent(version="2")(AsyncCall()),
        hitl.agent(function),
        as_agent(function),
    ],
)
async def test_an_accepted_shape_runs_a_turn(agent: Any) -> None:
    result = await run_locally(agent, "hi", [ChatMessage.system_message(content="s")])
    assert result.response.content == "re: hi"
    assert [message.role for message in result.state] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (async_function, "async_function"),
        (AsyncRunTurn(), "AsyncRunTurn"),
        (functools.partial(with_more, "x"), "with_more"),
        (hitl.agent(name="clerk")(function), "clerk"),
        (hitl.agent(AsyncCall()), "AsyncCall"),
    ],
)
def test_an_agent_has_a_name(agent: Any, name: str) -> None:
    assert as_agent(agent).name == name


class WrongRunTurn:
    async def run_turn(self, message: ChatMessage) -> None: ...


@hitl.tool
def refund(order: str, euros: int) -> str:
    """Give money back."""
    return f"{order}: {euros}"


async def no_parameters() -> None: ...
async def keyword_only(*, message: ChatMessage, state: State) -> None: ...
async def generator(message: ChatMessage, state: State) -> Any:
    yield message


@pytest.mark.parametrize(
    ("candidate", "message", "hint"),
    [
        (
            AsyncRunTurn,
            "app:agent is the class AsyncRunTurn, not an agent",
            "make an instance of it: AsyncRunTurn(...); an agent is a function",
        ),
        (refund, "app:agent is the tool refund, not an agent", "give it to one: ReActAgent(tools=[refund])"),
        (42, "app:agent is of type int, not an agent", "run_turn(message, state)"),
        (None, "app:agent is of type NoneType, not an agent", "a function (message, state)"),
        (no_parameters, "app:agent takes () -> None, and cannot be called with (message, state)", "write it as"),
        (keyword_only, "cannot be called with (message, state)", "write it as"),
        (with_more, "cannot be called with (message, state)", "write it as"),
        (WrongRunTurn(), "app:agent.run_turn takes (message: ", "write it as"),
        (generator, "app:agent is a generator, not an agent", "instead of yielding"),
        (hitl.tool, "app:agent is tool of hitl.", "an agent is a function (message, state)"),
    ],
)
def test_a_wrong_shape_says_what_it_is_and_what_to_do(candidate: Any, message: str, hint: str) -> None:
    with pytest.raises(AgentLoadError) as caught:
        as_agent(candidate, "app:agent")
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


SOME = ChatMessage.assistant_message(content="x")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("text", r"^Agent must return a \(response, state\) tuple, got str$"),
        (None, r"^Agent must return a \(response, state\) tuple, got NoneType$"),
        ([SOME, []], r"^Agent must return a \(response, state\) tuple, got list$"),
        ((SOME, [], 1), r"^Agent must return a \(response, state\) tuple, got a tuple of 3$"),
        (("text", []), r"^Agent must return a ChatMessage as its response, got str$"),
        ((SOME, (SOME,)), r"^Agent must return a list of ChatMessage as its state, got tuple$"),
        ((SOME, [SOME, {}]), r"^Agent must return a list of ChatMessage as its state, got dict at 1$"),
    ],
)
async def test_a_wrong_result_is_a_type_error_that_names_it(result: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        await run_locally(lambda message, state: result, "hi")


async def test_a_field_that_was_assigned_wrongly_is_found_before_it_is_sent() -> None:
    def agent(message: ChatMessage, state: State) -> Result:
        message.content = 3  # type: ignore[assignment]
        return SOME, [message]

    text = r"^Agent must return a ChatMessage that can be sent as its state, at 0: ChatMessage\.content must be a str"
    with pytest.raises(TypeError, match=text):
        await run_locally(agent, "hi")


async def test_a_role_that_was_assigned_wrongly_is_no_result() -> None:
    def agent(message: ChatMessage, state: State) -> Result:
        message.role = "robot"  # type: ignore[assignment]
        return message, []

    text = r"^Agent must return a ChatMessage that can be sent as its response: ChatMessage\.role must be one of"
    with pytest.raises(TypeError, match=text):
        await run_locally(agent, "hi")


# -- @hitl.agent ----------------------------------------------------------------------------------------------------


async def test_the_decorated_function_is_still_a_function_and_the_original_is_unchanged() -> None:
    decorated = hitl.agent(replay=False, name="clerk", version="3")(async_function)
    response, _ = await decorated(ChatMessage.user_message(content="x"), [])
    assert response.content == "re: x"
    assert decorated.__name__ == "async_function"
    loaded = as_agent(decorated)
    assert (loaded.name, loaded.options.replay, loaded.options.version) == ("clerk", False, "3")
    assert as_agent(async_function).name == "async_function"
    assert as_agent(async_function).options.replay is True


def test_a_decorated_class_gives_its_options_to_its_instances() -> None:
    @hitl.agent(name="clerk")
    class Clerk:
        async def run_turn(self, message: ChatMessage, state: State) -> Result:
            return answer(message, state)

    assert as_agent(Clerk()).name == "clerk"
    with pytest.raises(AgentLoadError, match="is the class Clerk"):
        as_agent(Clerk)


def test_a_wrapped_object_keeps_its_attributes_and_is_not_changed() -> None:
    original = SyncCall()
    original.color = "red"  # type: ignore[attr-defined]
    wrapped = hitl.agent(name="x")(original)
    assert wrapped.color == "red"  # type: ignore[attr-defined]
    assert as_agent(original).name == "SyncCall"
    assert isinstance(as_agent(wrapped), LoadedAgent)


@pytest.mark.parametrize("options", [{"name": ""}, {"name": 3}, {"version": 2}, {"replay": 1}, {"pin": "v1"}])
def test_wrong_options_are_type_errors(options: Any) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(options))} must be"):
        hitl.agent(**options)


def test_what_is_never_replayed_cannot_be_pinned() -> None:
    with pytest.raises(TypeError, match="leave one out"):
        hitl.agent(replay=False, pin=True)


def test_a_wrong_shape_is_refused_where_it_is_decorated() -> None:
    with pytest.raises(AgentLoadError, match="is of type int"):
        hitl.agent(name="x")(42)
