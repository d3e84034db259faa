"""What tools need and cannot be stored: who gets it, who never sees it, and when it is opened."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

import hitl
from hitl import ReActAgent, RunContext, tool
from hitl.testing import HitlServer, Human, ScriptedChatClient


class Pool:
    def __init__(self, name: str = "pool") -> None:
        self.name = name


class Mailer:
    pass


@dataclass
class Both:
    pool: Pool
    mailer: Mailer


class Typed(TypedDict):
    name: str


class Opened:
    """What `resources` did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.error: BaseException | None = None
        self.value: Any = Pool()

        @hitl.resources(name="the pool")
        async def pool() -> AsyncIterator[Any]:
            if self.error is not None:
                raise self.error
            self.did.append("open")
            yield self.value
            self.did.append("close")

        self.resources = pool


@pytest.fixture
def opened() -> Opened:
    return Opened()


Marked = Annotated[Pool, hitl.Resource]


@tool
async def marked(word: str, pool: Marked) -> str:
    """Use it."""
    return f"{word} {pool.name}"


@tool
def marked_in_thread(pool: Marked, /, word: str) -> str:
    """Use it."""
    return f"{word} {pool.name}"


@tool
async def by_context(ctx: RunContext, word: str) -> str:
    """Use it."""
    return f"{word} {ctx.resources.name}"


@tool
async def without(ctx: RunContext[None, None]) -> str:
    """Do without."""
    return str(ctx.resources)


@tool(requires_approval=True)
async def gated(word: str, pool: Marked) -> str:
    """Use it once somebody has said yes."""
    return f"{word} {pool.name}"


def calls(*names: str, **args: Any) -> ScriptedChatClient:
    rounds: list[Any] = [{"tool_calls": [{"name": name, "args": args}]} for name in names]
    return ScriptedChatClient([*rounds, {"content": "done"}])


def agent(client: ScriptedChatClient, opened: Opened | None, *tools: Any, **options: Any) -> ReActAgent:
    return ReActAgent(client=client, tools=tools, resources=opened.resources if opened else None, **options)


def told(result: hitl.RunResult) -> list[str | None]:
    return [message.content for message in result.messages if message.role == "tool"]


async def approved(made: ReActAgent, waiting: hitl.RunResult) -> hitl.RunResult:
    assert waiting.state is not None
    for asked in waiting.interrupts:
        waiting.state.approve(asked)
    return await hitl.run(made, waiting.state)


