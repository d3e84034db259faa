"""How large and how slow things may be."""

from __future__ import annotations

import contextlib
import json
import select
import socket
from typing import TYPE_CHECKING

import pytest

from tests.python.support.agents import BAD_PAYLOADS, LARGEST_PAYLOAD, payload_of
from tests.python.support.api import Api, ok, problem, result
from tests.python.support.waiting import eventually

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve

MEBIBYTE = 1_048_576


def body_of(size: int) -> bytes:
    empty = len(json.dumps({"name": ""}))
    return json.dumps({"name": "x" * (size - empty)}).encode()


class TestBodies:
    HEADERS = {"content-type": "application/json"}

    def test_up_to_one_mebibyte(self, api: Api) -> None:
        session_id = api.create()
        path = f"/sessions/{session_id}/messages"
        assert len(body_of(MEBIBYTE)) == MEBIBYTE
        response = api.http.post(path, content=body_of(MEBIBYTE + 1), headers=self.HEADERS)
        problem(response, 413)
        assert api.session(session_id)["status"] == "idle"
        assert api.http.post(path, content=body_of(MEBIBYTE), headers=self.HEADERS).status_code == 202
        assert api.wait(session_id)["status"] == "idle"

    def test_one_that_does_not_say_its_length(self, api: Api) -> None:
        chunks = iter([b'{"name": "'] + [b"x" * 65_536] * 32 + [b'"}'])
        problem(api.http.post(f"/sessions/{api.create()}/messages", content=chunks, headers=self.HEADERS), 413)

    def test_the_limit_is_an_option(self, serve: Serve) -> None:
        api = serve(max_body=1000).api
        path = f"/sessions/{api.create()}/messages"
        problem(api.http.post(path, content=body_of(1001), headers=self.HEADERS), 413)
        assert api.http.post(path, content=body_of(1000), headers=self.HEADERS).status_code == 202

    def test_many_long_ones_are_not_in_memory_at_once(self, serve: Serve) -> None:
        api = serve().api
        path = f"/sessions/{api.create()}/messages"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {api.http.base_url.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {MEBIBYTE}\r\n\r\n"
        )
        address = (api.http.base_url.host, api.http.base_url.port)
        with contextlib.ExitStack() as stack:
            # All but the end of each: a client may have 32 MiB in memory, without the first 16 KiB of each.
            started = [stack.enter_context(socket.create_connection(address)) for _ in range(34)]
            for each in started:
                each.sendall(head.encode() + body_of(MEBIBYTE)[:-1])
            refused, _, _ = select.select(started, [], [], 100)
            assert refused
            answer = refused[0].recv(65_536).decode()
            assert answer.startswith("HTTP/1.1 503 ")
            assert "too_much_at_once" in answer
            assert "retry-after: 1" in answer
            # Whoever sends little is not in the way of that.
            assert api.run(api.create(), "echo", 1)["status"] == "idle"
        # What was given up is given back.
        eventually(lambda: api.http.post(path, content=body_of(MEBIBYTE), headers=self.HEADERS).status_code, 202)

    def test_what_is_too_long_is_not_in_memory_and_told_so(self, serve: Serve) -> None:
        api = serve().api
        path = f"/sessions/{api.create()}/messages"
        # As much as is read on for one that is too long, but for the last byte.
        rest = b" " * (16 * MEBIBYTE - 1)
        head = f"POST {path} HTTP/1.1\r\nHost: {api.http.base_url.host}\r\nContent-Type: application/json\r\n"
        with contextlib.ExitStack() as stack:
            too_long = [stack.enter_context(socket.create_connection(address(api), timeout=100)) for _ in range(3)]
            for each in too_long:
                each.sendall(f"{head}Content-Length: {len(rest) + 1}\r\n\r\n".encode() + rest)
            # Together they are more than a client may have in memory, and nobody is in the way of others.
            assert api.http.post(path, content=body_of(MEBIBYTE), headers=self.HEADERS).status_code == 202
            for each in too_long:
                each.sendall(b" ")
                answer = each.recv(65_536).decode()
                assert answer.startswith("HTTP/1.1 413 "), answer

    def test_nesting_is_bounded(self, api: Api) -> None:
        session_id, interrupt_id = api.ask({"type": "question"})
        content = b'{"interrupt_id":"%s","value":%s%s}' % (interrupt_id.encode(), b"[" * 200_000, b"]" * 200_000)
        response = api.http.post(f"/sessions/{session_id}/resume", content=content, headers=self.HEADERS)
        assert response.status_code in (400, 422)
        problem(response, response.status_code)
        assert api.interrupt(interrupt_id)["status"] == "pending"


