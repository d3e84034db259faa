"""hitl.interrupt: what may be asked, and what comes back."""

import asyncio
import inspect
from collections.abc import Coroutine
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from hitl import interrupt
from hitl.errors import InterruptExpired, InvalidAnswer, PayloadTooLarge
from hitl.turn import reasking
from tests.python.support.local import PENDING, LocalTurn
from tests.python.unit.conditions import until, until_waiting


async def ask(answer: Any, payload: Any = None, **options: Any) -> tuple[Any, Any]:
    """What the interrupt returned, and the request that was sent."""
    local = LocalTurn(lambda request: answer)
    value = await local.run(interrupt, {"type": "q"} if payload is None else payload, **options)
    return value, local.port.interrupts[0].request


def test_outside_a_run_it_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match=r"^interrupt\(\) called outside a hitl run\n\nhint: "):
        interrupt({"type": "q"})
    with pytest.raises(RuntimeError, match=r"^interrupt\(\) called outside a hitl run\n\nhint: "):
        interrupt.sync({"type": "q"})


@pytest.mark.parametrize("answer", [False, 0, "", None, [], {}, {"hex": "#000"}, "é", 1.5])
async def test_any_json_value_is_an_answer(answer: Any) -> None:
    value, _ = await ask(answer)
    assert value == answer
    assert type(value) is type(answer)


async def test_the_request_carries_what_was_given() -> None:
    _, request = await ask(
        1, {"type": "color", "prompt": "Pick"}, message="Pick a color", expires_in=60, metadata={"ticket": 7}
    )
    assert request == {
        "type": "color",
        "payload": {"type": "color", "prompt": "Pick"},
        "message": "Pick a color",
        "response_schema": None,
        "allowed_decisions": None,
        "tool_call_id": None,
        "agent": None,
        "args_digest": None,
        "expires_in": 60.0,
        "has_default": False,
        "metadata": {"ticket": 7},
    }


async def test_a_payload_without_a_type_is_unknown() -> None:
    _, request = await ask(1, {"prompt": "?"})
    assert (request["type"], request["payload"]) == ("unknown", {"prompt": "?"})


async def test_the_type_argument_wins_and_the_callers_payload_is_not_changed() -> None:
    payload = {"type": "a", "prompt": "?"}
    _, request = await ask(1, payload, type="b")
    assert (request["type"], request["payload"]) == ("b", {"type": "b", "prompt": "?"})
    assert payload == {"type": "a", "prompt": "?"}


async def test_the_record_says_where_in_the_code_it_was_asked() -> None:
    local = LocalTurn(lambda request: 1)
    lines = []

    async def agent() -> None:
        lines.append(inspect.currentframe().f_lineno + 1)  # type: ignore[union-attr]
        await interrupt({"type": "q"}, key="color")

    await local.run(agent)
    step = local.port.interrupts[0].step
    assert step["location"] == f"test_interrupts.py:{lines[0]}"
    assert (step["kind"], step["name"], step["key"], step["path"]) == ("interrupt", "q", "color", "~color")


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("text", TypeError),
        (None, TypeError),
        ([1], TypeError),
        ({"type": 3}, TypeError),
        ({1: 2}, TypeError),
        ({"data": b"x"}, TypeError),
        ({"data": object()}, TypeError),
        ({"data": float("nan")}, ValueError),
        (CYCLE, ValueError),
        ({"data": "x" * 16_384}, ValueError),
        ({"data": "\ud800"}, ValueError),
    ],
)
async def test_a_payload_that_cannot_be_asked_raises_and_asks_nothing(payload: Any, error: type[Exception]) -> None:
    local = LocalTurn(lambda request: 1)
    with pytest.raises(error):
        await local.run(interrupt, payload)
    assert local.port.interrupts == []


async def test_the_limit_is_the_servers() -> None:
    local = LocalTurn(lambda request: 1)
    local.turn.max_payload = 40_000
    assert await local.run(interrupt, {"data": "x" * 16_384}) == 1


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"type": 3}, TypeError, "type must be a str or None, got int"),
        ({"key": b"k"}, TypeError, "key must be a str"),
        ({"message": 1}, TypeError, "message must be a str"),
        ({"metadata": []}, TypeError, "metadata must be a dict or None, got list"),
        ({"metadata": {"a": b""}}, TypeError, None),
        ({"expires_in": "1h"}, TypeError, "expires_in must be seconds"),
        ({"expires_in": True}, TypeError, "expires_in must be seconds"),
        ({"expires_in": 0}, ValueError, "positive number of seconds"),
        ({"expires_in": float("nan")}, ValueError, "positive number of seconds"),
        ({"response_schema": {"type": "colour"}}, ValueError, None),
        ({"response_schema": 42}, ValueError, "no type that has one"),
    ],
)
async def test_a_wrong_option_is_named_and_asks_nothing(options: Any, error: type[Exception], text: str | None) -> None:
    local = LocalTurn(lambda request: 1)
    with pytest.raises(error, match=text):
        await local.run(interrupt, {"type": "q"}, **options)
    assert local.port.interrupts == []


