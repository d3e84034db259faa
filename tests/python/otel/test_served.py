"""Telemetry of a served agent: forked workers, a pause, a SIGKILL, and another server that goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.python.support.api import Api
from tests.python.support.otlp_receiver import OtlpReceiver, SpanSeen
from tests.python.support.served import Served

AGENT = "tests.python.support.traced_agent:agent"
KEY = "key-of-the-server-itself"
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
APPROVED = {"type": "approve"}


def interrupted(api: Api, **headers: str) -> tuple[str, str]:
    """A session that waits for its approval, and the question."""
    session_id = api.create()
    message = {"role": "user", "content": "go"}
    assert api.post(f"/sessions/{session_id}/messages", message, **headers).status_code == 202
    session = api.wait(session_id)
    assert session["status"] == "interrupted", session
    return session_id, session["interrupts"][0]["interrupt_id"]


def named(spans: list[SpanSeen], name: str) -> SpanSeen:
    [span] = [each for each in spans if each.name == name]
    return span


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_over_a_pause_and_a_kill_a_turn_is_one_trace_and_each_span_comes_once(protocol: str, tmp_path: Path) -> None:
    with OtlpReceiver(protocol).serving() as receiver:
        options = {"store": tmp_path / "hitl.db", "otel": True, "api_key": KEY}
        with Served(AGENT, environment=receiver.environment, **options) as server:
            session_id, interrupt_id = interrupted(server.api, traceparent=f"00-{TRACE}-{CALLER}-01")
            receiver.wait_for_spans(6, TRACE)
            server.kill()
        with Served(AGENT, environment=receiver.environment, **options) as server:
            server.api.resume(session_id, interrupt_id, APPROVED)
            assert server.api.wait(session_id)["status"] == "idle"
        spans = receiver.wait_for_spans(10, TRACE)
        receiver.wait_for(lambda it: "hitl.wait.duration" in it.metrics, "metrics")
    assert Counter(span.name for span in spans) == {
        "invoke_agent tracer": 1,
        "chat test-model": 3,
        "execute_tool size": 1,
        "own work": 1,
        "step look_up": 1,
        "execute_tool delete": 1,
        "wait tool_approval": 1,
    } | {span.name: 1 for span in spans if span.name.startswith("policy")}
    turn = named(spans, "invoke_agent tracer")
    assert turn.parent == CALLER
