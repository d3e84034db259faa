"""Who may talk to a server: keys, and requests that a web page could make somebody's browser send."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.python.support.api import Api, Json, problem
from tests.python.support.served import AGENTS, ROOT, Served, clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "correct-horse-battery-staple"

ENDPOINTS = [
    ("GET", "/health"),
    ("GET", "/sessions"),
    ("POST", "/sessions"),
    ("GET", "/sessions/x"),
    ("DELETE", "/sessions/x"),
    ("GET", "/sessions/x/messages"),
    ("POST", "/sessions/x/messages"),
    ("POST", "/sessions/x/resume"),
    ("POST", "/sessions/x/cancel"),
    ("POST", "/sessions/x/retry"),
    ("GET", "/sessions/x/events"),
    ("GET", "/events"),
    ("GET", "/interrupts"),
    ("GET", "/interrupts/x"),
    ("POST", "/interrupts/x/resume"),
    ("POST", "/interrupts/x/claim"),
    ("DELETE", "/interrupts/x/claim"),
    ("POST", "/interrupts/x/snooze"),
    ("DELETE", "/interrupts/x/snooze"),
    ("GET", "/sessions/x/journal"),
    ("GET", "/audit"),
    ("GET", "/metrics"),
    ("GET", "/keys"),
    ("POST", "/keys"),
    ("DELETE", "/keys/x"),
    ("GET", "/me"),
    ("POST", "/sign-out"),
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with Served("playbook", environment={"HITL_API_KEY": KEY}, log_level="debug") as server:  # which logs requests
        yield server


class TestKeys:
    @pytest.mark.parametrize(("method", "path"), ENDPOINTS)
    @pytest.mark.parametrize("authorization", [None, f"Basic {KEY}", KEY, "Bearer", f"bearer{KEY}"])
    def test_nothing_without_the_key(self, guarded: Served, method: str, path: str, authorization: str | None) -> None:
        headers = {} if authorization is None else {"authorization": authorization}
        response = guarded.api.http.request(method, path, headers=headers)
        problem(response, 401)
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert KEY not in response.text

    @pytest.mark.parametrize("wrong", ["wrong", f"{KEY}x", KEY[:-1], KEY.upper()])
    def test_nothing_with_another_key(self, guarded: Served, wrong: str) -> None:
        """A few only: who shows wrong keys again and again is not answered any more."""
        problem(guarded.api.http.post("/sessions", headers={"authorization": f"Bearer {wrong}"}), 401)

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    def test_everything_with_it(self, guarded: Served, scheme: str) -> None:
        headers = {"authorization": f"{scheme} {KEY}"}
        assert guarded.api.http.get("/sessions", headers=headers).status_code == 200
        assert guarded.api.http.post("/sessions", headers=headers).status_code == 201

    @pytest.mark.parametrize("path", ["/healthz", "/readyz"])
    def test_probes_need_none(self, guarded: Served, path: str) -> None:
        assert guarded.api.get(path).status_code == 200

    def test_the_key_is_checked_before_the_body_is_read(self, guarded: Served) -> None:
        response = guarded.api.http.post("/sessions", content=b"{", headers={"content-type": "application/json"})
        problem(response, 401)

    def test_a_key_of_the_name_of_a_revoked_one_goes_on_with_its_idempotency_keys(self, guarded: Served) -> None:
        http = guarded.api.http

        def made(secret: str) -> str:
            headers = {"authorization": f"Bearer {secret}", "idempotency-key": "k"}
            session: str = http.post("/sessions", json={}, headers=headers).json()["session_id"]
            return session

        def key(name: str) -> Json:
            headers = {"authorization": f"Bearer {KEY}"}
            key: Json = http.post("/keys", json={"name": name, "scopes": ["send"]}, headers=headers).json()
            return key

        ada, bob = key("ada"), key("bob")
        first = made(ada["key"])
        assert made(bob["key"]) != first
        http.delete(f"/keys/{ada['key_id']}", headers={"authorization": f"Bearer {KEY}"})
        assert made(key("ada")["key"]) == first

    def test_the_key_is_in_no_log(self, guarded: Served) -> None:
        bearer = {"authorization": f"Bearer {KEY}"}
        http = guarded.api.http
        assert http.get("/sessions", headers=bearer).status_code == 200
        assert http.post("/sessions", json=KEY, headers=bearer).status_code == 422
        assert http.get("/sessions", headers={"authorization": f"Bearer {KEY}x"}).status_code == 401
        assert http.get("/openapi.json", headers=bearer).status_code == 200
        guarded.wait_for_line('"/openapi.json"')  # logged after those before it
        assert not any(KEY in line for line in guarded.lines)


class TestAddresses:
    def serve(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "hitl",
                "serve",
                f"{AGENTS}:playbook",
                "--store",
                "memory",
                "--port",
                "0",
                *arguments,
            ],
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
    def test_one_that_others_can_reach_is_refused_without_a_key(self, host: str) -> None:
        refused = self.serve("--host", host)
        assert refused.returncode == 2
        assert "--api-key" in refused.stderr
        assert "--insecure" in refused.stderr

    def test_it_is_served_when_asked_for(self) -> None:
        with Served("playbook", host="0.0.0.0", insecure=True) as server:
            port = server.url.rpartition(":")[2]
            api = Api(f"http://127.0.0.1:{port}")
            assert api.get("/health").status_code == 200
            api.close()


class TestBrowsers:
    """A page somebody has open must not drive a server on their loopback, keys or not."""

    @pytest.mark.parametrize(
        "origin",
        ["http://evil.example", "https://127.0.0.1.evil.example", "null", "http://127.0.0.1:1", "file://", "x"],
    )
    @pytest.mark.parametrize(("method", "path"), [("POST", "/sessions"), ("GET", "/sessions"), ("GET", "/health")])
    def test_a_foreign_origin_is_refused(self, api: Api, method: str, path: str, origin: str) -> None:
        problem(api.http.request(method, path, headers={"origin": origin}), 403)

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "169.254.169.254", "localhost.evil"]
    )
    def test_a_foreign_host_is_refused(self, api: Api, host: str) -> None:
        """DNS rebinding: the page's own name resolves to 127.0.0.1."""
        problem(api.http.get("/sessions", headers={"host": host}), 403)

    @pytest.mark.parametrize("host", ["x@127.0.0.1", "127.0.0.1/x", "127.0.0.1:port"])
    def test_a_host_that_is_none_is_refused(self, api: Api, host: str) -> None:
        response = api.http.get("/sessions", headers={"host": host})
        assert response.status_code in (400, 403)
        problem(response, response.status_code)

    def test_a_foreign_origin_is_refused_with_the_key_too(self, guarded: Served) -> None:
        headers = {"authorization": f"Bearer {KEY}", "origin": "http://evil.example"}
        problem(guarded.api.http.post("/sessions", headers=headers), 403)

    def test_its_own_origin_is_welcome(self, api: Api) -> None:
        own = str(api.http.base_url).rstrip("/")
        port = own.rpartition(":")[2]
        for origin in (own, f"http://localhost:{port}"):
            headers = {"origin": origin, "host": origin.removeprefix("http://")}
            assert api.http.get("/sessions", headers=headers).status_code == 200

    def test_nothing_is_granted_to_other_origins(self, api: Api) -> None:
        response = api.http.options(
            "/sessions", headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
        )
        assert response.status_code >= 400
        assert not [name for name in response.headers if name.startswith("access-control-allow")]


