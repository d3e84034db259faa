"""Random agents: whatever they gather, race, nest, cancel and hand to threads, the turn keeps its books."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hitl import interrupt, step
from hitl.journal.ports import InterruptRequest
from hitl.turn.runtime import current_turn
from hitl.worker import loops
from tests.python.support.local import LocalTurn

Plan = tuple[str, list[Any]]

leaves = st.sampled_from(["step", "ask", "fail", "yield", "thread", "thread that asks"]).map(lambda name: (name, []))
plans: st.SearchStrategy[Plan] = st.recursive(
    leaves,
    lambda inner: st.tuples(
        st.sampled_from(["in turn", "gather", "race", "step around", "cancelled", "group"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=12,
)


async def follow(plan: Plan) -> Any:
    """Do what a plan says; failures are part of it."""
    name, parts = plan
    match name:
        case "step":
            await step(asyncio.sleep, 0)
        case "ask":
            await interrupt({"type": "q"})
        case "fail":
            await step(fail)
        case "yield":
            await asyncio.sleep(0)
        case "thread":
            await step(int)
        case "thread that asks":
            await current_turn().run_in_thread(interrupt.sync, {"type": "q"})
        case "in turn":
            for part in parts:
                await follow(part)
        case "gather":
            await asyncio.gather(*map(follow, parts), return_exceptions=True)
        case "race":
            tasks = [asyncio.ensure_future(follow(part)) for part in parts]
            _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        case "step around":
            await current_turn().run_step("tool", "outer", lambda: follow(("in turn", parts)))
        case "cancelled":
            task = asyncio.ensure_future(follow(("gather", parts)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        case "group":
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(follow(part))


async def fail() -> None:
    raise LookupError("planned")


async def later(request: InterruptRequest) -> str:
    await asyncio.sleep(0)
    return "answer"


def books_of(plan: Plan) -> LocalTurn:
    """Run a plan on a worker's own kind of loop."""
    made: list[LocalTurn] = []

    async def main() -> None:
        local = LocalTurn(later)
        made.append(local)
        await asyncio.gather(local.start(follow, plan), return_exceptions=True)
        await local.end()
        async with asyncio.timeout(10):
            # Those of cancelled callers end in their own time, and do not count while they wait in a hitl call.
            while local.turn.threads or local.turn.blocked:
                await asyncio.sleep(0)

    loop = loops.new_loop()
    try:
        loops.run(loop, main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    return made[0]


@settings(max_examples=150, deadline=None)
@given(plans)
def test_every_identity_is_unique_and_nothing_is_left_counted(plan: Plan) -> None:
    local = books_of(plan)
    paths = local.port.paths() + [asked.step["path"] for asked in local.port.interrupts]
    assert len(set(paths)) == len(paths)
    order = local.turn.order
    assert (order.count, local.turn.threads, local.turn.bodies) == (0, 0, {})
    assert local.turn.tasks == {}


def without_threads(plan: Plan) -> bool:
    return not plan[0].startswith("thread") and all(map(without_threads, plan[1]))


@settings(max_examples=100, deadline=None)
@given(plans.filter(without_threads))
def test_the_same_plan_gets_the_same_identities_again(plan: Plan) -> None:
    def identities() -> list[str]:
        local = books_of(plan)
        return sorted(local.port.paths() + [asked.step["path"] for asked in local.port.interrupts])

    assert identities() == identities()
