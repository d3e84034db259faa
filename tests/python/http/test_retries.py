"""A served turn whose model is away: suspended with what it did, taken up again on request, over SIGKILL too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, ok, problem
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

AGENT = "tests.python.support.away_agent:agent"

Start = Callable[..., Served]


@pytest.fixture
def start(serve: Serve, tmp_path: Path, store: str) -> Start:
    """A server of the agent whose model is away, until the file is removed."""
    (tmp_path / "away").touch()

    def begin(pause: float = 0.001, retries: int = 1, **options: Any) -> Served:
        environment = {"FOLDER": str(tmp_path), "PAUSE": str(pause), "RETRIES": str(retries)}
        return serve(AGENT, **{"store": store, "environment": environment, **options})

    return begin


def lines(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def retry(api: Api, session_id: str) -> None:
    assert api.post(f"/sessions/{session_id}/retry").status_code == 202


def nothing_in_memory(api: Api) -> bool:
    return "\nhitl_turns_in_memory 0\n" in api.get("/metrics").text


def approved(api: Api, session_id: str | None = None, **body: Any) -> str:
    """A session whose payment was approved."""
    session_id = session_id or api.create()
    assert api.send(session_id, "pay", **body).status_code == 202
    asked = api.wait(session_id)["interrupts"][0]["interrupt_id"]
    ok(api.resume(session_id, asked, {"approved": True}))
    return session_id


def test_the_session_says_that_it_can_be_retried_and_the_retry_pays_nothing_twice(
    start: Start, tmp_path: Path, isolation: str
) -> None:
    api = start(isolation=isolation).api
    session_id = approved(api)
    away = api.wait(session_id)
    assert (away["status"], away["error_code"], away["response"]) == ("error", "model_unavailable", None)
    assert away["error"].startswith(
        "ModelUnavailable: model 'scripted' was tried 2 times, last: TransientError: the mo"
    )
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []
    retry(api, session_id)
    assert api.wait(session_id)["error_code"] == "model_unavailable"
    (tmp_path / "away").unlink()
    retry(api, session_id)
    assert api.wait(session_id)["response"]["content"] == "all paid"
    assert (lines(tmp_path, "paid"), lines(tmp_path, "tries")) == (1, 4)


def test_a_suspended_turn_waits_for_its_retry_over_a_kill(start: Start, tmp_path: Path) -> None:
    server = start()
    session_id = approved(server.api)
    assert server.api.wait(session_id)["error_code"] == "model_unavailable"
    server.kill()
    (tmp_path / "away").unlink()
    api = start().api
    assert api.session(session_id)["status"] == "error"
    retry(api, session_id)
    assert api.wait(session_id)["response"]["content"] == "all paid"
    assert lines(tmp_path, "paid") == 1


def test_a_pause_between_two_tries_goes_on_over_a_kill_and_takes_no_memory(start: Start, tmp_path: Path) -> None:
    # On a busy machine the first pause may be over before the server is killed.
    for pause in (5, 45):
        for told in ("paid", "tries"):
            (tmp_path / told).unlink(missing_ok=True)
        options = {"pause": pause, "park_after": 0, "store": f"sqlite:{tmp_path / f'{pause}.db'}"}
        server = start(**options)
        session_id = approved(server.api)
        eventually(lambda: lines(tmp_path, "tries") > 0, True)
        eventually(partial(nothing_in_memory, server.api), True)
        status = server.api.session(session_id)["status"]
        server.kill()
        if lines(tmp_path, "tries") == 1:
            break
    assert status == "running"
    (tmp_path / "away").unlink()
    api = start(**options).api
    assert api.wait(session_id)["response"]["content"] == "all paid"
    assert (lines(tmp_path, "paid"), lines(tmp_path, "tries")) == (1, 1)


def test_a_message_instead_of_a_retry_gives_the_turn_up(start: Start, tmp_path: Path) -> None:
    api = start().api
    session_id = approved(api)
    assert api.wait(session_id)["error_code"] == "model_unavailable"
    assert api.send(session_id, "pay").status_code == 202
    # Its script goes on behind the payment, of which it has been told.
    assert api.wait(session_id)["response"]["content"] == "all paid"
    assert lines(tmp_path, "paid") == 1
    assert problem(api.post(f"/sessions/{session_id}/retry"), 409)["code"] == "nothing_to_retry"


def test_a_webhook_hears_of_the_suspension_and_of_the_end_of_the_retry(start: Start, tmp_path: Path) -> None:
    with Receiver() as receiver:
        api = start(webhook_allow_private=True).api
        session_id = approved(api, webhook={"url": receiver.url})
        assert api.wait(session_id)["status"] == "error"
        assert receiver.next().body["status"] == "error"
        (tmp_path / "away").unlink()
        retry(api, session_id)
        assert receiver.next().body["status"] == "idle"
