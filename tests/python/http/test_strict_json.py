"""A body says one thing, to everybody who reads it: what is there twice or would be rounded changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.python.support.api import Api, Json, ok, problem, result, tool_results

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

HUGE = "340282366920938463463374607431768211457"
PRECISE = "0.1234567890123456789012345"


def post(api: Api, path: str, body: str) -> httpx2.Response:
    return api.http.post(path, content=body.encode(), headers={"content-type": "application/json"})


def refused(response: httpx2.Response, code: str) -> Json:
    told = problem(response, 422)
    assert told["code"] == code
    (error,) = told["errors"]
    assert error["type"] == (code if code != "invalid_request" else "too_deep")
    return error  # type: ignore[no-any-return]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def asked(puppet: Api, ledger: Path) -> Json:
    """A session that asks whether 100 cents may be charged."""
    return puppet.call_tools([{"name": "charge", "args": {"ledger": str(ledger), "cents": 100}}])


def answer(api: Api, session: Json, members: str) -> httpx2.Response:
    interrupt_id = session["interrupts"][0]["interrupt_id"]
    return post(api, f"/sessions/{session['session_id']}/resume", f'{{"interrupt_id": "{interrupt_id}", {members}}}')


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ('"value": {"approved": false, "approved": true}', ["value", "approved"]),
        ('"value": {"approved": false}, "value": {"approved": true}', ["value"]),
        ('"value": {"type": "reject", "type": "approve"}', ["value", "type"]),
        ('"value": {"approved": false, "\\u0061pproved": true}', ["value", "approved"]),
        ('"value": {"type": "edit", "args": {"cents": 1, "cents": 9}}', ["value", "args", "cents"]),
        ('"interrupt_id": "x", "value": {"approved": true}', ["interrupt_id"]),
    ],
)
def test_an_answer_that_says_two_things_changes_nothing(
    puppet: Api, asked: Json, ledger: Path, members: str, place: list[str]
) -> None:
    assert refused(answer(puppet, asked, members), "duplicate_member")["loc"] == ["body", *place]
    assert puppet.session(asked["session_id"])["interrupts"] == asked["interrupts"]
    assert not ledger.exists()


@pytest.mark.parametrize("number", [HUGE, "18446744073709551616", PRECISE, "1e400", "9007199254740993.0"])
def test_an_edit_that_would_be_rounded_changes_nothing(puppet: Api, asked: Json, ledger: Path, number: str) -> None:
    edit = f'"value": {{"type": "edit", "args": {{"ledger": "{ledger}", "cents": {number}}}}}'
    told = refused(answer(puppet, asked, edit), "number_out_of_range")
    assert number in told["msg"]
    assert puppet.session(asked["session_id"])["interrupts"] == asked["interrupts"]


@pytest.mark.parametrize("number", ["0.1", "1e2", "1.0", "0.10", "9223372036854775807", "-2.5e-7"])
def test_other_numbers_are_taken_however_they_are_written(api: Api, number: str) -> None:
    session_id, interrupt_id = api.ask({"type": "number"})
    body = f'{{"interrupt_id": "{interrupt_id}", "value": {number}}}'
    ok(post(api, f"/sessions/{session_id}/resume", body))
    assert result(api.wait(session_id)) == json.loads(number)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sessions", '{"rules": [{"name": "a", "effect": "ask", "effect": "allow", "tool": "*"}]}'),
        ("/sessions", '{"run_state": {"version": 1, "version": 2}}'),
        ("/sessions", '{"state": [{"role": "user", "content": "a", "content": "b"}]}'),
        ("/sign-in", '{"key": "a", "key": "b"}'),
    ],
)
def test_so_it_is_with_every_body(api: Api, path: str, body: str) -> None:
    refused(post(api, path, body), "duplicate_member")
    refused(post(api, path, f'{{"x": [{HUGE}]}}'), "number_out_of_range")


def test_and_with_messages(api: Api) -> None:
    session_id = api.create()
    message = '{"role": "user", "content": "echo 1", "user_params": {"a": 1, "a": 2}}'
    refused(post(api, f"/sessions/{session_id}/messages", message), "duplicate_member")
    assert ok(api.get(f"/sessions/{session_id}/messages")) == []


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class TestDepth:
    def test_an_answer_that_is_too_deep_is_still_asked_for(self, api: Api) -> None:
        session_id, interrupt_id = api.ask({"type": "anything"})
        told = problem(api.resume(session_id, interrupt_id, nested(101)), 422)
        assert (told["code"], told["errors"][0]["type"]) == ("invalid_answer", "too_deep")
        ok(api.resume(session_id, interrupt_id, nested(100)))
        assert result(api.wait(session_id)) == nested(100)

    def test_so_is_an_edit(self, puppet: Api, asked: Json, ledger: Path) -> None:
        edit = {"type": "edit", "args": {"ledger": str(ledger), "cents": nested(99)}}
        told = problem(puppet.resume(asked["session_id"], asked["interrupts"][0]["interrupt_id"], edit), 422)
        assert told["errors"][0]["type"] == "too_deep"
        assert puppet.session(asked["session_id"])["interrupts"] == asked["interrupts"]

    @pytest.mark.parametrize("depth", [111, 119, 126, 1000])
    def test_whatever_cannot_be_stored_is_refused_and_not_an_internal_error(self, serve: Serve, depth: int) -> None:
        api = serve(store="memory").api
        deep = "[" * (depth - 1) + "]" * (depth - 1)
        for path, body in [
            ("/sessions", f'{{"state": {deep}}}'),
            (f"/sessions/{api.create()}/messages", f'{{"role": "user", "content": "echo 1", "user_params": {deep}}}'),
        ]:
            refused(post(api, path, body), "invalid_request")

    def test_what_is_read_can_be_stored_and_told(self, api: Api) -> None:
        params = {"a": nested(108)}
        session_id = api.create([{"role": "user", "content": "x", "user_params": {"a": nested(106)}}])
        assert result(api.run(session_id, "echo", 1, user_params=params)) == 1
        messages = ok(api.get(f"/sessions/{session_id}/messages"))
        assert messages[1]["user_params"] == params


def test_arguments_of_a_model_that_say_two_things_are_an_error_for_it(puppet: Api, ledger: Path) -> None:
    session = puppet.call_tools([{"name": "note", "args": {"ledger": str(ledger), "text": int(HUGE)}}])
    (told,) = tool_results(session)
    assert "text: " + HUGE in json.dumps(told)
    assert not ledger.exists()
