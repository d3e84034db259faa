"""`tool()` itself: options, copies, and calls from Python."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest

from hitl import ChatMessage, ReActAgent, RunContext, Tool, ToolRejected, hooks, requires_approval, step, tool
from hitl.testing import ScriptedChatClient
from hitl.tools.schema import InvalidArguments
from tests.python.support.local import LocalTurn, run_locally


@tool(requires_approval=True, description="old", timeout=3, input_guardrails=[lambda path: None])
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"Deleted {path}"


def test_changing_a_tool_changes_what_is_named_and_makes_a_copy() -> None:
    changed = tool(delete_file, description="new")
    assert (changed.description, delete_file.description) == ("new", "old")
    # Re-decorating must not drop the approval, or anything else.
    assert changed.requires_approval is True
    assert changed.timeout == 3
    assert changed.input_guardrails == delete_file.input_guardrails
    assert tool(changed, requires_approval=False).requires_approval is False
    assert changed.requires_approval is True


def test_changing_a_tool_keeps_its_gate() -> None:
    def decide(request: Any) -> None: ...

    gated = tool(
        lambda path: path,
        name="drop",
        schema={"properties": {"path": {"type": "string"}}},
        requires_approval=True,
        allowed_decisions=["reject"],
        on_approval=decide,
        approval_description="Careful.",
        once=True,
    )
    for changed in (tool(gated, description="Drops."), tool(gated, name="other"), tool(description="x")(gated)):
        assert changed.requires_approval is True
        assert (changed.allowed_decisions, changed.on_approval) == (("reject",), decide)
        assert (changed.approval_description, changed.once) == ("Careful.", True)
    assert (gated.name, gated.description) == ("drop", "")


def test_an_option_given_as_none_resets_it() -> None:
    assert tool(delete_file, description=None).description == "Delete a file."
    assert tool(delete_file, timeout=None, input_guardrails=None).input_guardrails == ()


def test_lists_that_were_passed_in_are_not_kept() -> None:
    guardrails = [lambda path: None]
    allowed: list[Any] = ["approve"]
    made = tool(delete_file, input_guardrails=guardrails, allowed_decisions=allowed)
    guardrails.clear()
    allowed.append("reject")
    assert len(made.input_guardrails) == 1
    assert made.allowed_decisions == ("approve",)


def test_it_keeps_the_function_s_name_and_docstring() -> None:
    assert (delete_file.__name__, delete_file.__doc__) == ("delete_file", "Delete a file.")
    assert repr(delete_file) == "<Tool delete_file>"


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"requires_approval": "yes"}, TypeError, "must be a bool or a callable"),
        ({"requires_approval": None}, TypeError, "must be a bool or a callable"),
        ({"on_approval": True}, TypeError, "on_approval must be a callable"),
        ({"allowed_decisions": ["maybe"]}, ValueError, "maybe"),
        ({"allowed_decisions": []}, ValueError, "nothing"),
        ({"timeout": 0}, ValueError, "more than 0"),
        ({"timeout": True}, TypeError, "number of seconds"),
        ({"once": 1}, TypeError, "once must be"),
        ({"name": "no spaces"}, ValueError, "1 to 64"),
        ({"name": "x" * 65}, ValueError, "1 to 64"),
        ({"description": 5}, TypeError, "description must be a str"),
        ({"approval_description": 5}, TypeError, "approval_description must be a str or a callable"),
    ],
)
def test_an_option_that_cannot_work_is_refused_at_decoration(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        tool(delete_file, **options)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a function, got int"):
        tool(5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="<lambda>"):
        tool(lambda path: None)


class Shelf:
    def __init__(self, place: str) -> None:
        self.place = place

    @tool
    def put(self, item: str) -> str:
        """Put it there."""
        return f"{item} on {self.place}"


def test_a_method_is_a_tool_of_its_object() -> None:
    left = Shelf("left")
    assert isinstance(Shelf.put, Tool)
    assert list(left.put.parameters.json_schema["properties"]) == ["item"]
    assert left.put(item="book") == "book on left"
    assert tool(left.put.function, name="put").function("book") == "book on left"


class Adder:
    def __call__(self, cents: int) -> int:
        return cents + 1

    def take(self, cents: int) -> int:
        return cents - 1


def _fee(self: Any, cents: int, rate: int) -> int:
    return cents * rate + self.least


class Counter:
    """Python binds none of these but the first, and `fee` has always been a tool of its object."""

    least = 1

    @tool
    def own(self, cents: int) -> int:
        return cents

    @tool
    @staticmethod
    def twice(cents: int) -> int:
        return 2 * cents

    less = tool(Adder().take)
    more = tool(Adder())
    tenth = tool(functools.partial(lambda rate, cents: cents // rate, 10), name="tenth")
    fee = tool(functools.partial(_fee, rate=3))


def test_of_an_object_are_the_tools_that_python_would_bind_to_it() -> None:
    counter = Counter()
    assert [counter.own(4), counter.twice(4), counter.less(4), counter.more(4)] == [4, 8, 3, 5]
    assert (counter.tenth(cents=40), counter.fee(cents=2)) == (4, 7)
    assert counter.less is Counter.less


class Store:
    stock: ClassVar[dict[str, int]] = {"book": 3}

    @classmethod
    def count(cls, item: str) -> int:
        """How many there are."""
        return cls.stock[item]


def test_a_class_method_is_a_tool_once_its_class_is_there() -> None:
    counted = tool(Store.count)
    assert list(counted.parameters.json_schema["properties"]) == ["item"]
    assert counted.function("book") == 3

    def over(decorate: Callable[[Any], Any], class_method: Callable[[Any], Any]) -> None:
        class Late:
            @class_method
            @decorate
            def count(cls, item: str) -> int:  # noqa: N805  (what `classmethod` makes of it)
                return 3

    wrong = "(?s)'count' is a class method.*hint: make the tool of Late.count"
    for decorate, class_method in ((tool, classmethod), (classmethod, tool), (requires_approval, classmethod)):
        with pytest.raises(TypeError, match=wrong):
            over(decorate, class_method)


def test_a_parameter_may_be_called_as_a_class_is() -> None:
    def classify(cls, text: str) -> str:  # type: ignore[no-untyped-def]
        return str(cls)

    assert list(tool(classify).parameters.json_schema["properties"]) == ["cls", "text"]


def test_an_agent_takes_the_method_of_an_object_and_none_of_a_class() -> None:
    class Plain:
        def put(self, item: str) -> str:
            return item

    for made in (Shelf.put, Plain.put, tool(Plain.put)):
        with pytest.raises(TypeError, match=r"(?s)\.put is a method without its object.*tools=\[obj.put\]"):
            ReActAgent(client=ScriptedChatClient([]), tools=[made])
    for bound in (Shelf("left").put, Plain().put, tool(Plain().put)):
        ReActAgent(client=ScriptedChatClient([]), tools=[bound])


def test_a_partial_is_a_tool_with_what_is_left() -> None:
    def power(base: int, exponent: int) -> int:
        """Raise it."""
        return int(base**exponent)

    square = tool(functools.partial(power, exponent=2), name="square")
    assert square.description == "Raise it."
    assert square.parameters.json_schema["properties"]["base"] == {"type": "integer"}
    assert square(3) == 9


# -- called from Python, outside a run -------------------------------------------------------------------------------


async def test_outside_a_run_a_tool_is_its_function() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool
    async def who(ctx: RunContext[Any]) -> RunContext[Any]:
        return ctx

    assert add(1) == 3
    assert await who() == RunContext()


async def test_outside_a_run_a_gated_tool_refuses() -> None:
    with pytest.raises(RuntimeError, match="needs a person's approval, and was called outside a hitl run"):
        await delete_file(path="/x")


def test_outside_a_run_guardrails_hold() -> None:
    def check(n: int) -> dict[str, Any]:
        if n < 0:
            raise ValueError("negative")
        return {"n": n + 1}

    @tool(input_guardrails=[check], output_guardrails=[lambda result: result * 10])
    def f(n: int) -> int:
        return n

    assert f(1) == 20
    with pytest.raises(ValueError, match="negative"):
        f(-1)


# -- called from Python, inside a run --------------------------------------------------------------------------------


async def test_inside_a_run_a_call_is_a_step() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        return a + b

    local = LocalTurn()
    assert await local.run(lambda: add(1, b=2)) == 3
    (step, result), *rest = local.port.steps
    assert (step["kind"], step["name"], list(step["arguments"])) == ("tool", "add", ["a", "b"])
    assert result == {"value": 3}
    assert rest == []


async def test_inside_a_run_a_gated_tool_asks_whoever_calls_it() -> None:
    ran = []

    @tool(requires_approval=True)
    async def drop(path: str) -> None:
        ran.append(path)

    local = LocalTurn(lambda asked: {"type": "reject", "reason": "no"})
    with pytest.raises(ToolRejected, match=r"^User rejected drop: no$"):
        await local.run(lambda: drop("/x"))
    assert ran == []


async def test_wrong_arguments_from_python_are_an_error_before_any_step() -> None:
    @tool
    async def f(a: int) -> None: ...

    local = LocalTurn()
    with pytest.raises(InvalidArguments, match="a: Input should be a valid integer"):
        await local.run(lambda: f(a="x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"f\(\) takes 1 arguments, got 2"):
        await local.run(lambda: f.call(1, 2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="several values for 'a'"):
        await local.run(lambda: f.call(1, a=2))  # type: ignore[misc]
    assert local.port.steps == []


async def test_a_plain_tool_blocks_a_sync_agent_s_thread_and_never_the_loop() -> None:
    threads: set[int] = set()

    @tool(requires_approval=True)
    def drop(path: str) -> str:
        threads.add(threading.get_ident())
        return f"dropped {path}"

    local = LocalTurn(lambda asked: {"type": "approve"})

    async def on_the_loop() -> Any:
        return drop("/x")

    with pytest.raises(RuntimeError, match=r"would block the event loop; use: await drop\.call"):
        await local.run(on_the_loop)
    assert await local.run(lambda: local.turn.run_in_thread(drop, "/x")) == "dropped /x"
    assert await local.run(lambda: drop.call("/y")) == "dropped /y"
    assert threading.get_ident() not in threads


async def test_a_tool_knows_its_run() -> None:
    @tool
    async def who(ctx: RunContext[Any]) -> list[Any]:
        return [ctx.context, ctx.agent, ctx.session_id, ctx.tool_call_id, ctx.idempotency_key]

    local = LocalTurn(context={"user": 7}, agent="boss")
    first = await local.run(lambda: who())  # type: ignore[call-arg]
    second = await local.run(lambda: who())  # type: ignore[call-arg]
    assert first == [{"user": 7}, "boss", "session-1", None, "session-1/turn-1/0#1"]
    assert second[-1] == "session-1/turn-1/0#2"


async def test_only_a_call_has_an_idempotency_key() -> None:
    """That of a policy's own step would name another step than the call it asks about, and look like the call's."""
    keys: dict[str, str | None] = {}

    def needs(ctx: RunContext, args: dict[str, Any]) -> bool:
        keys["policy"] = ctx.idempotency_key
        return True

    def describe(ctx: RunContext, args: dict[str, Any]) -> str:
        keys["description"] = ctx.idempotency_key
        return "?"

    def prompt(ctx: RunContext) -> str:
        keys["prompt"] = ctx.idempotency_key
        return "Be brief."

    def all_of_it(ctx: RunContext, messages: list[ChatMessage]) -> list[ChatMessage]:
        keys["history"] = ctx.idempotency_key
        return messages

    @tool(requires_approval=needs, approval_description=describe)
    async def pay(ctx: RunContext) -> None:
        keys["call"] = ctx.idempotency_key

    client = ScriptedChatClient([{"tool_calls": [{"name": "pay", "args": {}}]}, {"content": "done"}])
    agent = ReActAgent(client, tools=[pay], system_prompt=prompt, history_processors=[all_of_it])
    await run_locally(agent, "go", answers=lambda asked: {"type": "approve"})
    assert keys.pop("call") is not None
    assert keys == {"policy": None, "description": None, "prompt": None, "history": None}


async def test_what_a_generator_does_is_the_tool_s_own_work() -> None:
    threads: list[threading.Thread] = []

    @tool
    def rows() -> Iterator[int]:
        for number in range(3):
            threads.append(threading.current_thread())
            yield step.sync(abs, -number)

    assert await LocalTurn().run(rows.call) == [0, 1, 2]
    # It was made to yield when its result was stored: on the event loop, outside of the tool's time and step.
    assert threading.main_thread() not in threads


async def test_and_has_to_be_done_in_its_time() -> None:
    over = threading.Event()

    @tool(timeout=0.05)
    def rows() -> Iterator[int]:
        over.wait()
        yield 1

    with pytest.raises(TimeoutError, match="rows took longer than 0.05 s"):
        await LocalTurn().run(rows.call)
    over.set()


class Stream:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1


async def stream() -> AsyncIterator[int]:
    """Nobody would iterate it: its body would never run, and the model be told of an object."""
    yield 1


@pytest.mark.parametrize("make", [tool, hooks.tool, requires_approval])
@pytest.mark.parametrize("function", [stream, functools.partial(stream)])
def test_an_async_generator_is_no_tool(make: Any, function: Any) -> None:
    with pytest.raises(TypeError, match="(?s)is an async generator, which nobody would iterate.*return a list"):
        make(function)


def test_nor_is_an_object_that_is_called_as_one() -> None:
    with pytest.raises(TypeError, match="is an async generator"):
        tool(Stream(), name="stream")


def test_nor_is_one_that_takes_the_context_of_hooks() -> None:
    async def asks(context: hooks.ToolContext) -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="is an async generator"):
        hooks.tool(context="context")(asks)