class TestWhoGetsIt:
    @pytest.mark.parametrize("used", [marked, marked_in_thread, by_context], ids=lambda used: str(used.name))
    async def test_a_tool_that_says_so(self, opened: Opened, used: Any) -> None:
        result = await hitl.run(agent(calls(used.name, word="a"), opened, used), "go")
        assert (told(result), opened.did) == (["a pool"], ["open"])

    @pytest.mark.parametrize("used", [marked, marked_in_thread, by_context, gated], ids=lambda used: str(used.name))
    def test_the_model_is_not_told(self, used: Any) -> None:
        assert list(used.parameters.json_schema["properties"]) == ["word"]

    async def test_a_tool_that_says_it_does_without_opens_nothing(self, opened: Opened) -> None:
        result = await hitl.run(agent(calls("without"), opened, without), "go")
        assert (told(result), opened.did) == (["None"], [])

    async def test_a_model_cannot_give_one(self, opened: Opened) -> None:
        result = await hitl.run(agent(calls("marked", word="a", pool="mine"), opened, marked), "go")
        assert "pool" in (told(result)[0] or "")
        assert opened.did == []

    async def test_the_part_that_is_of_the_type_of_the_parameter(self, opened: Opened) -> None:
        opened.value = Both(Pool("one of two"), Mailer())
        result = await hitl.run(agent(calls("marked", word="a"), opened, marked), "go")
        assert told(result) == ["a one of two"]

    @pytest.mark.parametrize("wanted", [Any, Any | None, Typed, Typed | None], ids=str)
    async def test_a_type_that_objects_cannot_be_compared_with_takes_all_of_them(
        self, opened: Opened, wanted: Any
    ) -> None:
        async def whole(all_of_them: Any) -> str:
            """Use them."""
            return str(all_of_them["name"])

        whole.__annotations__["all_of_them"] = Annotated[wanted, hitl.Resource]
        opened.value = {"name": "all"}
        assert told(await hitl.run(agent(calls("whole"), opened, tool(whole)), "go")) == ["all"]

    async def test_one_that_can_do_without_a_part(self, opened: Opened) -> None:
        @tool
        async def either(pool: Annotated[Pool | None, hitl.Resource]) -> str:
            """Do what can be done."""
            return "without" if pool is None else pool.name

        for parts, name in (({"pool": Pool("found"), "mailer": None}, "found"), ({"pool": None}, "without")):
            await opened.resources.close()
            opened.value = parts
            assert told(await hitl.run(agent(calls("either"), opened, either), "go")) == [name]

    @pytest.mark.parametrize(("value", "has"), [(Mailer(), "no part"), ((Pool(), Pool()), "2 parts")])
    async def test_what_cannot_be_told_ends_the_turn(self, opened: Opened, value: Any, has: str) -> None:
        opened.value = value
        result = await hitl.run(agent(calls("marked", word="a"), opened, marked), "go")
        assert result.error_code == "no_such_resource"
        assert has in str(result.error)

    async def test_nobody_is_asked_about_a_tool_that_could_not_be_called(self) -> None:
        result = await hitl.run(agent(calls("gated", word="a"), None, gated), "go")
        assert (result.status, result.error_code, result.interrupts) == ("error", "no_such_resource", [])
        assert "'pool'" in str(result.error)

    async def test_one_that_can_do_without(self) -> None:
        @tool
        async def maybe(pool: Annotated[Pool | None, hitl.Resource]) -> str:
            """Do with or without."""
            return str(pool)

        assert told(await hitl.run(agent(calls("maybe"), None, maybe), "go")) == ["None"]

    async def test_an_agent_that_is_a_tool_has_its_own_or_else_the_outer_ones(self, opened: Opened) -> None:
        inner = Opened()
        inner.value = Pool("inner")
        own = agent(calls("marked", word="a"), inner, marked, name="own").as_tool()
        none = agent(calls("marked", word="b"), None, marked, name="none").as_tool()
        seen = []

        @tool
        async def look(pool: Marked) -> None:
            """After them."""
            seen.append(pool.name)

        @tool
        async def both() -> list[Any]:
            """Ask both."""
            return [await own.call(input="go"), await none.call(input="go"), await look.call()]

        await hitl.run(agent(calls("both"), opened, both), "go")
        assert (inner.did, opened.did, seen) == (["open"], ["open"], ["pool"])

    async def test_a_policy_that_says_so(self, opened: Opened) -> None:
        async def asks(ctx: RunContext[Any, Pool], args: dict[str, Any]) -> bool:
            return ctx.resources.name != "pool"

        careful = tool(without, requires_approval=asks)
        result = await hitl.run(agent(calls("without"), opened, careful), "go")
        assert (result.status, opened.did) == ("idle", ["open"])


