"""A resume that is cancelled: the pause is still there, and what was done is not done again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl.errors import AlreadyResolved
from hitl.planner import NodeSpec, PlannerFinish, ToolContext, tool
from tests.python.planner.writing import DONE, Ok, Planner, SharedStore, Store, Text, Written, paused, spec, write


class Slow(list[str]):
    """A tool that never returns the first time it is called; and what it began."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    @property
    def spec(self) -> NodeSpec:
        @tool(desc="Send a line, slowly", side_effects="write")
        async def send_line(args: Text, ctx: ToolContext) -> Ok:
            self.append(args.text)
            self.began.set()
            if len(self) == 1:
                await asyncio.sleep(3600)
            return Ok(ok=True)

        return spec(send_line)


class Quick(list[str]):
    """A tool that notes what it was called with."""

    @property
    def spec(self) -> NodeSpec:
        @tool(desc="Note a line", side_effects="write")
        async def note_line(args: Text, ctx: ToolContext) -> Ok:
            self.append(args.text)
            return Ok(ok=True)

        return spec(note_line)


SCRIPT = [write("a"), write("b", tool="note_line"), write("c", tool="send_line"), DONE]


@pytest.fixture(params=[None, Store, SharedStore], ids=["memory", "store", "shared store"])
def store(request: pytest.FixtureRequest) -> Any:
    return None if request.param is None else request.param()


async def cancel(resuming: asyncio.Task[Any]) -> None:
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming


async def test_a_cancelled_resume_can_be_resumed_and_does_nothing_twice(store: Any) -> None:
    quick, slow = Quick(), Slow()
    planner = Planner(SCRIPT, Written().spec, quick.spec, slow.spec, state_store=store)
    pause = paused(await planner.run("go"))
    resuming = asyncio.create_task(planner.resume(pause.resume_token, "yes"))
    await slow.began.wait()
    await cancel(resuming)
    requests = len(planner.client.requests)
    with pytest.raises(AlreadyResolved):  # the model has been told
        await planner.resume(pause.resume_token, "no")
    result = await planner.resume(pause.resume_token, "yes")
    assert isinstance(result, PlannerFinish)
    assert result.payload == "done"
    # What had come to its end is not done again, neither by a tool nor by the model; what was at work is.
    assert (quick, slow) == (["b"], ["c", "c"])
    assert len(planner.client.requests) == requests + 1
    with pytest.raises(KeyError):
        await planner.resume(pause.resume_token, "yes")


async def test_another_planner_goes_on_with_a_cancelled_resume() -> None:
    store, quick, slow = Store(), Quick(), Slow()
    specs = (Written().spec, quick.spec, slow.spec)
    planner = Planner(SCRIPT, *specs, state_store=store)
    pause = paused(await planner.run("go"))
    resuming = asyncio.create_task(planner.resume(pause.resume_token, "yes"))
    await slow.began.wait()
    await cancel(resuming)
    other = Planner(SCRIPT, *specs, state_store=store)
    assert isinstance(await other.resume(pause.resume_token, "yes"), PlannerFinish)
    assert (quick, slow) == (["b"], ["c", "c"])


async def test_a_time_limit_loses_no_pause(store: Any) -> None:
    slow = Slow()
    planner = Planner([write("a"), write("c", tool="send_line"), DONE], Written().spec, slow.spec, state_store=store)
    pause = paused(await planner.run("go"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(planner.resume(pause.resume_token, "yes"), 0.3)
    assert isinstance(await planner.resume(pause.resume_token, "yes"), PlannerFinish)


class Slowly(SharedStore):
    """A store whose work can be held up."""

    def __init__(self, held: str) -> None:
        super().__init__()
        self.held, self.reached, self.go_on = held, asyncio.Event(), asyncio.Event()
        self.go_on.set()

    async def _hold(self, what: str) -> None:
        if what == self.held and not self.go_on.is_set():
            self.reached.set()
            await self.go_on.wait()

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        await super().save_planner_state(token, payload)
        await self._hold("used" if "resumed_at" in payload else "kept")

    async def claim_planner_state(self, token: str) -> bool:
        is_first = await super().claim_planner_state(token)
        await self._hold("claimed")
        return is_first


@pytest.mark.parametrize("held", ["claimed", "used"])
async def test_a_resume_that_is_cancelled_before_it_began_can_be_resumed(held: str) -> None:
    store, written = Slowly(held), Written()
    planner = Planner([write("a"), DONE], written.spec, state_store=store)
    pause = paused(await planner.run("go"))
    store.go_on.clear()
    resuming = asyncio.create_task(planner.resume(pause.resume_token, "yes"))
    await store.reached.wait()
    resuming.cancel()
    await asyncio.sleep(0)
    resuming.cancel()  # an impatient caller changes nothing
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    assert len(planner.client.requests) == 1
    assert isinstance(await planner.resume(pause.resume_token, "another answer"), PlannerFinish)


async def test_the_next_pause_is_not_lost_where_it_is_cancelled_while_it_is_kept() -> None:
    store, written = Slowly("kept"), Written()
    planner = Planner([write("a"), write("b"), DONE], written.spec, state_store=store)
    pause = paused(await planner.run("go"))
    store.go_on.clear()
    resuming = asyncio.create_task(planner.resume(pause.resume_token, "yes"))
    await store.reached.wait()
    resuming.cancel()
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    second = paused(await planner.resume(pause.resume_token, "yes"))
    assert second.payload["preview"] == "b"
    assert len(planner.client.requests) == 2
    assert isinstance(await planner.resume(second.resume_token, "yes"), PlannerFinish)