def narrow(stack: contextlib.ExitStack, api: Api) -> socket.socket:
    """A connection that has little room for what comes back."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(100)
    connection.connect(address(api))
    return connection


class TestUntakenAnswers:
    def test_many_long_ones_are_not_in_memory_at_once(self, serve: Serve) -> None:
        api = serve().api
        state = [{"role": "user", "content": "x" * (MEBIBYTE - 100)}]
        path = f"/sessions/{api.create(state)}/messages"
        ask = f"GET {path} HTTP/1.1\r\nHost: {api.http.base_url.host}\r\n\r\n".encode()
        with contextlib.ExitStack() as stack:
            # A client may have 128 MiB, without the first 16 KiB of each.
            statuses = []
            for _ in range(132):
                connection = narrow(stack, api)
                connection.sendall(ask)
                statuses.append(connection.recv(12))
            assert statuses[:128] == [b"HTTP/1.1 200"] * 128
            assert b"HTTP/1.1 503" in statuses
            refused = api.get(path)
            assert problem(refused, 503)["code"] == "too_much_at_once"
            assert refused.headers["retry-after"] == "1"
            # Little is told all the same, and what was asked for is done.
            assert api.run(api.create(), "echo", 1)["status"] == "idle"
        eventually(lambda: api.get(path).status_code, 200)


class TestAnswers:
    def test_the_limit_is_an_option_and_counts_the_value(self, serve: Serve) -> None:
        api = serve(max_value=100).api
        session_id, interrupt_id = api.ask({"type": "question"})
        problem(api.resume(session_id, interrupt_id, "x" * 99), 413)
        assert api.session(session_id)["status"] == "interrupted"
        ok(api.resume(session_id, interrupt_id, "x" * 98))
        assert result(api.wait(session_id)) == "x" * 98

    def test_the_limit_holds_for_each_value_of_several(self, serve: Serve) -> None:
        api = serve(max_value=100).api
        session_id, interrupts = api.asked("ask_all", [{"type": "question"}] * 2)
        one, two = (entry["interrupt_id"] for entry in interrupts)
        problem(api.resume_all(session_id, {one: 1, two: "x" * 99}), 413)
        ok(api.resume_all(session_id, {one: "x" * 90, two: "x" * 90}))


class TestPayloads:
    """What cannot be asked raises in the agent, and the session stays healthy."""

    TYPE_ERRORS = (
        "a list",
        "a string",
        "None",
        "a type that is no string",
        "a type that is null",
        "bytes",
        "a set",
        "an object",
        "a key that is no string",
    )
    VALUE_ERRORS = ("NaN", "infinity", "a cycle", "a lone surrogate", "one byte too large")

    def test_all_of_them_are_here(self) -> None:
        assert {*self.TYPE_ERRORS, *self.VALUE_ERRORS, "as large as may be"} == BAD_PAYLOADS.keys()

    @pytest.mark.parametrize("what", TYPE_ERRORS)
    def test_a_type_error(self, either_api: Api, what: str) -> None:
        session_id = either_api.create()
        raised = result(either_api.run(session_id, "ask_badly", what))
        assert "TypeError" in raised["bases"]
        assert raised["message"]
        self.check_health(either_api, session_id)

    @pytest.mark.parametrize("what", VALUE_ERRORS)
    def test_a_value_error(self, either_api: Api, what: str) -> None:
        session_id = either_api.create()
        raised = result(either_api.run(session_id, "ask_badly", what))
        assert "ValueError" in raised["bases"]
        assert raised["message"]
        self.check_health(either_api, session_id)

    def test_uncaught_it_ends_the_turn_with_a_clear_error(self, api: Api) -> None:
        session = api.run(api.create(), "ask", ["no", "dict"])
        assert session["status"] == "error"
        assert session["error"].startswith("TypeError: ")

    def test_the_limit_counts_bytes_of_compact_json(self, api: Api) -> None:
        raised = result(api.run(api.create(), "ask_badly", "one byte too large"))
        digits = raised["message"].replace(",", "").replace("_", "")
        assert str(LARGEST_PAYLOAD) in digits
        assert str(LARGEST_PAYLOAD + 1) in digits
        session_id, interrupts = api.asked("ask_badly", "as large as may be")
        compact = json.dumps(interrupts[0]["payload"], separators=(",", ":"), ensure_ascii=False)
        assert len(compact.encode()) == LARGEST_PAYLOAD
        ok(api.resume(session_id, interrupts[0]["interrupt_id"], "fine"))
        assert result(api.wait(session_id)) == {"answer": "fine"}

    def test_the_limit_is_an_option(self, serve: Serve) -> None:
        api = serve(max_payload=100).api
        assert api.run(api.create(), "ask", payload_of(101))["status"] == "error"
        assert api.run(api.create(), "ask", payload_of(100))["status"] == "interrupted"

    def check_health(self, api: Api, session_id: str) -> None:
        """The session works on: the agent asks something that can be asked, and gets its answer."""
        asking = api.run(session_id, "ask", {"type": "question"})
        assert [entry["payload"] for entry in asking["interrupts"]] == [{"type": "question"}]
        ok(api.resume(session_id, asking["interrupts"][0]["interrupt_id"], 7))
        assert result(api.wait(session_id)) == 7


def address(api: Api) -> tuple[str, int]:
    port = api.http.base_url.port
    assert port is not None
    return api.http.base_url.host, port


class TestSlowClients:
    @pytest.mark.slow
    def test_requests_that_never_end_are_given_up(self, api: Api) -> None:
        start = f"POST /sessions HTTP/1.1\r\nHost: {address(api)[0]}:{address(api)[1]}\r\n"
        body = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        with contextlib.ExitStack() as stack:
            connections = []
            for sent in (start + "X-Slow: ", start + body):
                connection = stack.enter_context(socket.create_connection(address(api), timeout=200))
                connection.sendall(sent.encode())
                connections.append(connection)
            for connection in connections:
                # Closed, or told so; but not kept for ever.
                answer = connection.recv(4096)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 408")

    @pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
    def test_what_is_no_http_is_turned_away(self, api: Api, sent: bytes) -> None:
        with socket.create_connection(address(api), timeout=100) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
            assert answer == b"" or answer.startswith(b"HTTP/1.")
        assert api.get("/health").status_code == 200