async def test_a_timedelta_is_seconds() -> None:
    _, request = await ask(1, expires_in=timedelta(minutes=2))
    assert request["expires_in"] == 120.0


# -- response schemas -----------------------------------------------------------------------------------------------


class Choice(BaseModel):
    hex: str
    until: date | None = None

    @field_validator("hex")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "#bad":
            raise ValueError("not this one")
        return value


async def test_a_json_schema_goes_along_and_the_answer_stays_json() -> None:
    schema = {"type": "object", "required": ["hex"]}
    value, request = await ask({"hex": "#000"}, response_schema=schema)
    assert request["response_schema"] == schema
    assert value == {"hex": "#000"}


async def test_a_pydantic_model_gives_the_schema_and_types_the_answer() -> None:
    value, request = await ask({"hex": "#000", "until": "2024-02-01"}, response_schema=Choice)
    assert value == Choice(hex="#000", until=date(2024, 2, 1))
    assert request["response_schema"]["properties"]["hex"] == {"title": "Hex", "type": "string"}


@pytest.mark.parametrize(
    ("schema", "answer", "typed"),
    [
        (bool, True, True),
        (int | None, None, None),
        (list[date], ["2024-02-01"], [date(2024, 2, 1)]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Literal["yes", "no"], "no", "no"),
    ],
)
async def test_any_type_that_pydantic_knows_will_do(schema: Any, answer: Any, typed: Any) -> None:
    value, request = await ask(answer, response_schema=schema)
    assert value == typed
    assert isinstance(request["response_schema"], dict)


BAD, GOOD = {"hex": "#bad"}, {"hex": "#000"}
REFUSAL = "The answer was refused: hex: Value error, not this one"


def answered_with(*answers: Any) -> LocalTurn:
    """A turn whose questions get these answers, one after the other; those after the last stay open."""
    left = list(answers)
    return LocalTurn(lambda request: left.pop(0) if left else PENDING)


async def test_an_answer_that_only_a_validator_refuses_is_asked_for_again() -> None:
    local = answered_with(BAD, BAD, GOOD)
    asking = {"type": "q", "prompt": "Pick"}
    options: dict[str, Any] = {"message": "Pick a color", "metadata": {"ticket": 7}, "response_schema": Choice}
    assert await local.run(interrupt, asking, **options) == Choice(hex="#000")
    first, second, third = [asked.request for asked in local.port.interrupts]
    assert [asked.step["path"] for asked in local.port.interrupts] == ["0#1", "0#1/?2", "0#1/?3"]
    assert second == third == {**first, "message": f"{REFUSAL} Pick a color"}


async def test_what_follows_is_numbered_as_if_it_had_been_asked_once() -> None:
    local = answered_with(BAD, GOOD, "next")

    async def agent() -> list[Any]:
        return [await interrupt({"type": "q"}, response_schema=Choice), await interrupt({"type": "next"})]

    assert await local.run(agent) == [Choice(hex="#000"), "next"]
    assert [asked.step["path"] for asked in local.port.interrupts] == ["0#1", "0#1/?2", "0#2"]


async def test_keyed_questions_of_one_key_are_told_apart_when_they_are_asked_again() -> None:
    local = answered_with(BAD, GOOD, BAD, GOOD)

    async def agent() -> None:
        for _ in range(2):
            assert await interrupt({"type": "q"}, key="color", response_schema=Choice) == Choice(hex="#000")

    await local.run(agent)
    assert [asked.step["path"] for asked in local.port.interrupts] == ["~color", "~color/?2", "~color#2", "~color#2/?2"]


@pytest.mark.parametrize(("passed", "left"), [(45.0, 15.0), (61.0, 0.001)])
async def test_the_time_to_answer_is_not_begun_anew(
    passed: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: 1_000.0)
    monkeypatch.setattr(reasking, "time", clock)
    local = answered_with()
    task = local.start(interrupt, {"type": "q"}, expires_in=60, on_expire="late", response_schema=Choice)
    await until_waiting(local)
    clock.time = lambda: 1_000.0 + passed
    local.port.interrupts[0].give(BAD)
    await until(lambda: len(local.port.interrupts) == 2)
    assert local.port.interrupts[1].request["expires_in"] == left
    assert local.port.interrupts[1].request["has_default"] is True
    local.port.interrupts[1].expire()
    assert await task == "late"


