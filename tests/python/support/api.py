"""The HTTP interface as a test sees it: plain requests, plain answers, and a few short words for common steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from tests.python.support.event_stream import listen

Json = dict[str, Any]

PROBLEM = "application/problem+json"
PATIENCE = 60.0
"""Seconds in which a turn must get where a test waits for it."""

ASKING_AT_ONCE = ("ask_all", "ask_whoever_is_first")
"""Plays that ask one question for each member of their argument."""


class _Client(httpx2.Client):
    """Says beside an error of the connection what the server has to say."""

    def __init__(self, explain: Callable[[bool], str] | None, **options: Any) -> None:
        super().__init__(**options)
        self._explain = explain

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            return super().send(request, **options)
        except httpx2.TransportError as error:
            if self._explain is not None:
                was_cut = not isinstance(error, httpx2.TimeoutException | httpx2.ConnectError)
                error.add_note(self._explain(was_cut))
            raise


class Api:
    """Requests to one server. What returns a `Response` checks nothing; what returns JSON has checked the status.

    `explain`: says in what state the server is, for whoever reads that it could not be asked; whether a connection was
    cut, as it is by a server that ends, is its argument.
    """

    def __init__(self, url: str, *, api_key: str | None = None, explain: Callable[[bool], str] | None = None) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        # Plain HTTP; reading the list of authorities would take longer than many a test.
        self.http: httpx2.Client = _Client(
            explain, base_url=url, headers=headers, timeout=100, trust_env=False, verify=False
        )

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, **query: Any) -> httpx2.Response:
        return self.http.get(path, params=query)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        return self.http.post(path, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def delete(self, session_id: str) -> httpx2.Response:
        return self.http.delete(f"/sessions/{session_id}")

    def create(self, state: list[Json] | None = None) -> str:
        """A new session's id."""
        response = self.post("/sessions", {} if state is None else {"state": state})
        assert response.status_code == 201, response.text
        session_id: str = response.json()["session_id"]
        return session_id

    def send(self, session_id: str, content: str | None = None, **body: Any) -> httpx2.Response:
        message = body if content is None else {"role": "user", "content": content, **body}
        return self.post(f"/sessions/{session_id}/messages", message)

    def play(self, session_id: str, play: str, argument: Any = None, **body: Any) -> None:
        """Start a turn of the playbook."""
        response = self.send(session_id, f"{play} {json.dumps(argument)}", **body)
        assert response.status_code == 202, response.text

    def session(self, session_id: str) -> Json:
        session: Json = ok(self.get(f"/sessions/{session_id}"))
        return session

    def wait(self, session_id: str, timeout: float = PATIENCE) -> Json:
        """The session once it does not run any more; fails if it still does."""
        session: Json = ok(self.get(f"/sessions/{session_id}", wait="true", timeout=timeout))
        assert session["status"] != "running", f"still running after {timeout:g} s"
        return session

    def run(self, session_id: str, play: str, argument: Any = None, **body: Any) -> Json:
        """A turn of the playbook, until it is idle, interrupted or error."""
        self.play(session_id, play, argument, **body)
        return self.wait(session_id)

    def resume(self, session_id: str, interrupt_id: str, value: Any, **headers: str) -> httpx2.Response:
        body = {"interrupt_id": interrupt_id, "value": value}
        return self.post(f"/sessions/{session_id}/resume", body, **headers)

    def resume_to_the_end(self, session_id: str, interrupt_id: str, value: Any) -> Json:
        """Answer, and the session once its turn is over: for an agent that withdraws its other questions."""
        with listen(self, f"/sessions/{session_id}/events") as stream:
            ok(self.resume(session_id, interrupt_id, value))
            stream.until(lambda event: event.event in ("session.idle", "session.error"))
        return self.session(session_id)

    def resume_all(self, session_id: str, answers: Mapping[str, Any], **headers: str) -> httpx2.Response:
        listed = [{"interrupt_id": interrupt_id, "value": value} for interrupt_id, value in answers.items()]
        return self.post(f"/sessions/{session_id}/resume", {"resume": listed}, **headers)

    def interrupt(self, interrupt_id: str) -> Json:
        record: Json = ok(self.get(f"/interrupts/{interrupt_id}"))
        return record

    def asked(self, play: str, argument: Any) -> tuple[str, list[Json]]:
        """A new session whose turn asks, and what it asks."""
        session_id = self.create()
        count = len(argument) if play in ASKING_AT_ONCE else 1
        session = self.settled(session_id, f"{play} {json.dumps(argument)}", count)
        assert session["status"] == "interrupted", session
        return session_id, session["interrupts"]

    def settled(self, session_id: str, content: str, questions: int) -> Json:
        """Start a turn; the session once that many questions are open, or when the turn is over without them.

        A session is interrupted from its first question on, so a poll alone may see one of several.
        """
        with listen(self, f"/sessions/{session_id}/events") as stream:
            response = self.send(session_id, content)
            assert response.status_code == 202, response.text
            while questions:
                match stream.next().event:
                    case "interrupt.created":
                        questions -= 1
                    case "session.idle" | "session.error":
                        break
        return self.wait(session_id)

    def ask(self, payload: Json, **options: Any) -> tuple[str, str]:
        """A new session that asks one question, and the question's id."""
        session_id, interrupts = self.asked("ask_with", {"payload": payload, **options})
        assert len(interrupts) == 1
        return session_id, interrupts[0]["interrupt_id"]

    def call_tools(self, *rounds: list[Json], questions: int = 1) -> Json:
        """Let the puppet's model call tools, round by round, until that many questions are open or the turn is over."""
        return self.settled(self.create(), json.dumps(rounds), questions)


def ok(response: httpx2.Response) -> Any:
    """The JSON of a 200."""
    assert response.status_code == 200, f"{response.request.method} {response.url}: {response.text}"
    assert response.headers["content-type"].split(";")[0] == "application/json"
    return response.json()


def result(session: Json) -> Any:
    """What the playbook's turn returned."""
    assert session["status"] == "idle", session
    return json.loads(session["response"]["content"])


def tool_results(session: Json) -> list[Any]:
    """What the puppet's tools returned, each as the model saw it: JSON where it is JSON, else text."""
    return [_json_or_text(text) for text in result(session)]


def problem(response: httpx2.Response, status: int, detail: str | None = None) -> Json:
    """The problem object of a refusal, with everything each of them must have; `detail` is compared when given."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    assert response.headers["content-type"].split(";")[0] == PROBLEM
    body: Json = response.json()
    assert {"type", "title", "status", "detail", "code"} <= body.keys()
    assert body["status"] == status
    for member in ("type", "title", "detail", "code"):
        assert isinstance(body[member], str), (member, body)
        assert body[member], (member, body)
    assert body["code"].replace("_", "").isalnum(), body
    assert body["code"] == body["code"].lower(), body
    if detail is not None:
        assert body["detail"] == detail
    if status == 422 and "errors" in body:
        for error in body["errors"]:
            assert isinstance(error["loc"], list)
            assert isinstance(error["msg"], str)
            assert isinstance(error["type"], str)
    return body


def _json_or_text(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