class TestWhenItIsOpened:
    async def test_once_for_all_that_use_it_at_the_same_time(self, opened: Opened) -> None:
        script = [{"tool_calls": [{"name": "marked", "args": {"word": word}} for word in "abc"]}, {"content": "done"}]
        made = agent(ScriptedChatClient(script), opened, marked)
        assert told(await hitl.run(made, "go")) == ["a pool", "b pool", "c pool"]
        assert opened.did == ["open"]

    async def test_after_the_yes_and_no_earlier(self, opened: Opened) -> None:
        made = agent(calls("gated", word="a"), opened, gated)
        waiting = await hitl.run(made, "go")
        assert waiting.interrupts[0].tool_args == {"word": "a"}
        assert opened.did == []
        assert told(await approved(made, waiting)) == ["a pool"]
        assert "Pool" not in waiting.state.to_string()  # type: ignore[union-attr]  # it waits

    async def test_a_replay_opens_nothing_for_what_is_recorded(self, opened: Opened) -> None:
        client = ScriptedChatClient(
            [
                {"tool_calls": [{"name": "marked", "args": {"word": "a"}}]},
                {"tool_calls": [{"name": "ask", "args": {}}]},
                {"content": "done"},
            ]
        )

        @tool(requires_approval=True)
        async def ask() -> str:
            """Needs none."""
            return "so"

        made = agent(client, opened, marked, ask)
        waiting = await hitl.run(made, "go")
        await opened.resources.close()
        assert told(await approved(made, waiting)) == ["a pool", "so"]
        assert opened.did == ["open", "close"]

    async def test_it_stays_open_for_the_next_run_and_can_be_closed(self, opened: Opened) -> None:
        for _ in range(2):
            await hitl.run(agent(calls("marked", word="a"), opened, marked), "go")
        assert opened.did == ["open"]
        await opened.resources.close()
        assert opened.did == ["open", "close"]
        await hitl.run(agent(calls("marked", word="a"), opened, marked), "go")
        assert opened.did == ["open", "close", "open"]

    async def test_who_waits_for_one_that_is_closed_before_it_began_to_open_hears_of_it(self, opened: Opened) -> None:
        opening = opened.resources.open()
        await opened.resources.close()
        with pytest.raises(hitl.ResourceUnavailable, match="it was closed before it was open"):
            await asyncio.wait_for(opening, 10)

    def test_the_end_of_a_loop_closes_it(self, opened: Opened) -> None:
        asyncio.run(_run(opened))
        assert opened.did == ["open", "close"]

    def test_so_does_the_end_of_one_that_nobody_ends_in_good_order(self, opened: Opened) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_run(opened))
        loop.close()
        assert opened.did == ["open", "close"]

    def test_each_loop_has_its_own(self, opened: Opened) -> None:
        async def outer() -> None:
            await _run(opened)
            await asyncio.to_thread(lambda: asyncio.run(_run(opened)))

        asyncio.run(outer())
        assert opened.did == ["open", "open", "close", "close"]

    def test_a_program_that_runs_without_a_loop_closes_it_at_its_end(self) -> None:
        program = (
            "import hitl\nfrom tests.python.agents.test_resources import *\nopened = Opened()\n"
            "class Loud(list):\n    def append(self, did): print(did, flush=True)\nopened.did = Loud()\n"
            "hitl.run_sync(agent(calls('marked', word='a'), opened, marked), 'go'); print('ran')"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert (done.stdout.split(), done.stderr) == (["open", "ran", "close"], "")

    async def test_what_is_open_is_not_open_in_another_process(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in one that was forked from here, on a copy of the same loop."""
        await opened.resources.open()
        assert opened.resources.is_open
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert not opened.resources.is_open


class TestWhatCannotBeOpened:
    @pytest.mark.parametrize(
        ("address", "shown"),
        [
            ("postgresql://shop:geh@im@db/shop", "postgresql://shop:***@db/shop"),
            ("postgresql://db/shop?user=shop&password=geheim&x=1", "postgresql://db/shop?user=shop&password=***&x=1"),
            ("host=db password=geheim", "host=db password=***"),
        ],
    )
    async def test_suspends_the_turn_and_names_it_without_its_password(
        self, opened: Opened, address: str, shown: str
    ) -> None:
        opened.error = OSError(f"no route to {address}")
        made = agent(calls("gated", word="a"), opened, gated)
        away = await approved(made, await hitl.run(made, "go"))
        assert (away.status, away.error_code) == ("error", "resource_unavailable")
        cause = f"OSError: no route to {shown}"
        assert away.error == f"ResourceUnavailable: the resource 'the pool' cannot be opened: {cause}"
        assert isinstance(away.exception, hitl.ResourceUnavailable)
        assert away.state is not None
        opened.error = None
        # Approved, and not begun: nobody is asked again, neither for a yes nor for what came of it.
        assert told(await hitl.run(made, away.state)) == ["a pool"]

    async def test_nor_in_time(self) -> None:
        @hitl.resources(timeout=0.01)
        async def slow() -> AsyncIterator[Pool]:
            await asyncio.Event().wait()
            yield Pool()

        made = ReActAgent(client=calls("marked", word="a"), tools=[marked], resources=slow)
        assert "'slow' cannot be opened: TimeoutError: it was not open after 0.01 s" in str(
            (await hitl.run(made, "go")).error
        )

    async def test_a_time_out_of_its_own_where_it_has_no_limit(self) -> None:
        @hitl.resources(timeout=None)
        async def slow() -> AsyncIterator[Pool]:
            raise TimeoutError
            yield Pool()

        made = ReActAgent(client=calls("marked", word="a"), tools=[marked], resources=slow)
        result = await asyncio.wait_for(hitl.run(made, "go"), 30)
        assert result.error == "ResourceUnavailable: the resource 'slow' cannot be opened: TimeoutError"

    async def test_inside_of_a_once_step_its_author_is_told(self, opened: Opened) -> None:
        opened.error = OSError("away")

        @hitl.step(once=True)
        async def careful() -> str:
            try:
                return await marked.call(word="a")
            except hitl.ResourceUnavailable as error:
                return type(error).__name__

        @hitl.agent(resources=opened.resources)
        async def own(message: hitl.ChatMessage, state: list[hitl.ChatMessage]) -> Any:
            return hitl.ChatMessage.assistant_message(content=await careful()), state

        assert (await hitl.run(own, "go")).output == "ResourceUnavailable"

    async def test_a_body_that_goes_on_after_an_answer(self, opened: Opened) -> None:
        """Its replay is suspended, and no mismatch."""

        @tool
        async def asks(pool: Marked) -> str:
            """Ask while it runs."""
            return f"{pool.name} {await hitl.interrupt({'type': 'question'})}"

        made = agent(calls("asks"), opened, asks)
        waiting = await hitl.run(made, "go")
        assert waiting.state is not None
        waiting.state.answer(waiting.interrupts[0], "yes")
        await opened.resources.close()
        opened.error = OSError("away")
        away = await hitl.run(made, waiting.state)
        assert away.error_code == "resource_unavailable"
        assert away.state is not None
        opened.error = None
        assert told(await hitl.run(made, away.state)) == ["pool yes"]

    async def test_a_failure_to_close_is_told_and_harms_nobody(self, capsys: pytest.CaptureFixture[str]) -> None:
        @hitl.resources
        async def stubborn() -> AsyncIterator[Pool]:
            yield Pool()
            raise OSError("still in use")

        await hitl.run(ReActAgent(client=calls("marked", word="a"), tools=[marked], resources=stubborn), "go")
        await stubborn.close()
        assert "closing the resource 'stubborn' failed: OSError: still in use" in capsys.readouterr().err


class TestSomethingElseInItsPlace:
    async def test_an_open_object_is_used_and_left_open(self, opened: Opened) -> None:
        result = await hitl.run(agent(calls("marked", word="a"), opened, marked), "go", resources=Pool("mine"))
        assert (told(result), opened.did) == (["a mine"], [])

    def test_in_a_test_of_a_served_agent(self, hitl_server: HitlServer, human: Human, opened: Opened) -> None:
        client = calls("gated", word="a")
        human.on("gated").approve()
        hitl_server(agent(client, opened, gated), resources=Pool("fake")).send("go")
        assert client.requests[-1]["messages"][-1]["content"] == "a fake"
        assert opened.did == []

    def test_a_live_server_opens_it_once_and_closes_it_when_it_stops(
        self, hitl_server: HitlServer, opened: Opened
    ) -> None:
        server = hitl_server(agent(calls("marked", word="a"), opened, marked))
        server.send("go")
        server.send("go")
        assert opened.did == ["open"]
        hitl_server.stop()
        assert opened.did == ["open", "close"]


class TestWhatIsRefused:
    def test_functions_that_could_not_be_called(self) -> None:
        def plain() -> Iterator[Pool]:
            yield Pool()

        async def of_something(dsn: str) -> AsyncIterator[Pool]:
            yield Pool(dsn)

        for function, why in ((plain, "async def"), (of_something, "no parameters"), (3, "a function")):
            with pytest.raises(TypeError, match=why):
                hitl.resources(function)  # type: ignore[call-overload]  # wrong on purpose

    @pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
    def test_times(self, timeout: float) -> None:
        with pytest.raises(ValueError, match="timeout"):
            hitl.resources(timeout=timeout)

    def test_what_was_opened_at_the_import(self) -> None:
        with pytest.raises(TypeError, match=r"(?s)made by @hitl.resources.*forked"):
            ReActAgent(resources=Pool())  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(TypeError, match=r"made by @hitl.resources"):
            hitl.agent(resources=Pool())  # type: ignore[call-overload]  # wrong on purpose

    async def test_a_function_that_was_not_decorated(self) -> None:
        async def pool() -> AsyncIterator[Pool]:
            yield Pool()

        with pytest.raises(TypeError, match=r"put @hitl.resources over"):
            await hitl.run(agent(calls("marked"), None, marked), "go", resources=pool)

    def test_what_workers_would_not_know(self) -> None:
        with pytest.raises(TypeError, match="for a live agent"):
            hitl.Server("app:agent", resources=Pool())

    async def test_what_returns_no_context_manager(self) -> None:
        @hitl.resources
        def pool() -> AbstractAsyncContextManager[Pool]:
            return Pool()  # type: ignore[return-value]  # wrong on purpose

        made = ReActAgent(client=calls("marked", word="a"), tools=[marked], resources=pool)
        assert "it returned Pool" in str((await hitl.run(made, "go")).error)


async def test_a_function_that_returns_a_context_manager(opened: Opened) -> None:
    @asynccontextmanager
    async def create_pool(name: str) -> AsyncIterator[Pool]:
        yield Pool(name)

    @hitl.resources
    def pool() -> AbstractAsyncContextManager[Pool]:
        return create_pool("made")

    made = ReActAgent(client=calls("marked", word="a"), tools=[marked], resources=pool)
    assert told(await hitl.run(made, "go")) == ["a made"]


async def _run(opened: Opened) -> None:
    await hitl.run(agent(calls("marked", word="a"), opened, marked), "go")
