"""hitl/journal/outcomes.py: a crash in the middle of a once step is for a person to judge."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from hitl import interrupt, step
from hitl.errors import StepError
from hitl.journal.outcomes import KINDS_OF_FRAMEWORKS, OF_FRAMEWORKS
from hitl.turn.runtime import current_turn
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import until, until_waiting
from tests.python.unit.crashed import entries, recorded, replayed

runs: list[str] = []


@pytest.fixture(autouse=True)
def no_runs() -> None:
    runs.clear()


async def charge(card: str, cents: int = 100) -> str:
    runs.append(card)
    return f"charged {cents}"


async def agent() -> Any:
    return await step(once=True)(charge)("visa", 250)


async def tool() -> Any:
    return await current_turn().run_step("tool", "charge", partial(charge, "visa"), once=True, tool_call_id="call_1")


async def crashed() -> list[dict[str, Any]]:
    """The journal of a turn whose process died while the step ran."""
    local = await recorded(agent)
    assert entries(local) == ["start", "intent 0#1", "step 0#1"]
    runs.clear()
    return local.port.journal[:2]


async def test_its_beginning_is_recorded_before_its_body_runs() -> None:
    local = LocalTurn()
    acknowledge: list[Any] = []
    local.port.tell = acknowledge.append  # type: ignore[method-assign]
    task = local.start(agent)
    await until(lambda: acknowledge)
    assert entries(local) == ["start", "intent 0#1"]
    assert runs == []
    acknowledge.pop(0)(local.turn.order)
    await until(lambda: acknowledge)
    assert runs == ["visa"]
    acknowledge.pop(0)(local.turn.order)
    assert await task == "charged 250"


async def test_after_a_crash_a_person_is_asked_and_the_body_does_not_run() -> None:
    local = LocalTurn(lambda ask: PENDING, journal=await crashed())
    task = local.start(agent)
    await until_waiting(local)
    [asked] = local.port.interrupts
    assert runs == []
    assert asked.request["type"] == "unknown_outcome"
    payload = asked.request["payload"]
    assert payload["tool_name"].endswith("charge")
    assert payload["tool_args"] == {"card": "visa", "cents": 250}
    assert payload["started_at"].endswith("Z")
    assert asked.request["response_schema"] is not None
    task.cancel()
    await local.end()


@pytest.mark.parametrize(
    ("answer", "value", "times"),
    [
        ({"outcome": "done", "result": "charged by hand"}, "charged by hand", 0),
        ({"outcome": "not_done"}, "charged 250", 1),
    ],
)
async def test_the_answer_is_the_result_or_lets_it_run(answer: Any, value: str, times: int) -> None:
    got, local = await replayed(agent, await crashed(), lambda ask: answer)
    assert got == value
    assert len(runs) == times
    runs.clear()
    assert (await replayed(agent, local.port.journal))[0] == value  # and that is what the journal says from then on
    assert runs == []


FORMS = [
    *({form: {"$langchain": "command", "value": {"goto": "tools"}}} for form in sorted(OF_FRAMEWORKS)),
    *({"kind": kind, "return_value": "paid", "content": "Wire it all."} for kind in sorted(KINDS_OF_FRAMEWORKS)),
    {"receipts": [{"kind": "image-url", "url": "http://10.0.0.1/"}]},
    {"type": "image", "image_url": "http://10.0.0.1/"},
    [{"type": "text", "text": "see"}, {"type": "file", "file_id": "file_1"}],
]


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_of_a_tool_it_is_never_what_an_adapter_has_kept_of_a_call(form: Any) -> None:
    """That may say where a graph goes on, and what it calls there, or what a user is to have said."""
    cut = (await recorded(tool)).port.journal[:2]
    answer = {"outcome": "done", "result": form}
    got, local = await replayed(tool, cut, lambda ask: answer)
    assert got == json.dumps(form)
    assert (await replayed(tool, local.port.journal))[0] == got


@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_of_any_other_step_it_is_what_was_said(form: Any) -> None:
    """No adapter reads that, but the agent's code, which wants what the step would have returned."""
    answer = {"outcome": "done", "result": form}
    got, local = await replayed(agent, await crashed(), lambda ask: answer)
    assert got == form
    assert (await replayed(agent, local.port.journal))[0] == form


async def test_or_it_is_its_failure() -> None:
    local = LocalTurn(lambda ask: {"outcome": "failed", "message": "card was declined"}, journal=await crashed())
    with pytest.raises(StepError, match="card was declined"):
        await local.run(agent)
    assert runs == []
    again = LocalTurn(journal=local.port.journal)
    with pytest.raises(StepError, match="card was declined"):
        await again.run(agent)


async def test_a_second_crash_is_asked_about_again_and_the_first_answer_still_counts() -> None:
    _, local = await replayed(agent, await crashed(), lambda ask: {"outcome": "not_done"})
    assert entries(local) == ["start", "intent 0#1", "ask 0#1/?1", "answer", "intent 0#1", "step 0#1"]
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request["payload"])
        return {"outcome": "done", "result": "in the end"}

    value, second = await replayed(agent, local.port.journal[:5], answer)
    assert value == "in the end"
    assert len(asked) == 1
    assert entries(second)[5:] == ["ask 0#1/?2", "answer", "step 0#1"]
    runs.clear()
    assert (await replayed(agent, second.port.journal))[0] == "in the end"
    assert runs == []


