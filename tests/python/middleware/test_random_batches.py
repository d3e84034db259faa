"""Random batches, decided at random in both modes: each call has exactly the effect that was decided about it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.middleware import Command
from tests.python.middleware.files import DONE, Office, calls, office_agent, thread, told

DECISIONS = st.sampled_from(["approve", "edit", "reject", "respond"])
TOOLS = st.sampled_from(["delete_file", "look"])
EVERY = ["approve", "edit", "reject", "respond"]
CONFIG = thread()


def decision(kind: str, path: str) -> dict[str, Any]:
    """A decision about a call with this path that can be told from every other."""
    extra: dict[str, dict[str, Any]] = {
        "edit": {"args": {"path": f"{path}-edited"}},
        "reject": {"reason": f"not {path}"},
        "respond": {"message": f"{path} by hand"},
    }
    return {"type": kind, **extra.get(kind, {})}


def outcome(kind: str, path: str) -> str:
    """What the model must be told of it."""
    if kind == "edit":
        edited = f"{path}-edited"
        return f'deleted {edited}\n\n[A person changed the arguments of this call to {{"path":"{edited}"}}]'
    return {
        "approve": f"deleted {path}",
        "reject": f'{{"error": "User rejected delete_file: not {path}"}}',
        "respond": f"{path} by hand",
    }[kind]


@settings(max_examples=25, deadline=None)
@given(
    plan=st.lists(st.tuples(TOOLS, DECISIONS, st.booleans()), min_size=1, max_size=5),
    seed=st.integers(0, 2**16),
    mode=st.sampled_from(["batched", "per_call"]),
)
def test_each_call_has_the_effect_that_was_decided(plan: list[tuple[str, str, bool]], seed: int, mode: Any) -> None:
    """`plan`: for each call the tool, what is decided where it waits, and whether its policy is slow."""
    office, chance = Office(), random.Random(seed)
    paths = [f"/{number}" for number in range(len(plan))]
    slow = {path for path, (_, _, is_slow) in zip(paths, plan, strict=True) if is_slow}

    async def when(request: Any) -> bool:
        if request.tool_call["args"]["path"] in slow:
            await asyncio.sleep(chance.random() / 100)
        return True

    agent = office_agent(
        office,
        calls(*((name, {"path": path}) for path, (name, _, _) in zip(paths, plan, strict=True))),
        DONE,
        interrupt_on={"delete_file": {"allowed_decisions": EVERY, "when": when}},
        interrupt_mode=mode,
    )
    decided = {path: kind for path, (name, kind, _) in zip(paths, plan, strict=True) if name == "delete_file"}

    result = agent.invoke("go", CONFIG)
    while "__interrupt__" in result:
        result = agent.invoke(Command(resume=answer(result["__interrupt__"], decided, mode, chance)), CONFIG)

    looked = [("look", path) for path, (name, _, _) in zip(paths, plan, strict=True) if name == "look"]
    deleted = [
        ("delete_file", path if kind == "approve" else f"{path}-edited")
        for path, kind in decided.items()
        if kind in ("approve", "edit")
    ]
    assert sorted(office.effects) == sorted(looked + deleted)
    assert told(result) == [
        outcome(kind, path) if name == "delete_file" else f"{path}: 3 files"
        for path, (name, kind, _) in zip(paths, plan, strict=True)
    ]


def answer(waiting: list[Any], decided: dict[str, str], mode: str, chance: random.Random) -> dict[str, Any]:
    """All of a batch; of single calls some, in any order."""
    if mode == "batched":
        (batch,) = waiting
        shown = [request["args"]["path"] for request in batch["value"]["action_requests"]]
        assert shown == list(decided)
        return {"decisions": [decision(decided[path], path) for path in shown]}
    some = chance.sample(waiting, chance.randint(1, len(waiting)))
    paths = {entry.id: entry["value"]["action_requests"][0]["args"]["path"] for entry in some}
    return {id: decision(decided[path], path) for id, path in paths.items()}
