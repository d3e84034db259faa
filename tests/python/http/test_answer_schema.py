"""`response_schema`: an answer is checked before anything is stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.python.support.api import Api, ok, problem, result

COLOUR = {
    "type": "object",
    "properties": {"hex": {"type": "string", "pattern": "^#[0-9a-f]{6}$"}, "alpha": {"type": "number", "maximum": 1}},
    "required": ["hex"],
    "additionalProperties": False,
}
PICKER = {"type": "color_picker", "prompt": "Pick"}


def test_a_valid_answer_counts(api: Api) -> None:
    session_id, interrupt_id = api.ask(PICKER, response_schema=COLOUR)
    assert api.session(session_id)["interrupts"][0]["response_schema"] == COLOUR
    ok(api.resume(session_id, interrupt_id, {"hex": "#ff6b6b"}))
    assert result(api.wait(session_id)) == {"hex": "#ff6b6b"}


@pytest.mark.parametrize(
    ("value", "loc"),
    [
        (None, []),
        ("#ff6b6b", []),
        ({}, []),
        ({"hex": "red"}, ["hex"]),
        ({"hex": 7}, ["hex"]),
        ({"hex": "#ff6b6b", "alpha": 2}, ["alpha"]),
        ({"hex": "#ff6b6b", "name": "coral"}, []),
    ],
)
def test_an_invalid_answer_is_refused_with_its_place_and_stays_answerable(api: Api, value: Any, loc: list[str]) -> None:
    session_id, interrupt_id = api.ask(PICKER, response_schema=COLOUR)
    before = api.session(session_id)
    refusal = problem(api.resume(session_id, interrupt_id, value), 422)
    assert refusal["errors"]
    assert any(error["loc"][len(error["loc"]) - len(loc) :] == loc for error in refusal["errors"]), refusal
    assert api.session(session_id) == before
    ok(api.resume(session_id, interrupt_id, {"hex": "#000000"}))
    assert result(api.wait(session_id)) == {"hex": "#000000"}


def test_an_invalid_answer_never_wins_over_a_valid_one(api: Api) -> None:
    session_id, interrupt_id = api.ask(PICKER, response_schema=COLOUR)
    problem(api.resume(session_id, interrupt_id, "red", Idempotency_Key="k"), 422)
    ok(api.resume(session_id, interrupt_id, {"hex": "#000000"}, Idempotency_Key="k"))


@pytest.mark.parametrize("value", [False, 0, "", None, []])
def test_falsy_answers_are_checked_like_others(api: Api, value: Any) -> None:
    session_id, interrupt_id = api.ask(PICKER, response_schema={"const": value})
    problem(api.resume(session_id, interrupt_id, "truthy"), 422)
    ok(api.resume(session_id, interrupt_id, value))
    assert result(api.wait(session_id)) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"properties": []},
        {"pattern": "("},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"deep": {"items": {"$ref": "file:///etc/passwd"}}}},
    ],
)
def test_an_invalid_schema_is_the_agents_mistake(api: Api, schema: Any) -> None:
    session = api.run(api.create(), "ask_with", {"payload": PICKER, "response_schema": schema})
    assert session["status"] == "error"
    assert session["error"].split(":")[0] in ("ValueError", "InvalidSchema")


def test_a_pattern_that_would_take_for_ever_elsewhere_runs_in_linear_time(api: Api) -> None:
    session_id, interrupt_id = api.ask(PICKER, response_schema={"type": "string", "pattern": "^(a+)+$"})
    problem(api.resume(session_id, interrupt_id, "a" * 50_000 + "b"), 422)
    ok(api.resume(session_id, interrupt_id, "aaa"))


def test_an_answer_that_a_schema_could_be_tried_on_for_ever_is_refused_at_once(api: Api) -> None:
    kinds = [{"type": "object", "properties": {"left": {"$ref": "#"}, "op": {"const": op}}} for op in ("and", "or")]
    formula = {"anyOf": [*kinds, {"type": "string"}]}
    session_id, interrupt_id = api.ask(PICKER, response_schema=formula)
    deep: Any = 1
    for _ in range(90):
        deep = {"left": deep, "op": "or"}
    refusal = problem(api.resume(session_id, interrupt_id, deep), 422)
    assert [error["type"] for error in refusal["errors"]] == ["invalid"]
    ok(api.resume(session_id, interrupt_id, {"left": "a", "op": "and"}))
    assert result(api.wait(session_id)) == {"left": "a", "op": "and"}
