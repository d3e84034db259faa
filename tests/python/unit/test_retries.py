"""Tries of a step: what is recorded of them, and what becomes of the turn when they are used up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl import ChatMessage, TransientError, interrupt, step
from hitl.errors import HitlError, ModelUnavailable
from hitl.models import ModelReply, ModelRequest
from hitl.models.recording import record_model_call
from hitl.turn.retrying import TryFailed, is_transient
from tests.python.support.local import PENDING, Journal, LocalTurn
from tests.python.unit.conditions import until, until_waiting
from tests.python.unit.crashed import Agent, replayed

SOON = 0.001


class Away:
    """A service that fails ``times`` times, and then answers."""

    def __init__(self, times: int, error: type[Exception] = TransientError) -> None:
        self.times = times
        self.calls = 0
        self.error = error

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls > self.times:
            return "here"
        raise TransientError("away", SOON) if self.error is TransientError else self.error("away")


def asking(service: Away, **options: Any) -> Agent:
    fetch = step(**{"retries": 2, **options})(service)

    async def agent() -> Any:
        return await fetch()

    return agent


def retried(journal: Journal) -> Journal:
    """The journal as a retry makes it."""
    return [*journal, {"at": journal[-1]["at"], "entry": "taken", "code": "code-1", "python": "3.11"}]


async def suspended(agent: Agent, journal: Journal | None = None, answers: Any = None) -> LocalTurn:
    """A run of the agent that is suspended."""
    local = LocalTurn(answers, journal=journal)
    with pytest.raises(ModelUnavailable):
        await local.run(agent)
    return local


async def test_what_passes_is_tried_again_and_every_failed_try_and_pause_is_in_the_journal() -> None:
    service = Away(2)
    local = LocalTurn()
    assert await local.run(asking(service)) == "here"
    assert service.calls == 3
    assert [entry["entry"] for entry in local.port.journal[1:]] == ["step", "timer", "step", "timer", "step"]
    failed = [result["error"] for _, result in local.port.steps[:2]]
    assert [error["message"] for error in failed] == ["TransientError: away (tried again after 0.001 s)"] * 2
    assert local.port.steps[2][1] == {"value": "here"}


async def test_a_replay_from_every_entry_waits_as_often_and_asks_no_more_than_is_left() -> None:
    local = LocalTurn()
    await local.run(asking(Away(2)))
    for cut in range(2, len(local.port.journal) + 1):
        journal = local.port.journal[:cut]
        over = sum(entry["entry"] == "step" for entry in journal)
        service = Away(2 - over)
        got, again = await replayed(asking(service), journal)
        assert (got, service.calls) == ("here", 3 - over)
        assert again.port.paths() == local.port.paths()


async def test_a_replay_goes_by_what_was_recorded_and_not_by_the_settings_of_now() -> None:
    local = LocalTurn()
    await local.run(asking(Away(2)))
    service = Away(0)
    assert (await replayed(asking(service, retries=0), local.port.journal))[0] == "here"
    assert service.calls == 0


async def test_the_last_try_is_not_delivered_and_a_retry_has_all_tries_again() -> None:
    service = Away(5)
    caught: list[BaseException] = []
    fetch = step(retries=2)(service)

    async def agent() -> str:
        try:
            return await fetch()
        except Exception as error:
            caught.append(error)
            raise

    local = LocalTurn()
    with pytest.raises(ModelUnavailable, match=r"^step '.*' was tried 3 times, last: TransientError: away$"):
        await local.run(agent)
    assert (service.calls, caught, len(local.port.steps)) == (3, [], 2)
    got, again = await replayed(agent, retried(local.port.journal))
    assert (got, service.calls, caught) == ("here", 6, [])
    # And it replays exactly, with the retry in the middle of its journal.
    assert (await replayed(asking(Away(0)), again.port.journal))[0] == "here"


async def test_a_crash_is_no_retry() -> None:
    service = Away(9)
    local = await suspended(asking(service))
    await suspended(asking(service), local.port.journal)
    assert service.calls == 4  # the last try, once more


async def test_with_raise_the_last_error_is_an_outcome_like_any() -> None:
    service = Away(9, ConnectionError)
    local = LocalTurn()
    with pytest.raises(ConnectionError, match="away"):
        await local.run(asking(service, retries=0, transient="raise"))
    assert local.port.steps[0][1]["error"]["type"] == "ConnectionError"
    assert service.calls == 1


async def test_what_does_not_pass_is_raised_at_once() -> None:
    service = Away(9, LookupError)
    with pytest.raises(LookupError):
        await LocalTurn().run(asking(service))
    assert service.calls == 1


async def test_without_retries_a_step_raises_what_it_raises() -> None:
    service = Away(9)

    async def agent() -> str:
        return await step(service)

    with pytest.raises(TransientError):
        await LocalTurn().run(agent)
    assert service.calls == 1


async def test_the_turn_is_suspended_when_its_other_bodies_have_ended_and_keeps_what_they_did() -> None:
    release, done = asyncio.Event(), list[str]()

    async def slow() -> str:
        await release.wait()
        done.append("slow")
        return "slow"

    service = Away(1)

    async def agent() -> list[str]:
        return await asyncio.gather(step(slow), step(retries=0)(service)())

    local = LocalTurn()
    task = local.start(agent)
    await until(lambda: local.turn.stalled)
    assert not local.turn.failure.done()
    release.set()
    await until(local.turn.failure.done)
    await local.end()
    assert [result for _, result in local.port.steps] == [{"value": "slow"}]
    assert task.done()
    got, _ = await replayed(agent, retried(local.port.journal))
    assert (got, done, service.calls) == (["slow", "here"], ["slow"], 2)


async def test_with_a_question_open_the_turn_waits_and_tries_again_with_the_answer() -> None:
    service = Away(1)

    async def agent() -> list[Any]:
        return await asyncio.gather(interrupt({"type": "go"}), step(retries=0)(service)())

    local = LocalTurn(lambda _: PENDING)
    task = local.start(agent)
    await until_waiting(local)
    assert not local.turn.failure.done()
    journal = list(local.port.journal)
    local.port.interrupts[0].give("yes")
    assert await task == ["yes", "here"]
    assert service.calls == 2
    # The same where the turn was parked meanwhile.
    service.calls = 1
    got, _ = await replayed(agent, journal, lambda _: "yes")
    assert (got, service.calls) == (["yes", "here"], 2)


async def test_a_question_that_is_answered_leaves_nothing_to_wait_for() -> None:
    service = Away(9)

    async def agent() -> list[Any]:
        return await asyncio.gather(interrupt({"type": "go"}), step(retries=0)(service)())

    local = await suspended(agent, answers=lambda _: "yes")
    assert [entry["entry"] for entry in local.port.journal].count("answer") == 1
    got, _ = await replayed(agent_of(["yes"], Away(0)), retried(local.port.journal))
    assert got == ["yes", "here"]


def agent_of(answers: list[str], service: Away) -> Agent:
    async def agent() -> list[Any]:
        return await asyncio.gather(interrupt({"type": "go"}), step(retries=0)(service)())

    return agent


async def test_a_question_that_was_answered_before_a_replay_is_none_to_wait_for() -> None:
    service = Away(9)
    fetch = step(retries=0)(service)

    async def agent() -> str:
        await interrupt({"type": "go"})
        return await fetch()

    local = await suspended(agent, answers=lambda _: "yes")
    await suspended(agent, retried(local.port.journal))
    assert service.calls == 2


async def test_a_body_with_steps_of_its_own_is_not_tried_again() -> None:
    ran: list[str] = []

    async def inner() -> None:
        ran.append("inner")

    async def outer() -> None:
        await step(inner)
        raise TransientError("away", SOON)

    async def agent() -> None:
        await step(retries=3)(outer)()

    with pytest.raises(TransientError):
        await LocalTurn().run(agent)
    assert ran == ["inner"]


async def test_below_a_once_step_nothing_is_suspended() -> None:
    service = Away(9)

    async def charge() -> str:
        return await step(retries=1)(service)()

    async def agent() -> str:
        return await step(once=True)(charge)()

    with pytest.raises(TransientError):
        await LocalTurn().run(agent)
    assert service.calls == 2


async def test_a_step_that_was_given_up_is_not_why_the_turn_fails() -> None:
    async def agent() -> str:
        away = asyncio.ensure_future(step(retries=0)(Away(9))())
        here = asyncio.ensure_future(step(asyncio.sleep, 0.02, "here"))
        await asyncio.wait([away, here], return_when=asyncio.FIRST_COMPLETED)
        away.cancel()
        return await here

    assert await LocalTurn().run(agent) == "here"


async def test_whoever_asks_for_a_very_long_pause_gets_a_person_instead() -> None:
    async def fetch() -> None:
        raise TransientError("closed for today", 86_400)

    async def agent() -> None:
        await step(retries=5)(fetch)()

    with pytest.raises(ModelUnavailable, match="was tried once, last: TransientError: closed for today"):
        await LocalTurn().run(agent)


async def test_what_a_later_try_says_replaces_what_an_earlier_one_said() -> None:
    class Cut:
        calls = 0

        async def complete(self, request: ModelRequest) -> ModelReply:
            self.calls += 1
            assert request.on_delta is not None
            request.on_delta({"content": f"try {self.calls}"})
            if self.calls == 1:
                raise TransientError("cut off", SOON)
            return ModelReply(ChatMessage.assistant_message(content="try 2"))

    client, local = Cut(), LocalTurn()

    async def agent() -> str | None:
        request = ModelRequest("m", [], on_delta=lambda delta: local.turn.delta({"content": delta["content"]}))
        return (await record_model_call(local.turn, client, client.complete, request)).message.content

    assert await local.run(agent) == "try 2"
    assert local.port.deltas == [("0#1", 1, {"content": "try 1"}), ("0#1", 2, {"content": "try 2"})]


def test_a_once_step_takes_no_retries() -> None:
    with pytest.raises(ValueError, match="a once step is never tried again"):
        step(once=True, retries=1)
    with pytest.raises(ValueError, match="retries must be a whole number of 0 or more, got -1"):
        step(retries=-1)
    with pytest.raises(ValueError, match="transient must be 'suspend' or 'raise'"):
        step(retries=1, transient="ignore")  # type: ignore[call-overload]


class Refused(Exception):
    """As HTTP libraries have them."""

    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)
        self.status_code = status_code


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_these_statuses_pass(status: int) -> None:
    assert is_transient(Refused(status)) is True


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_these_do_not(status: int) -> None:
    assert is_transient(Refused(status)) is False


def test_a_failed_try_is_an_error_with_a_code() -> None:
    assert issubclass(TryFailed, HitlError)
    assert TryFailed("x", 1.5, 1, "0#1").code == "try_failed"
