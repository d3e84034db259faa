"""Clients written for the session server this contract comes from: their loop, and the flow its documents show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.python.support.api import Api


class UnmodifiedClient:
    """The minimal loop: send, poll until idle or error, answer every interrupt, poll again."""

    def __init__(self, base_url: str, decide: Any) -> None:
        self.base_url = base_url
        self.decide = decide

    def run_turn(self, session_id: str, content: str) -> str:
        with httpx2.Client(timeout=100, trust_env=False) as client:
            message = {"role": "user", "content": content}
            client.post(f"{self.base_url}/sessions/{session_id}/messages", json=message).raise_for_status()
            while True:
                polled = client.get(f"{self.base_url}/sessions/{session_id}", params={"wait": "true", "timeout": "30"})
                data = polled.json()
                if data["status"] == "idle":
                    text: str = data["response"]["content"]
                    return text
                if data["status"] == "error":
                    raise RuntimeError(data["error"])
                for interrupt in data["interrupts"] if data["status"] == "interrupted" else ():
                    answer = {"interrupt_id": interrupt["interrupt_id"], "value": self.decide(interrupt)}
                    client.post(f"{self.base_url}/sessions/{session_id}/resume", json=answer).raise_for_status()


def url_of(api: Api) -> str:
    return str(api.http.base_url).rstrip("/")


def test_the_loop_answers_one_interrupt(api: Api) -> None:
    client = UnmodifiedClient(url_of(api), lambda interrupt: {"hex": interrupt["payload"]["presets"][1]})
    payload = '{"type": "color_picker", "prompt": "Pick", "presets": ["#FF6B6B", "#4ECDC4"]}'
    assert client.run_turn(api.create(), f"ask {payload}") == '{"hex": "#4ECDC4"}'


def test_the_loop_answers_several_at_once_and_in_turn(api: Api) -> None:
    client = UnmodifiedClient(url_of(api), lambda interrupt: interrupt["payload"]["n"])
    session_id = api.create()
    questions = '[{"type": "q", "n": 1}, {"type": "q", "n": 2}, {"type": "q", "n": 3}]'
    assert client.run_turn(session_id, f"ask_all {questions}") == "[1, 2, 3]"
    assert client.run_turn(session_id, f"ask_in_turn {questions}") == "[1, 2, 3]"


def test_the_loop_raises_the_agents_error(api: Api) -> None:
    client = UnmodifiedClient(url_of(api), lambda interrupt: None)
    with pytest.raises(RuntimeError, match=r"^ValueError: broken$"):
        client.run_turn(api.create(), 'fail "broken"')


def test_the_loop_approves_a_tool(puppet: Api, tmp_path: Path) -> None:
    path = tmp_path / "old_logs.txt"
    path.write_text("old")
    client = UnmodifiedClient(url_of(puppet), lambda interrupt: {"approved": interrupt["type"] == "tool_approval"})
    calls = f'[[{{"name": "delete_file", "args": {{"path": "{path}"}}}}]]'
    assert client.run_turn(puppet.create(), calls) == f'["deleted {path}"]'
    assert not path.exists()


def test_the_flow_of_the_documents_step_by_step(puppet: Api, tmp_path: Path) -> None:
    """Each request and each answer as the REST walk-through shows them."""
    path = tmp_path / "old_logs.txt"
    path.write_text("old")
    base = url_of(puppet)
    with httpx2.Client(trust_env=False, timeout=100) as curl:
        created = curl.post(f"{base}/sessions")
        session_id = created.json()["session_id"]
        assert (created.status_code, created.json()["status"]) == (201, "idle")
        assert created.headers["location"] == f"/sessions/{session_id}"

        sent = curl.post(
            f"{base}/sessions/{session_id}/messages",
            headers={"Content-Type": "application/json"},
            json={"role": "user", "content": f'[[{{"name": "delete_file", "args": {{"path": "{path}"}}}}]]'},
        )
        assert (sent.status_code, sent.json()) == (202, {"session_id": session_id, "status": "running"})

        paused = curl.get(f"{base}/sessions/{session_id}?wait=true&timeout=90").json()
        assert (paused["status"], paused["response"], paused["error"]) == ("interrupted", None, None)
        (interrupt,) = paused["interrupts"]
        assert interrupt["type"] == "tool_approval"
        payload = {"type": "tool_approval", "tool_name": "delete_file", "tool_args": {"path": str(path)}}
        assert interrupt["payload"] == payload

        resumed = curl.post(
            f"{base}/sessions/{session_id}/resume",
            json={"interrupt_id": interrupt["interrupt_id"], "value": {"approved": True}},
        )
        assert (resumed.status_code, resumed.json()["status"]) == (200, "running")

        done = curl.get(f"{base}/sessions/{session_id}?wait=true&timeout=90").json()
        assert (done["status"], done["error"], done["interrupts"]) == ("idle", None, None)
        assert done["response"]["role"] == "assistant"
        assert not path.exists()
