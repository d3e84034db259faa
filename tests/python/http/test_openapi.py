"""/openapi.json is true: whatever is sent, answers are documented ones; and /docs shows it without the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

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
    "/sessions/{session_id}/events": {"get"},
    "/events": {"get"},
    "/interrupts": {"get"},
    "/interrupts/{interrupt_id}": {"get"},
    "/interrupts/{interrupt_id}/resume": {"post"},
}
STREAMS = r"^/events$|/events$"


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Served]:
    """A server of its own: what is thrown at it is random."""
    with Served("playbook", allow_custom_ids=True, isolation="task") as server:
        yield server


@pytest.fixture(scope="module")
def schema(fuzzed: Served) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.url}/openapi.json").exclude(path_regex=STREAMS)


wire = schemathesis.pytest.from_fixture("schema")


def _names(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_endpoint_is_described(api: Api) -> None:
    document = ok(api.get("/openapi.json"))
    assert document["openapi"].startswith("3.")
    described = {
        _names(path): {method for method in item if method in {"get", "put", "post", "delete", "patch"}}
        for path, item in document["paths"].items()
    }
    for path, methods in ENDPOINTS.items():
        assert methods <= described.get(_names(path), set()), path


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
@wire.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_is_answered_as_described(case: Any) -> None:
    case.call_and_validate(timeout=20)
