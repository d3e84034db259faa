"""The tables of docs/http.md are the requests, records and events that there are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.python.docs.blocks import ROOT
from tests.python.support.api import ok
from tests.python.support.served import Served

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    with Served("playbook") as server:
        described: Json = ok(server.api.get("/openapi.json"))
        return described


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    assert section, f"the page has no {heading!r}"
    lines = re.split(r"\n#+ ", section)[0].splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    assert rows, f"there is no table below {heading!r}"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in rows]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([\w.-]+)`", cell))


def members(document: Json, schema: Json) -> set[str]:
    """Of whatever a schema lets through: of each of its alternatives and parts."""
    if "$ref" in schema:
        return members(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    parts = [part for word in ("oneOf", "allOf", "anyOf") for part in schema.get(word, [])]
    return set(schema.get("properties", {})).union(*(members(document, part) for part in parts))


def operations(document: Json) -> dict[str, Json]:
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def scope_of(operation: Json) -> str:
    security = operation.get("security")
    if security is None:
        return "-"
    (needed,) = (one["key"] for one in security if "key" in one)
    return f"`{needed[0]}`" if needed else "any"


def test_every_request_is_listed_with_its_scope_and_its_reply(document: Json) -> None:
    listed = {
        request.strip("`"): (scope, *reply.split(", ")) for request, scope, reply, *_ in table("## Every request")
    }
    described = {
        request: (scope_of(operation), *(status for status in operation["responses"] if status.startswith("2")))
        for request, operation in operations(document).items()
    }
    assert listed == described


def test_what_a_request_takes_is_what_it_takes(document: Json) -> None:
    message = members(document, {"$ref": "#/components/schemas/ChatMessage"})
    for request, _, _, takes, _ in table("## Every request"):
        operation = operations(document)[request.strip("`")]
        asked = {one["name"] for one in operation.get("parameters", []) if one["in"] != "path"}
        for content in operation.get("requestBody", {}).get("content", {}).values():
            asked |= members(document, content["schema"])
        if "the members of a message" in takes:
            asked -= message
        assert names(takes) == asked, request


@pytest.mark.parametrize(
    ("heading", "record"),
    [("### A session", "SessionResponse"), ("### A message", "ChatMessage"), ("### An interrupt", "Interrupt")],
)
def test_every_member_of_a_record_is_listed(document: Json, heading: str, record: str) -> None:
    listed = [names(row[0]) for row in table(heading)]
    assert set().union(*listed) == members(document, {"$ref": f"#/components/schemas/{record}"})


def test_every_member_of_a_session_in_a_list_is_named(document: Json) -> None:
    (sentence,) = re.findall(r"^In `GET /sessions` each has (.+)$", PAGE, re.MULTILINE)
    assert names(sentence) == members(document, {"$ref": "#/components/schemas/SessionSummary"})


def test_every_member_of_a_refusal_is_named(document: Json) -> None:
    section = PAGE.partition("\n### A refusal\n")[2].partition("\n## ")[0]
    assert members(document, {"$ref": "#/components/schemas/Problem"}) <= names(section)


def test_every_event_that_a_webhook_can_be_told_of_is_listed(document: Json) -> None:
    listed = set().union(*(names(row[0]) for row in table("## Events")))
    told = {name for name in document["components"]["schemas"]["EventName"]["enum"] if "." in name}
    assert told <= listed
