"""Where a run goes on: in the store that its turn lives in, however that was given."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hitl
from hitl import RunResult, RunState
from hitl.errors import RunStateError
from tests.python.runs.support import Files

GIVEN: dict[str, Callable[[Path], Any]] = {
    "a path": lambda path: path,
    "a relative path": lambda path: Path(path.name),
    "a name": lambda path: path.name,
    "an address": lambda path: f"sqlite:{path}",
    "a relative address": lambda path: f"sqlite:{path.name}",
    "a store": hitl.Store,
}


@pytest.fixture(params=GIVEN)
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return GIVEN[request.param](tmp_path / "runs.db")


async def ask(files: Files, store: Any, *paths: str) -> tuple[Any, RunState]:
    """The agent, and the state in which it asks for the deletion of each path, in the session ``ann``."""
    agent = files.agent(*paths or ["/a"])
    paused = await hitl.run(agent, "clean up", store=store, session="ann")
    assert paused.state is not None
    return agent, paused.state


def approved(state: RunState) -> RunState:
    return state.approve(state.interrupts[0])


async def stream(agent: Any, state: RunState) -> RunResult:
    stream = hitl.stream(agent, state)
    async for _ in stream:
        pass
    return stream.result


@pytest.mark.parametrize("go_on", [hitl.run, stream])
async def test_a_state_goes_on_in_its_store_from_every_directory(
    given: Any, go_on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files()
    agent, state = await ask(files, given)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert (await go_on(agent, approved(state))).output == "done"
    assert await RunState.from_store(agent, tmp_path / "runs.db", "ann") is None
    with pytest.raises(hitl.AlreadyResumed):
        await go_on(agent, state)
    assert files.deleted == ["/a"]
    assert list(elsewhere.iterdir()) == []


def test_a_blocking_run_goes_on_in_its_store(tmp_path: Path) -> None:
    files = Files()
    agent = files.agent("/a")
    paused = hitl.run_sync(agent, "clean up", store=tmp_path / "runs.db")
    assert paused.state is not None
    assert hitl.run_sync(agent, approved(paused.state)).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        hitl.run_sync(agent, paused.state)
    assert files.deleted == ["/a"]


async def test_every_pause_of_a_run_is_in_its_store(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "runs.db", "/a", "/b")
    paused = await hitl.run(agent, approved(state))
    assert (paused.status, files.deleted) == ("interrupted", ["/a"])
    stored = await RunState.from_store(agent, tmp_path / "runs.db", "ann")
    assert stored is not None
    assert stored.interrupts == paused.interrupts
    assert (await hitl.run(agent, approved(stored))).output == "done"
    assert files.deleted == ["/a", "/b"]


async def test_a_state_out_of_a_store_goes_on_there(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    agent, state = await ask(files, given)
    stored = await RunState.from_store(agent, given, "ann")
    assert stored is not None
    monkeypatch.chdir("/")
    assert (await hitl.run(agent, approved(stored))).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, approved(state))
    assert files.deleted == ["/a"]


async def test_the_state_of_a_refused_message_goes_on_in_its_store(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "runs.db")
    with pytest.raises(hitl.RunInterrupted) as refused:
        await hitl.run(agent, "hello?", store=tmp_path / "runs.db", session="ann")
    assert (await hitl.run(agent, approved(refused.value.state))).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, approved(state))
    assert files.deleted == ["/a"]


# -- as text ------------------------------------------------------------------------------------------------------


async def test_a_text_says_that_its_turn_lives_in_a_store_and_not_where(given: Any, tmp_path: Path) -> None:
    agent, state = await ask(Files(), given)
    text = state.to_string()
    assert str(tmp_path) not in text
    assert "runs.db" not in text
    other = await ask(Files(), tmp_path / "other.db")
    again = await RunState.from_store(agent, given, "ann")
    assert again is not None
    ids = [json.loads(one.to_string())["store"] for one in (state, again, other[1])]
    assert ids[0] == ids[1] != ids[2]


async def test_a_text_does_not_go_on_without_its_store(given: Any, tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, given)
    read = RunState.from_string(agent, approved(state).to_string())
    for go_on in (hitl.run, stream):
        with pytest.raises(RunStateError, match="lives in a store") as refused:
            await go_on(agent, read)
        assert refused.value.code == "run_state_store_missing"
    assert files.deleted == []
    assert (await hitl.run(agent, read, store=given)).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, read, store=given)
    assert files.deleted == ["/a"]


async def test_a_text_that_went_on_in_its_store_is_a_state_of_that_store(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "runs.db", "/a", "/b")
    read = RunState.from_string(agent, approved(state).to_string())
    paused = await hitl.run(agent, read, store=tmp_path / "runs.db")
    assert paused.state is not None
    assert (await hitl.run(agent, approved(paused.state))).output == "done"
    assert await RunState.from_store(agent, tmp_path / "runs.db", "ann") is None
    assert files.deleted == ["/a", "/b"]


async def test_a_copy_in_memory_has_to_be_asked_for(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "runs.db", "/a", "/b")
    asked = state.interrupts
    read = RunState.from_string(agent, approved(state).to_string())
    copy = await hitl.run(agent, read, store="memory")
    assert (copy.status, files.deleted) == ("interrupted", ["/a"])
    # It is a run without a store from here on, as text too.
    assert copy.state is not None
    on = RunState.from_string(agent, approved(copy.state).to_string())
    assert (await hitl.run(agent, on)).output == "done"
    stored = await RunState.from_store(agent, tmp_path / "runs.db", "ann")
    assert stored is not None
    assert stored.interrupts == asked


async def test_another_store_takes_a_run_in_and_has_it_from_then_on(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "one.db", "/a", "/b")
    read = RunState.from_string(agent, approved(state).to_string())
    paused = await hitl.run(agent, read, store=tmp_path / "two.db")
    assert paused.state is not None
    assert (await hitl.run(agent, approved(paused.state))).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, read, store=tmp_path / "two.db")
    assert files.deleted == ["/a", "/b"]


async def test_a_run_in_a_store_in_memory_is_found_as_long_as_the_object_is_there() -> None:
    files = Files()
    store = hitl.Store()
    agent, state = await ask(files, store)
    read = RunState.from_string(agent, approved(state).to_string())
    with pytest.raises(RunStateError, match="lives in a store"):
        await hitl.run(agent, read)
    assert (await hitl.run(agent, read, store=store)).output == "done"
    with pytest.raises(hitl.AlreadyResumed):
        await hitl.run(agent, state)
    assert files.deleted == ["/a"]


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_run_that_nobody_keeps_goes_on_wherever_its_text_is_read(store: str | None) -> None:
    files = Files()
    agent = files.agent("/a")
    paused = await hitl.run(agent, "clean up", store=store)
    assert paused.state is not None
    text = approved(paused.state).to_string()
    assert "store" not in json.loads(text)
    assert (await hitl.run(agent, RunState.from_string(agent, text))).output == "done"
    assert files.deleted == ["/a"]


# -- sessions -----------------------------------------------------------------------------------------------------


async def test_a_session_beside_a_state_has_to_be_its_own(tmp_path: Path) -> None:
    files = Files()
    agent, state = await ask(files, tmp_path / "runs.db")
    approved(state)
    for options in ({}, {"store": tmp_path / "runs.db"}):
        with pytest.raises(RunStateError, match="not of 'bob'") as refused:
            await hitl.run(agent, state, session="bob", **options)
        assert refused.value.code == "run_state_other_session"
    assert files.deleted == []
    assert (await hitl.run(agent, state, session="ann")).output == "done"


async def test_a_session_beside_a_state_may_be_its_id(tmp_path: Path) -> None:
    agent, state = await ask(Files(), tmp_path / "runs.db")
    assert (await hitl.run(agent, approved(state), session=state.session_id)).output == "done"


@pytest.mark.parametrize("given", [7, b"customer 7", uuid.uuid4()])
async def test_the_name_of_a_session_is_text(given: Any) -> None:
    files = Files()
    with pytest.raises(TypeError, match="session must be a str, got"):
        await hitl.run(files.agent("/a"), "clean up", store="memory", session=given)


async def test_a_session_beside_a_message_needs_a_store() -> None:
    with pytest.raises(TypeError, match="needs store="):
        await hitl.run(Files().agent("/a"), "clean up", session="ann")


async def test_a_closed_store_says_so_without_its_password() -> None:
    store = hitl.Store("postgresql://shop:geheim@db.invalid/shop")
    await store.close()
    for use in (store.open(), hitl.run(Files().agent("/a"), "clean up", store=store)):
        with pytest.raises(ValueError, match=r"^the store postgresql://shop:\*\*\*@db.invalid/shop is closed$"):
            await use


@pytest.mark.parametrize("is_blocking", [True, False])
async def test_a_store_that_is_closed_while_it_is_opened_is_not_open_then(tmp_path: Path, is_blocking: bool) -> None:
    path = tmp_path / "runs.db"
    store = hitl.Store(path)

    async def open_it() -> Any:
        return await (asyncio.to_thread(store.open_blocking) if is_blocking else store.open())

    opening = asyncio.ensure_future(open_it())
    while not path.exists():  # it is on its way
        await asyncio.sleep(0)
    await store.close()
    with suppress(ValueError):
        await opening
    assert store._core is None
