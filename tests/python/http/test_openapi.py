"""/openapi.json is true: whatever is sent, answers are documented ones; and /docs shows it without the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import positive_data_acceptance

from hitl import _core, client
from hitl.runs.interrupts import Interrupt
from tests.python.support.api import Api, ok
from tests.python.support.served import Served

ENDPOINTS = {
    "/health": {"get"},
    "/healthz": {"get"},
    "/readyz": {"get"},
    "/metrics": {"get"},
    "/sessions": {"get", "post"},
    "/sessions/{session_id}": {"get", "put", "delete"},
    "/sessions/{session_id}/messages": {"get", "post"},
    "/sessions/{session_id}/resume": {"post"},
    "/sessions/{session_id}/cancel": {"post"},
    "/sessions/{session_id}/retry": {"post"},
    "/sessions/{session_id}/run-state": {"get"},
    "/sessions/{session_id}/grants": {"get"},
    "/sessions/{session_id}/grants/{grant_id}": {"delete"},
    "/sessions/{session_id}/events": {"get"},
    "/events": {"get"},
    "/interrupts": {"get"},
    "/interrupts/{interrupt_id}": {"get"},
    "/interrupts/{interrupt_id}/resume": {"post"},
    "/interrupts/{interrupt_id}/claim": {"post", "delete"},
    "/interrupts/{interrupt_id}/snooze": {"post", "delete"},
    "/sessions/{session_id}/journal": {"get"},
    "/audit": {"get"},
    "/webhooks": {"get"},
    "/webhooks/{notice_id}/retry": {"post"},
    "/me": {"get"},
    "/keys": {"get", "post"},
    "/keys/{key_id}": {"delete"},
    "/sign-in": {"post"},
    "/sign-out": {"post"},
}
PAGES = {"/docs", "/openapi.json"}
# A server that has been given its first key wants one of everybody from then on.
ABOUT_KEYS = {"/me", "/keys", "/keys/{key_id}", "/sign-in", "/sign-out"}
# Here a request may be right by its schema and still be refused: an id that is no UUID, a webhook to a private
# address, an interrupt answered twice in one request, an expression that is none, a cursor of another order or turn.
BEYOND_A_SCHEMA = {
    ("/sessions", "get"),
    ("/sessions/{session_id}/journal", "get"),
    ("/sessions", "post"),
    ("/sessions/{session_id}", "put"),
    ("/sessions/{session_id}/messages", "post"),
    ("/sessions/{session_id}/resume", "post"),
    # A server without keys wants to know who claims it.
    ("/interrupts/{interrupt_id}/claim", "post"),
}
STREAMS = {"/sessions/{session_id}/events", "/events"}


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Served]:
    """A server of its own: what is thrown at it is random."""
    with Served("playbook", allow_custom_ids=True, isolation="task") as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """One with keys, and one of them that may do everything."""
    store = f"sqlite:{tmp_path_factory.mktemp('guarded') / 'hitl.db'}"
    _, secret = _core.create_key(store, "root", ["admin"], [])
    with Served("playbook", store=store, isolation="task") as server:
        yield server, secret


@pytest.fixture(scope="module")
def schema(fuzzed: Served) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json")


def _names(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_endpoint_is_described(api: Api) -> None:
    document = ok(api.get("/openapi.json"))
    assert document["openapi"].startswith("3.")
    described = {
        _names(path): {method for method in item if method in {"get", "put", "post", "delete", "patch"}}
        for path, item in document["paths"].items()
    }
    assert {_names(path): methods for path, methods in ENDPOINTS.items()} == {
        path: methods for path, methods in described.items() if path not in PAGES
    }


def test_every_refusal_is_described_as_a_problem(api: Api) -> None:
    for path, item in ok(api.get("/openapi.json"))["paths"].items():
        for method, operation in item.items():
            if not isinstance(operation, dict) or "responses" not in operation:
                continue
            for status, response in operation["responses"].items():
                if status.startswith(("4", "5")) and path not in ("/healthz", "/readyz"):
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)


def test_documentation_needs_no_network(api: Api) -> None:
    response = api.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)["']""", response.text)
    for url in loaded:
        assert not re.match(r"^(https?:)?//", url), url
        if not url.startswith(("#", "data:")):
            assert api.http.get(f"/{url.lstrip('./')}").status_code == 200, url
    assert "openapi.json" in response.text


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path in ENDPOINTS if path not in STREAMS | ABOUT_KEYS for method in sorted(ENDPOINTS[path])],
)
def test_whatever_is_sent_is_answered_as_described(fuzzed: Served, schema: Any, path: str, method: str) -> None:
    """No 5xx, no status, content type or body that the document does not name, and nothing wrong accepted."""
    operation = schema[path][method.upper()]
    excluded = [positive_data_acceptance] if (path, method) in BEYOND_A_SCHEMA else []

    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        case=st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        ),
        exists=st.booleans(),
    )
    def answered(case: Any, exists: bool) -> None:
        # Random ids are never found: half of the requests are for something that is there and asks; but what is to be
        # refused for its path alone keeps it.
        path = case.meta.components.get(ParameterLocation.PATH)
        if exists and path is not None and path.mode is GenerationMode.POSITIVE:
            session_id, interrupt_id = fuzzed.api.ask({"type": "question"})
            there = {"session_id": session_id, "interrupt_id": interrupt_id}
            case.path_parameters = {name: there.get(name, value) for name, value in case.path_parameters.items()}
        case.call_and_validate(timeout=100, excluded_checks=excluded)

    answered()


@pytest.mark.parametrize(
    ("path", "method"), [(path, method) for path in sorted(ABOUT_KEYS) for method in sorted(ENDPOINTS[path])]
)
def test_whatever_is_sent_about_keys_is_answered_as_described(
    guarded: tuple[Served, str], path: str, method: str
) -> None:
    server, secret = guarded
    key = {"Authorization": f"Bearer {secret}"}
    operation = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=key)[path][method.upper()]

    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        case=st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        )
    )
    def answered(case: Any) -> None:
        # A request of its own each time: it neither keeps a cookie nor is without a key.
        response = case.call_and_validate(headers=key, timeout=100, excluded_checks=[positive_data_acceptance])
        assert response.status_code != 401 or path == "/sign-in", response.text

    answered()


def test_an_interrupt_has_for_python_what_its_record_has(api: Api) -> None:
    record = set(ok(api.get("/openapi.json"))["components"]["schemas"]["Interrupt"]["properties"])
    assert record - {field.name for field in fields(client.Interrupt)} == set()
    # A run without a server has neither keys nor people who claim.
    for_servers = {"sent_by", "claimed_by", "claimed_until", "snoozed_by", "snoozed_until"}
    of_run = {field.name for field in fields(Interrupt)} - {"_record"}
    assert record - for_servers - of_run == {"interrupt_id"}
    assert of_run - record == {"id"}