async def test_nor_is_it_by_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    local = answered_with()
    local.start(interrupt, {"type": "q"}, expires_in=60, response_schema=Choice)
    await until_waiting(local)
    await local.end()
    [asked] = [entry for entry in local.port.journal if entry["entry"] == "ask"]
    answered = {"entry": "answer", "at": asked["at"], "interrupt_id": asked["interrupt_id"], "value": BAD}

    monkeypatch.setattr(reasking, "time", SimpleNamespace(time=lambda: asked["at"] / 1000 + 50))
    again = LocalTurn(journal=[*local.port.journal, answered])
    again.start(interrupt, {"type": "q"}, expires_in=60, response_schema=Choice)
    await until(lambda: again.port.interrupts)
    assert again.port.interrupts[0].request["expires_in"] == pytest.approx(10)
    await again.end()


class Strict(BaseModel):
    """What `Choice` was before its validator was written, or after it was changed."""

    hex: str

    @field_validator("hex")
    @classmethod
    def never(cls, value: str) -> str:
        raise ValueError("never")


class Lenient(BaseModel):
    hex: str


async def choose(kind: type[BaseModel], seen: list[Any]) -> None:
    try:
        choice = await interrupt({"type": "q"}, response_schema=kind)
        seen.append(choice.model_dump(include={"hex"}))
    except InvalidAnswer as refused:
        seen.append(str(refused))
    await interrupt({"type": "next"})


async def test_a_replay_takes_a_refusal_from_the_journal_and_not_from_the_validator() -> None:
    local = answered_with(BAD, GOOD, "next")
    await local.run(choose, Choice, [])
    again = LocalTurn(journal=local.port.journal)
    seen: list[Any] = []
    await again.run(choose, Lenient, seen)
    assert seen == [GOOD]
    assert len(again.port.interrupts) == 0


async def test_an_answer_that_was_taken_is_not_asked_for_again_by_a_validator_that_came_later() -> None:
    local = answered_with(GOOD, "next")
    await local.run(choose, Choice, [])
    again = LocalTurn(journal=local.port.journal)
    seen: list[Any] = []
    await again.run(choose, Strict, seen)
    assert seen == ["hex: Value error, never"]  # there is no value of the type; the agent is told
    assert len(again.port.interrupts) == 0


async def test_an_answer_that_came_while_the_turn_was_away_is_asked_for_again_after_the_replay() -> None:
    async def both() -> Any:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(interrupt({"type": "a"}, response_schema=Choice))
            second = group.create_task(interrupt({"type": "b"}))
        return [first.result(), second.result()]

    local = answered_with()
    local.start(both)
    await until_waiting(local)
    first, second = local.port.interrupts
    journal = list(local.port.journal)
    for asked, value in ((first, BAD), (second, "b")):
        journal.append({"entry": "answer", "at": journal[-1]["at"], "interrupt_id": asked.id, "value": value})
    await local.end()

    again = LocalTurn(lambda request: GOOD, journal=journal)
    assert await again.run(both) == [Choice(hex="#000"), "b"]
    assert [asked.request["message"] for asked in again.port.interrupts] == [REFUSAL]


async def picks(schema: Any, in_tasks: bool = False) -> Any:
    """What was picked twice, and what was asked after both."""

    def pick(of: int) -> Coroutine[Any, Any, Any]:
        return interrupt({"type": "pick", "of": of}, message="Pick", response_schema=schema)

    picked = await asyncio.gather(pick(1), pick(2)) if in_tasks else [await pick(1), await pick(2)]
    return [*picked, await interrupt({"type": "next"})]


OLD, NEW = {"enum": ["a", "b"]}, {"enum": ["a", "c"]}
NOT_OF_NEW = 'The answer was refused: answer: "b" is not one of "a" or "c" Pick'


@pytest.mark.parametrize("in_tasks", [False, True])
async def test_an_answer_that_another_schema_allowed_is_asked_for_again(in_tasks: bool) -> None:
    """As one that another type allowed is: what the agent gets is what it has asked for."""
    local = answered_with()
    local.start(picks, OLD, in_tasks)
    await until_waiting(local)
    first = local.port.interrupts[0]
    answer = {"entry": "answer", "at": local.port.journal[-1]["at"], "interrupt_id": first.id, "value": "b"}
    journal = [*local.port.journal, answer]
    await local.end()

    again = LocalTurn(lambda request: "c", journal=journal, code="code-2")
    for asked in again.port.interrupts:
        asked.give("a")
    assert (await again.run(picks, NEW, in_tasks))[0] == "c"
    assert again.port.interrupts[1 if in_tasks else 0].request["message"] == NOT_OF_NEW

    whole = LocalTurn(journal=again.port.journal, code="code-3")
    assert (await whole.run(picks, {"enum": []}, in_tasks))[0] == "c"
    assert len(whole.port.interrupts) == 0


