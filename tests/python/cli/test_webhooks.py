"""`hitl webhooks` at a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from hitl.cli import exit_codes
from tests.python.cli.conftest import Run
from tests.python.support.api import Api, ok
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("playbook", isolation="task", webhook_allow_private=True, webhook_retries=0) as server:
        yield server


def given_up(api: Api, receiver: Receiver) -> str:
    """The session of a notice that the receiver did not take."""
    session_id = api.create()
    api.run(session_id, "echo", 1, webhook={"url": f"{receiver.url}?key=secret"})
    eventually(lambda: len(ok(api.get("/webhooks", status="failed", session_id=session_id))), 1)
    return session_id


def test_what_was_given_up_is_listed_and_retried(served: Served, hitl: Run) -> None:
    with Receiver(500) as receiver:
        session_id = given_up(served.api, receiver)
        listed = hitl("webhooks", "list", "--url", served.url, "--status", "failed", "--session", session_id)
        (notice,) = json.loads(listed.stdout)
        assert (notice["status"], notice["attempts"], notice["url"]) == ("failed", 1, receiver.url)
        assert "secret" not in listed.stdout
        retried = hitl("webhooks", "retry", "--url", served.url, notice["notice_id"])
        assert [entry["notice_id"] for entry in json.loads(retried.stdout)] == [notice["notice_id"]]
        receiver.next()
        assert receiver.next().headers["webhook-id"] == notice["notice_id"]
    status = lambda: ok(served.api.get("/webhooks", session_id=session_id))[0]["status"]  # noqa: E731
    eventually(status, "delivered")


def test_everything_that_was_given_up_is_retried(served: Served, hitl: Run) -> None:
    with Receiver(500, 500) as receiver:
        sessions = {given_up(served.api, receiver) for _ in range(2)}
        retried = hitl("webhooks", "retry", "--all", "--url", served.url)
        assert sessions <= {notice["session_id"] for notice in json.loads(retried.stdout)}
        assert {receiver.next().body["session_id"] for _ in range(4)} == sessions


def test_what_cannot_be_retried_is_an_error(served: Served, hitl: Run) -> None:
    unknown = hitl("webhooks", "retry", "--url", served.url, "msg_1")
    assert (unknown.returncode, unknown.stdout) == (exit_codes.NOT_FOUND, "")
    assert "Unknown notice_id: msg_1" in unknown.stderr
    assert hitl("webhooks", "retry", "--url", served.url).returncode == exit_codes.USAGE
    assert hitl("webhooks", "retry", "--url", served.url, "--all", "msg_1").returncode == exit_codes.USAGE