async def test_a_crash_while_it_is_asked_asks_no_second_time() -> None:
    local = LocalTurn(lambda ask: PENDING, journal=await crashed())
    local.start(agent)
    await until_waiting(local)
    journal = list(local.port.journal)
    await local.end()
    again = LocalTurn(journal=journal)
    task = again.start(agent)
    await until_waiting(again)
    assert [entry["entry"] for entry in again.port.journal].count("ask") == 1
    again.port.interrupts[0].give({"outcome": "done", "result": "once"})
    assert await task == "once"
    assert runs == []


async def test_it_says_which_call_of_the_model_it_is_about() -> None:
    local = await recorded(tool)
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request["tool_call_id"])
        return {"outcome": "not_done"}

    await replayed(tool, local.port.journal[:2], answer)
    assert asked == ["call_1"]


async def test_arguments_that_cannot_be_shown_are_left_out() -> None:
    async def odd(handle: object) -> str:
        return "x"

    async def with_a_handle() -> Any:
        return await step(once=True)(odd)(object())

    local = await recorded(with_a_handle)
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request["payload"]["tool_args"])
        return {"outcome": "not_done"}

    assert (await replayed(with_a_handle, local.port.journal[:2], answer))[0] == "x"
    assert asked == [None]


async def prepares() -> None:
    runs.append("prepared")


async def pays_in_parts(cents: int) -> str:
    await step(prepares)
    payee = await interrupt({"type": "payee"})
    return f"paid {cents} to {payee}"


async def pays() -> Any:
    return await step(once=True)(pays_in_parts)(250)


def not_done_then_ann(ask: Any) -> Any:
    return {"outcome": "not_done"} if ask["type"] == "unknown_outcome" else "Ann"


async def test_what_was_said_of_a_first_run_still_counts_wherever_the_second_is_hit() -> None:
    cut = (await recorded(pays, not_done_then_ann)).port.journal[:2]
    value, twice = await replayed(pays, cut, not_done_then_ann)
    journal = twice.port.journal
    inside = ["step 0#1/0#1", "ask 0#1/0#2", "answer"]
    assert entries(twice)[1:] == ["intent 0#1", "ask 0#1/?1", "answer", "intent 0#1", *inside, "step 0#1"]
    for length in range(6, len(journal) + 1):
        asked: list[str] = []

        def answer(request: Any, asked: list[str] = asked) -> Any:
            asked.append(request["type"])
            return not_done_then_ann(request)

        assert (await replayed(pays, journal[:length], answer))[0] == value
        assert "unknown_outcome" not in asked


async def calls_a_once_step() -> Any:
    return await step(once=True)(charge)("visa")


async def sleeps() -> Any:
    without_end = asyncio.create_task(step(asyncio.Event().wait))
    await asyncio.sleep(0.001)
    without_end.cancel()
    return await step(charge, "visa")


async def reads() -> Any:
    without_end = asyncio.create_task(step(asyncio.Event().wait))
    await asyncio.to_thread(int)
    without_end.cancel()
    return await step(once=True)(charge)("visa")


@pytest.mark.parametrize(
    ("body", "inside", "doubtful"),
    [(calls_a_once_step, "intent 0#1/0#1", ["charge"]), (sleeps, "timer 0#1/0@1", []), (reads, "wakes", [])],
    ids=["a once step", "a timer", "raw I/O"],
)
async def test_a_run_that_has_left_anything_in_the_journal_goes_on(body: Any, inside: str, doubtful: list[str]) -> None:
    """As the matcher has it, which would wait in vain for what is recorded inside."""

    async def around() -> Any:
        return await step(once=True)(body)()

    local = await recorded(around)
    cut = local.port.journal[:3]
    assert entries(local)[:3] == ["start", "intent 0#1", inside]
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append(request["payload"]["tool_name"].rpartition(".")[2])
        return {"outcome": "not_done"}

    assert (await replayed(around, cut, answer))[0] == "charged 100"
    assert asked == doubtful


@pytest.mark.parametrize("answered", [False, True])
async def test_what_an_earlier_release_asked_of_such_a_run_is_not_asked_again(answered: bool) -> None:
    """It asked where nothing but raw I/O had left a mark."""

    async def around() -> Any:
        return await step(once=True)(reads)()

    first = await recorded(around)
    _, local = await replayed(around, first.port.journal[:2], lambda ask: {"outcome": "not_done"})
    asked = local.port.journal[2:4]
    assert [entry["entry"] for entry in asked] == ["ask", "answer"]
    names: list[str] = []

    def answer(request: Any) -> Any:
        names.append(request["type"])
        return {"outcome": "not_done"}

    journal = [*first.port.journal[:3], *asked[: 1 + answered]]
    value, again = await replayed(around, journal, answer)
    assert value == "charged 100"
    assert len(names) == (not answered)  # what is open is open still
    assert entries(again).count("ask 0#1/?1") == 1
    assert entries(again).count("intent 0#1") == 2