class TestContentType:
    @pytest.mark.parametrize(
        "content_type",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", ""],
    )
    @pytest.mark.parametrize(
        "path", ["/sessions", "/sessions/{session}/messages", "/sessions/{session}/resume", "/interrupts/x/resume"]
    )
    def test_a_body_must_say_that_it_is_json(self, api: Api, path: str, content_type: str) -> None:
        """What a form can send without the browser asking first is no JSON."""
        path = path.format(session=api.create())
        problem(api.http.post(path, content=b"{}", headers={"content-type": content_type}), 415)

    def test_a_body_without_a_type_is_refused(self, api: Api) -> None:
        problem(api.http.post("/sessions", content=b"{}"), 415)

    @pytest.mark.parametrize(
        "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"]
    )
    def test_json_is_written_in_several_ways(self, api: Api, content_type: str) -> None:
        response = api.http.post("/sessions", content=b"{}", headers={"content-type": content_type})
        assert response.status_code == 201

    def test_where_there_is_no_body_there_is_no_type(self, api: Api) -> None:
        session_id = api.create()
        assert api.http.post("/sessions").status_code == 201
        problem(api.http.post(f"/sessions/{session_id}/cancel"), 409)


def test_errors_before_any_route_are_problems_too(api: Api) -> None:
    unknown = problem(api.get("/no/such/path"), 404)
    session = problem(api.get("/sessions/x"), 404)
    assert unknown["code"] != session["code"]
    response = api.http.patch("/sessions")
    problem(response, 405)
    assert {word.strip() for word in response.headers["allow"].split(",")} >= {"GET", "POST"}


def test_refusals_have_one_code_for_each_cause(api: Api) -> None:
    session_id, interrupt_id = api.ask({"type": "question"})
    responses: list[Any] = [
        api.get("/sessions/x"),
        api.resume(session_id, "x", 1),
        api.send(session_id, "echo 1"),
        api.resume(api.create(), "x", 1),
        api.post("/sessions", {"state": 1}),
        api.http.put("/sessions/x"),
        api.http.post("/sessions", content=b"{}"),
        api.http.get("/sessions", headers={"host": "evil.example"}),
        api.get("/no/such/path"),
        api.http.patch("/sessions"),
    ]
    codes = [problem(response, response.status_code)["code"] for response in responses]
    assert len(set(codes)) == len(codes), codes
    assert api.interrupt(interrupt_id)["status"] == "pending"
