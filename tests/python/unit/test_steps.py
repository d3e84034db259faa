"""hitl.step, now, uuid, random and patched."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

import hitl
from hitl import ChatMessage, interrupt, step
from hitl.turn.runtime import current_turn
from tests.python.support.local import LocalTurn


async def add(a: int, b: int = 0) -> int:
    return a + b


async def test_it_passes_everything_to_the_function() -> None:
    async def takes(*args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    assert await LocalTurn().run(step, takes, 1, key="mine", once=True) == [[1], {"key": "mine", "once": True}]


async def test_the_record_names_function_place_and_arguments() -> None:
    local = LocalTurn()
    lines = []

    async def agent() -> None:
        lines.append(inspect.currentframe().f_lineno + 1)  # type: ignore[union-attr]
        await step(add, 1, b=2)

    await local.run(agent)
    [(identity, result)] = local.port.steps
    assert (identity["kind"], identity["name"]) == ("step", "add")
    assert identity["location"] == f"test_steps.py:{lines[0]}"
    assert list(identity["arguments"]) == ["a", "b"]
    assert result == {"value": 3}


async def test_a_plain_function_runs_in_a_thread() -> None:
    assert await LocalTurn().run(step, threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("function", [lambda a: add(a, 1), functools.partial(add, b=1)])
async def test_whatever_turns_out_to_be_async_is_awaited(function: Callable[[int], Any]) -> None:
    assert await LocalTurn().run(step, function, 2) == 3


async def test_as_a_decorator_every_call_is_a_step() -> None:
    local = LocalTurn()

    @step()
    async def double(n: int) -> int:
        """Twice n."""
        return n * 2

    @step(key="half", once=True)
    def half(n: int) -> float:
        return n / 2

    async def agent() -> Any:
        return await asyncio.gather(double(2), half(3))

    assert await local.run(agent) == [4, 1.5]
    assert double.__doc__ == "Twice n."
    assert {identity["name"].rpartition(".")[2]: identity["key"] for identity, _ in local.port.steps} == {
        "double": None,
        "half": "half",
    }


async def test_a_decorated_step_has_a_sync_twin_for_threads() -> None:
    local = LocalTurn()

    @step(key="charge")
    async def charge(card: str, cents: int) -> str:
        return f"{card}: {cents}"

    def work() -> list[str]:
        return [charge.sync("4111", cents=5), step.sync(charge_more, 5)]

    async def charge_more(cents: int) -> str:
        return str(cents)

    async def agent() -> Any:
        return await current_turn().run_in_thread(work)

    assert await local.run(agent) == ["4111: 5", "5"]
    assert [(identity["key"], list(identity["arguments"])) for identity, _ in local.port.steps] == [
        ("charge", ["card", "cents"]),
        (None, ["cents"]),
    ]


async def test_a_method_can_be_a_step() -> None:
    class Till:
        def __init__(self, owner: str) -> None:
            self.owner = owner

        @step(key="take")
        async def take(self, cents: int) -> str:
            """Takes it."""
            return f"{self.owner} has {cents}"

    ann, ben = Till("ann"), Till("ben")

    async def agent() -> Any:
        return [await ann.take(3), await current_turn().run_in_thread(lambda: ben.take.sync(cents=4))]

    assert await LocalTurn().run(agent) == ["ann has 3", "ben has 4"]
    assert (Till.take.__name__, Till.take.__doc__) == ("take", "Takes it.")


@pytest.mark.parametrize(("taker", "call"), [("step()", step), ("step.sync()", step.sync)])
def test_the_call_of_a_function_is_told_to_be_a_function(taker: str, call: Callable[..., Any]) -> None:
    async def charge(cents: int) -> None: ...

    with pytest.raises(TypeError) as caught:
        call(charge(3))
    said, _, hint = str(caught.value).partition("\n\nhint: ")
    assert said == f"{taker} takes a function first, got what charge() returns, a coroutine"
    assert hint.startswith(f"write {taker.removesuffix(')')}charge, ...)")


def test_outside_a_run_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"^step\(\) called outside a hitl run") as caught:
        step(add, 1)
    assert "@hitl.step() with parentheses" in caught.value.__notes__[0]

    @step()
    async def later() -> None: ...

    with pytest.raises(RuntimeError, match=r"^step .*later\(\) called outside a hitl run\n\nhint: "):
        later()


def test_what_is_no_function_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="step\\(\\) takes a function first, got int"):
        step(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="decorates a function, got int"):
        step()(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="repeat"):
        step(repeat=3)  # type: ignore[call-overload]


async def test_a_wrong_call_is_the_functions_own_type_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        await LocalTurn().run(step, add)


async def test_a_parameter_may_have_any_name() -> None:
    def play(turn: int, function: str, self: str) -> str:
        return f"{turn} {function} {self}"

    decorated, given = step()(play), {"turn": 1, "function": "f", "self": "s"}

    async def agent() -> Any:
        in_thread = await current_turn().run_in_thread(lambda **names: (step.sync(play, **names), names), **given)
        return [await step(play, **given), await decorated(**given), in_thread]

    assert await LocalTurn().run(agent) == ["1 f s", "1 f s", ("1 f s", given)]


async def test_an_option_of_the_decorator_in_a_call_says_where_it_belongs() -> None:
    for function in (add, lambda: 1):
        with pytest.raises(TypeError, match=r"step\(\) passes once= on to .*@hitl\.step\(once=\.\.\.\)"):
            await LocalTurn().run(step, function, once=True)

    def counted(key: str, **options: Any) -> str:
        return f"{key} {options}"

    assert await LocalTurn().run(step, counted, key="a", once=True) == "a {'once': True}"


@pytest.mark.parametrize("function", [asyncio.gather, asyncio.get_running_loop])
async def test_a_plain_function_that_needs_the_loop_says_how_it_gets_there(function: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="event loop") as raised:
        await LocalTurn().run(step, function)
    [hint] = raised.value.__notes__
    assert "async def" in hint


async def test_the_clock_is_recorded() -> None:
    local = LocalTurn()

    async def agent() -> tuple[datetime, UUID, float]:
        return await hitl.now(), await hitl.uuid(), await hitl.random()

    now, uuid, number = await local.run(agent)
    assert now.tzinfo is UTC
    assert abs((datetime.now(UTC) - now).total_seconds()) < 60
    assert uuid.version == 4
    assert 0 <= number < 1
    assert [(identity["kind"], identity["name"]) for identity, _ in local.port.steps] == [
        ("clock", "now"),
        ("clock", "uuid"),
        ("clock", "random"),
    ]


async def test_the_clock_has_sync_twins_for_threads() -> None:
    def work() -> list[str]:
        values = hitl.now.sync(), hitl.uuid.sync(), hitl.random.sync(), hitl.patched.sync("x")
        return [type(value).__name__ for value in values]

    async def agent() -> Any:
        return await current_turn().run_in_thread(work)

    assert await LocalTurn().run(agent) == ["datetime", "UUID", "float", "bool"]


@pytest.mark.parametrize("name", ["now", "uuid", "random"])
def test_the_clock_outside_a_run(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^{name}\(\) called outside a hitl run\n\nhint: "):
        getattr(hitl, name)()


async def test_an_edit_is_marked_once_per_turn() -> None:
    local = LocalTurn()

    async def agent() -> list[bool]:
        return [await hitl.patched("new-prompt"), await hitl.patched("new-prompt"), await hitl.patched("other")]

    assert await local.run(agent) == [True, True, True]
    assert [identity["key"] for identity, _ in local.port.steps] == ["patched:new-prompt", "patched:other"]


async def test_an_edit_needs_an_id() -> None:
    with pytest.raises(TypeError, match="non-empty string"):
        await LocalTurn().run(hitl.patched, "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"key": 5}, r"step\(\) key must be a non-empty str or None, got 5"),
        ({"key": ""}, r"step\(\) key must be a non-empty str or None, got ''"),
        # It is true: a step would be asked about that its author meant to run again.
        ({"once": "no"}, r"step\(\) once must be True or False, got 'no'"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_written(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        step(**options)


async def test_what_two_bodies_ask_of_an_edit_is_answered_in_each() -> None:
    """A replay does not run the first body again, and finds the answer that the second one was given."""

    async def agent(message: ChatMessage, state: list[ChatMessage]) -> tuple[ChatMessage, list[ChatMessage]]:
        async def first() -> bool:
            return await hitl.patched("edit")

        async def second() -> list[bool]:
            return [await hitl.patched("edit"), await interrupt({"type": "q"}), await hitl.patched("edit")]

        reply = ChatMessage.assistant_message(content=str([await step(first), await step(second)]))
        return reply, [message, reply]

    paused = await hitl.run(agent, "go")
    assert paused.state is not None
    result = await hitl.run(agent, paused.state.answer(paused.interrupts[0], "yes"))
    assert (result.output, result.error) == ("[True, [True, 'yes', True]]", None)