@pytest.mark.parametrize("code", ["code-1", "code-2"])
@pytest.mark.parametrize("in_tasks", [False, True])
async def test_an_answer_that_was_taken_stays_whatever_the_schema_is_now(in_tasks: bool, code: str) -> None:
    local = LocalTurn(lambda request: "b")
    assert await local.run(picks, OLD, in_tasks) == ["b", "b", "b"]
    journal = local.port.journal
    for cut in range(len(journal) - 1, len(journal) + 1):  # after the next question, and after its answer
        again = LocalTurn(journal=journal[:cut], code=code)
        for asked in again.port.interrupts:
            asked.give("b")
        assert await again.run(picks, NEW, in_tasks) == ["b", "b", "b"]
        assert [asked.request["type"] for asked in again.port.interrupts] in ([], ["next"])


OPTIONS = [{"label": label, "description": label} for label in "ab"]
QUESTION = {"question": "Which?", "header": "Which", "options": OPTIONS, "multiSelect": False}


@pytest.mark.parametrize("schema", [bool, {"type": "boolean"}])
@pytest.mark.parametrize("payload", [{"type": "tool_approval"}, {"type": "user_input", "questions": [QUESTION]}])
async def test_a_type_that_brings_its_answer_takes_no_other_schema(payload: Any, schema: Any) -> None:
    """The server goes by the type: the agent would ask again and again for what nobody may answer."""
    local = LocalTurn(lambda request: True)
    with pytest.raises(ValueError, match=f"takes no response_schema for type '{payload['type']}'"):
        await local.run(interrupt, payload, response_schema=schema)
    assert local.port.interrupts == []

    async def asked(schema: Any) -> Any:
        return await interrupt(payload, response_schema=schema)

    await local.end()
    recorded = LocalTurn(lambda request: {"approved": True})
    await recorded.run(asked, None)
    again = LocalTurn(journal=recorded.port.journal)
    assert await again.run(asked, {"type": "boolean"}) == {"approved": True}  # as a release did that asked so


@pytest.mark.parametrize("questions", ["Which?", [{"question": "Which?"}]])
async def test_a_borrowed_name_without_questions_takes_one(questions: Any) -> None:
    assert (await ask(True, {"type": "user_input", "questions": questions}, response_schema=bool))[0] is True


# -- expiry, refusal, withdrawal ------------------------------------------------------------------------------------


def expire(request: Any) -> Any:
    raise InterruptExpired("nobody answered in time")


async def test_an_expired_interrupt_raises() -> None:
    local = LocalTurn(expire)
    with pytest.raises(InterruptExpired):
        await local.run(interrupt, {"type": "q"}, expires_in=1)
    assert local.port.interrupts[0].request["has_default"] is False


@pytest.mark.parametrize("default", [None, False, "later", object()])
async def test_or_returns_the_default_even_none(default: Any) -> None:
    local = LocalTurn(expire)
    assert await local.run(interrupt, {"type": "q"}, expires_in=1, on_expire=default) is default
    assert local.port.interrupts[0].request["has_default"] is True


async def test_a_refused_question_raises_the_matching_error() -> None:
    def refuse(request: Any) -> Any:
        raise PayloadTooLarge("17,000 bytes, the limit is 16,384")

    with pytest.raises(ValueError, match="17,000 bytes"):
        await LocalTurn(refuse).run(interrupt, {"type": "q"})


async def test_a_cancelled_waiter_withdraws_its_question() -> None:
    local = LocalTurn(lambda request: PENDING)
    task = local.start(interrupt, {"type": "q"})
    await until_waiting(local)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert local.port.interrupts[0].withdrawn


async def test_the_losers_of_a_race_are_withdrawn_and_only_they() -> None:
    local = LocalTurn(lambda request: "first" if request["type"] == "fast" else PENDING)

    async def agent() -> Any:
        asks = [asyncio.ensure_future(interrupt({"type": name})) for name in ("fast", "slow")]
        done, rest = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
        for other in rest:
            other.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        return done.pop().result()

    assert await local.run(agent) == "first"
    assert [asked.withdrawn for asked in local.port.interrupts] == [False, True]


async def test_several_at_once_each_get_their_own_answer() -> None:
    local = LocalTurn(lambda request: PENDING)

    async def agent() -> Any:
        return await asyncio.gather(*(interrupt({"type": "q", "n": n}) for n in range(3)))

    task = local.start(agent)
    await until_waiting(local)
    assert len(local.port.interrupts) == 3
    for asked in reversed(local.port.interrupts):
        asked.give(asked.request["payload"]["n"] * 10)
    assert await task == [0, 10, 20]
