"""Resume tokens and the stores behind them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hitl.planner import MemoryKey, PlannerFinish, StateStore, SupportsPlannerClaims, SupportsPlannerState
from hitl.testing import ScriptExhausted
from tests.python.planner.writing import APPROVED, DONE, Planner, SharedStore, Store, Written, paused, write


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture(params=[None, Store, SharedStore], ids=["memory", "store", "shared store"])
def planner(request: pytest.FixtureRequest, written: Written) -> Planner:
    store = None if request.param is None else request.param()
    return Planner([write("a"), DONE], written.spec, state_store=store)


async def test_tokens_cannot_be_guessed(planner: Planner) -> None:
    tokens = [paused(await planner.run("go")).resume_token for _ in range(10)]
    assert len(set(tokens)) == 10
    assert all(len(token) >= 43 for token in tokens), "32 random bytes"


async def test_an_unknown_token_is_a_key_error(planner: Planner) -> None:
    with pytest.raises(KeyError):
        await planner.resume("nope")


async def test_a_token_is_good_once(planner: Planner, written: Written) -> None:
    pause = paused(await planner.run("go"))
    await planner.resume(pause.resume_token)
    requests = len(planner.client.requests)
    with pytest.raises(KeyError):
        await planner.resume(pause.resume_token)
    assert len(planner.client.requests) == requests


async def test_of_many_at_once_one_resumes(planner: Planner) -> None:
    pause = paused(await planner.run("go"))
    attempts = (planner.resume(pause.resume_token) for _ in range(10))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(result, PlannerFinish) for result in results) == 1
    assert sum(isinstance(result, KeyError) for result in results) == 9
    assert len(planner.client.requests) == 2


async def test_a_token_is_a_str(planner: Planner) -> None:
    with pytest.raises(TypeError):
        await planner.resume(paused(await planner.run("go")))  # type: ignore[arg-type]


async def test_an_answer_that_is_no_json_leaves_the_token_usable(planner: Planner) -> None:
    pause = paused(await planner.run("go"))
    with pytest.raises(TypeError):
        await planner.resume(pause.resume_token, object())
    assert isinstance(await planner.resume(pause.resume_token, "x"), PlannerFinish)


async def test_a_model_that_cannot_be_reached_leaves_the_token_usable(planner: Planner) -> None:
    pause = paused(await planner.run("go"))
    answers, planner.client._replies = planner.client._replies, planner.client._replies[:1]
    with pytest.raises(ScriptExhausted):
        await planner.resume(pause.resume_token, "yes")
    planner.client._replies = answers
    assert await planner.resume(pause.resume_token, "yes") == PlannerFinish("answer_complete", "done")
    with pytest.raises(KeyError):
        await planner.resume(pause.resume_token, "yes")


async def test_a_model_that_fails_later_does_not(written: Written) -> None:
    planner = Planner([write("a"), write("b")], written.spec)
    pause = paused(await planner.run("go"))
    with pytest.raises(ScriptExhausted):
        await planner.resume(pause.resume_token, "yes", tool_context=APPROVED)
    assert written == ["b"]
    with pytest.raises(KeyError):
        await planner.resume(pause.resume_token, "yes", tool_context=APPROVED)
    assert written == ["b"]


# -- stores ----------------------------------------------------------------------------------------------------------


def test_protocols_say_what_a_store_has() -> None:
    assert isinstance(Store(), SupportsPlannerState)
    assert isinstance(Store(), StateStore)
    assert not isinstance(Store(), SupportsPlannerClaims)
    assert isinstance(SharedStore(), SupportsPlannerClaims)


async def test_a_store_may_inherit_the_protocol(written: Written) -> None:
    class Inheriting(Store, StateStore):
        pass

    planner = Planner([write("a"), DONE], written.spec, state_store=Inheriting())
    assert isinstance(await planner.resume(paused(await planner.run("go")).resume_token), PlannerFinish)


async def test_another_planner_resumes_from_the_store(written: Written) -> None:
    store = Store()
    pause = paused(await Planner([write("a"), DONE], written.spec, state_store=store).run("go"))
    other = Planner([write("a"), DONE], written.spec, state_store=store)
    assert isinstance(await other.resume(pause.resume_token, "yes"), PlannerFinish)
    assert other.told[0]["user_input"] == "yes"


async def test_without_a_store_another_planner_knows_nothing(written: Written) -> None:
    pause = paused(await Planner([write("a"), DONE], written.spec).run("go"))
    with pytest.raises(KeyError):
        await Planner([write("a"), DONE], written.spec).resume(pause.resume_token)


async def test_a_used_token_leaves_a_tombstone(written: Written) -> None:
    store = Store()
    planner = Planner([write("a"), DONE], written.spec, state_store=store)
    pause = paused(await planner.run("go"))
    await planner.resume(pause.resume_token)
    assert set(store.records[pause.resume_token]) == {"version", "resumed_at"}
    with pytest.raises(KeyError):
        await Planner([write("a"), DONE], written.spec, state_store=store).resume(pause.resume_token)


async def test_a_store_that_claims_lets_one_process_resume(written: Written) -> None:
    store = SharedStore()
    pause = paused(await Planner([write("a"), DONE], written.spec, state_store=store).run("go"))
    others = [Planner([write("a"), DONE], written.spec, state_store=store) for _ in range(5)]
    attempts = (other.resume(pause.resume_token) for other in others)
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["KeyError"] * 4 + ["PlannerFinish"]
    assert sum(len(other.client.requests) for other in others) == 1


async def test_a_claim_that_says_nothing_is_none(written: Written) -> None:
    class Silent(Store):
        async def claim_planner_state(self, token: str) -> None:
            return None

    planner = Planner([write("a"), DONE], written.spec, state_store=Silent())
    pause = paused(await planner.run("go"))
    with pytest.raises(KeyError):
        await planner.resume(pause.resume_token)


@pytest.mark.parametrize("make", [Store, SharedStore])
async def test_a_store_that_cannot_save_raises_and_no_pause_is_returned(written: Written, make: Any) -> None:
    store = make()
    store.fail_save = True
    planner = Planner([write("a"), DONE], written.spec, state_store=store)
    with pytest.raises(OSError, match="disk full"):
        await planner.run("go")
    assert planner.events == []


@pytest.mark.parametrize("make", [Store, SharedStore])
async def test_a_store_that_fails_at_the_resume_raises_and_the_token_stays_usable(written: Written, make: Any) -> None:
    store = make()
    planner = Planner([write("a"), DONE], written.spec, state_store=store)
    pause = paused(await planner.run("go"))
    store.fail_save = True
    with pytest.raises(OSError, match="disk full"):
        await planner.resume(pause.resume_token)
    assert len(planner.client.requests) == 1
    store.fail_save, store.fail_load = False, True
    with pytest.raises(OSError, match="not there"):
        await planner.resume(pause.resume_token)
    store.fail_load = False
    assert isinstance(await planner.resume(pause.resume_token), PlannerFinish)


class Once(SharedStore):
    """A store of which one thing fails, once."""

    def __init__(self, fails: str) -> None:
        super().__init__()
        self.fails = fails

    def _fail(self, what: str) -> None:
        if what == self.fails:
            self.fails = ""
            raise OSError("disk full")

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        self._fail("use" if "resumed_at" in payload else "keep" if self.records else "")
        await super().save_planner_state(token, payload)

    async def claim_planner_state(self, token: str) -> bool:
        self._fail("claim")
        return await super().claim_planner_state(token)


@pytest.mark.parametrize("fails", ["claim", "use", "keep"])
@pytest.mark.parametrize("shared", [True, False])
async def test_a_store_that_fails_once_at_a_resume_loses_no_pause(written: Written, fails: str, shared: bool) -> None:
    store = Once(fails)
    if not shared:
        store.claim_planner_state = None  # type: ignore[method-assign,assignment]
    planner = Planner([write("a", "b"), DONE], written.spec, state_store=store)
    first = paused(await planner.run("go"))
    if shared or fails != "claim":
        with pytest.raises(OSError, match="disk full"):
            await planner.resume(first.resume_token, "yes")
    second = paused(await planner.resume(first.resume_token, "yes"))
    assert (first.payload["preview"], second.payload["preview"]) == ("a", "b")
    assert len(planner.client.requests) == 1
    assert isinstance(await planner.resume(second.resume_token, "yes"), PlannerFinish)
    for used in (first, second):
        with pytest.raises(KeyError):
            await planner.resume(used.resume_token, "yes")


async def test_a_store_without_planner_state_keeps_none_and_says_so(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    class Events:
        async def save_event(self, event: Any) -> None: ...

    planner = Planner([write("a"), DONE], written.spec, state_store=Events())
    assert "Events keeps no planner state" in caplog.text
    pause = paused(await planner.run("go"))
    assert isinstance(await planner.resume(pause.resume_token), PlannerFinish)


@pytest.mark.parametrize("name", ["save_planner_state", "load_planner_state"])
def test_half_a_store_is_a_type_error(written: Written, name: str) -> None:
    half = type("Half", (), {name: lambda *args: None})()
    with pytest.raises(TypeError, match="save_planner_state and load_planner_state"):
        Planner([DONE], written.spec, state_store=half)


async def test_what_is_kept_is_json_and_says_its_version(written: Written) -> None:
    store = Store()
    planner = Planner([write("a"), DONE], written.spec, state_store=store)
    pause = paused(await planner.run("go", tool_context={"session_id": "s"}))
    (record,) = store.records.values()
    assert record["version"] == 1
    assert pause.resume_token not in json.dumps(record)
    store.records[pause.resume_token] = {**record, "version": 2}
    with pytest.raises(ValueError, match="version 2"):
        await planner.resume(pause.resume_token)


# -- memory keys -----------------------------------------------------------------------------------------------------


async def test_a_pause_belongs_to_its_memory_key(planner: Planner) -> None:
    mine = MemoryKey(session_id="s", tenant_id="t")
    pause = paused(await planner.run("go", memory_key=mine))
    for other in (MemoryKey(session_id="s"), MemoryKey(session_id="s", tenant_id="u")):
        with pytest.raises(KeyError):
            await planner.resume(pause.resume_token, memory_key=other)
    assert isinstance(await planner.resume(pause.resume_token, memory_key=mine), PlannerFinish)


async def test_resume_may_leave_the_memory_key_out_and_it_holds_for_the_next_pause(written: Written) -> None:
    planner = Planner([write("a", "b"), DONE], written.spec)
    first = paused(await planner.run("go", memory_key=MemoryKey(session_id="s")))
    second = paused(await planner.resume(first.resume_token))
    with pytest.raises(KeyError):
        await planner.resume(second.resume_token, memory_key=MemoryKey(session_id="other"))
    assert isinstance(await planner.resume(second.resume_token), PlannerFinish)
