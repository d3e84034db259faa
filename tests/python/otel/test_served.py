"""Telemetry of a served agent: forked workers, a pause, a SIGKILL, and another server that goes on."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.support.api import Api
from tests.python.support.chat_completions import ChatCompletionsServer, Reply
from tests.python.support.otlp_receiver import OtlpReceiver, SpanSeen
from tests.python.support.served import Served

AGENT = "tests.python.support.traced_agent:agent"
KEY = "key-of-the-server-itself"
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
APPROVED = {"type": "approve"}


def sent(api: Api, content: str, trace: str = TRACE, flags: str = "01") -> str:
    """A session that was sent a message, as a part of a trace."""
    session_id = api.create()
    message = {"role": "user", "content": content}
    traceparent = f"00-{trace}-{CALLER}-{flags}"
    assert api.post(f"/sessions/{session_id}/messages", message, traceparent=traceparent).status_code == 202
    return session_id


def interrupted(api: Api, content: str, trace: str = TRACE) -> tuple[str, str]:
    """A session that waits for an answer, and the question."""
    session_id = sent(api, content, trace)
    session = api.wait(session_id)
    assert session["status"] == "interrupted", session
    return session_id, session["interrupts"][0]["interrupt_id"]


def named(spans: list[SpanSeen], name: str) -> SpanSeen:
    [span] = [each for each in spans if each.name == name]
    return span


def said(spans: list[SpanSeen]) -> str:
    """All that is in their attributes."""
    return json.dumps([span.attributes for span in spans])


@pytest.mark.parametrize(("protocol", "isolation"), [("http/protobuf", "process"), ("grpc", "task")])
def test_over_a_pause_and_a_kill_a_turn_is_one_trace_and_each_span_comes_once(
    protocol: str, isolation: str, tmp_path: Path
) -> None:
    with OtlpReceiver(protocol).serving() as receiver, ChatCompletionsServer().serving() as model:
        call = {"path": "secret.txt"}
        model.replies += [
            Reply(calls=[("c1", "size", json.dumps(call))]),
            Reply(calls=[("c2", "delete", json.dumps(call))]),
            Reply(content="done"),
        ]
        environment = receiver.environment | {"TRACED_MODEL": model.url}
        options = {"store": tmp_path / "hitl.db", "otel": True, "api_key": KEY, "isolation": isolation}
        with Served(AGENT, environment=environment, **options) as server:
            session_id, interrupt_id = interrupted(server.api, "go")
            server.kill()
        receiver.wait_for_spans(5, TRACE)  # what was told before the kill is sent after it
        with Served(AGENT, environment=environment, **options) as server:
            assert server.api.resume(session_id, interrupt_id, APPROVED).status_code == 200
            assert server.api.wait(session_id)["status"] == "idle"
            receiver.wait_for_spans(9, TRACE)
            receiver.wait_for(lambda it: len(it.metrics.get("gen_ai.client.operation.duration", ())) == 2, "durations")
            receiver.wait_for(lambda it: len(it.metrics.get("gen_ai.client.token.usage", ())) == 2, "tokens")
            receiver.wait_for(lambda it: len(it.metrics.get("hitl.wait.duration", ())) == 1, "waits")
            receiver.wait_for(lambda it: any(log.text == "sizing" for log in it.logs), "logs")
        # A server that has stopped has nothing left to send, and nobody has told anything twice.
        spans = receiver.of(TRACE)

    assert Counter(span.name for span in receiver.spans) == {
        "invoke_agent tracer": 1,
        "chat test-model": 3,
        "execute_tool size": 1,
        "own work": 1,
        "step look_up": 1,
        "execute_tool delete": 1,
        "wait tool_approval": 1,
    }
    assert len({span.id for span in spans}) == len(spans) == 9

    turn = named(spans, "invoke_agent tracer")
    size = named(spans, "execute_tool size")
    assert turn.parent == CALLER
    for name in ("own work", "step look_up"):
        assert named(spans, name).parent == size.id
    inside = [span for span in spans if span.parent == turn.id]
    assert len(inside) == 6
    assert all(turn.start <= span.start <= span.end <= turn.end for span in spans)

    chats = sorted((span for span in spans if span.name == "chat test-model"), key=lambda span: span.start)
    assert chats[0].attributes["gen_ai.operation.name"] == "chat"
    assert chats[0].attributes["gen_ai.provider.name"] == "openai"
    assert chats[0].attributes["gen_ai.request.model"] == "test-model"
    assert chats[0].attributes["gen_ai.conversation.id"] == session_id
    assert chats[0].attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert chats[0].kind == 3  # of a client
    assert [chat.attributes["gen_ai.usage.input_tokens"] > 0 for chat in chats] == [True] * 3
    assert [received.headers["traceparent"] for received in model.received] == [
        f"00-{TRACE}-{chat.id}-01" for chat in chats
    ]
    assert size.attributes["gen_ai.tool.name"] == "size"
    assert size.attributes["gen_ai.tool.call.id"] == "c1"
    assert size.attributes["own.attribute"] == "kept"

    wait = named(spans, "wait tool_approval")
    assert wait.attributes["hitl.interrupt.id"] == interrupt_id
    assert wait.attributes["hitl.answered_by"] == "api-key"
    assert wait.attributes["hitl.wait.outcome"] == "answered"
    assert wait.attributes["hitl.decision"] == "approve"
    assert wait.attributes["gen_ai.tool.name"] == "delete"
    assert chats[1].end <= wait.start + 1_000_000 and wait.end <= chats[2].start  # noqa: PT018
    assert "secret.txt" not in said(spans)

    [log] = [each for each in receiver.logs if each.text == "sizing"]
    assert (log.trace, log.span, log.level) == (TRACE, named(spans, "own work").id, "WARNING")
    assert all(resource["service.name"] == "hitl" for resource in receiver.resources)
    [waited] = receiver.metrics["hitl.wait.duration"]
    assert waited["count"] == 1
    operations = {
        (point["attributes"]["gen_ai.operation.name"], point["attributes"].get("gen_ai.tool.name")): point["count"]
        for point in receiver.metrics["gen_ai.client.operation.duration"]
    }
    assert operations == {("chat", None): 1, ("execute_tool", "delete"): 1}  # of the second server
    tokens = {point["attributes"]["gen_ai.token.type"] for point in receiver.metrics["gen_ai.client.token.usage"]}
    assert tokens == {"input", "output"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver().serving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def api(receiver: OtlpReceiver) -> Iterator[Api]:
    """Of a server that parks at once: each answer goes through a replay, in another process."""
    with Served(AGENT, environment=receiver.environment, otel=True, park_after=0) as server:
        yield server.api


def a_trace() -> str:
    return uuid.uuid4().hex


def test_what_a_replay_repeats_of_the_agents_own_spans_and_logs_is_not_told_again(
    api: Api, receiver: OtlpReceiver
) -> None:
    trace = a_trace()
    session_id, interrupt_id = interrupted(api, "ask", trace)
    api.resume(session_id, interrupt_id, "crimson")
    assert api.wait(session_id)["status"] == "idle"

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    spans = receiver.of(trace)
    assert Counter(span.name for span in spans) == {
        "before": 1,
        "step look_up": 1,
        "around": 1,
        "wait color": 1,
        "invoke_agent tracer": 1,
    }
    turn = named(spans, "invoke_agent tracer")
    assert {named(spans, name).parent for name in ("before", "around", "wait color")} == {turn.id}
    # They are sent in the order in which they were logged, so that one that is repeated would be there by then.
    receiver.wait_for(lambda it: any(log.trace == trace and log.text.startswith("after") for log in it.logs), "log")
    assert [(log.text, log.span) for log in receiver.logs if log.trace == trace] == [
        ("before the question", named(spans, "before").id),
        ("after the question", named(spans, "around").id),
    ]
    assert "hitl.answered_by" not in named(spans, "wait color").attributes  # nobody has a name here
    assert "crimson" not in said(spans)


def test_a_tool_whose_worker_is_killed_is_told_of_by_the_one_that_finishes_it(
    api: Api, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    trace = a_trace()
    session_id = sent(api, f"crash {tmp_path / 'mark'}", trace)
    assert api.wait(session_id)["status"] == "idle"

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    spans = receiver.of(trace)
    assert Counter(span.name for span in spans) == {
        "chat scripted": 2,
        "execute_tool crash": 1,
        "invoke_agent tracer": 1,
    }
    assert len({span.id for span in spans}) == len(spans)


def test_a_span_of_its_own_that_ended_before_its_worker_was_killed_is_told_once(
    api: Api, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    trace = a_trace()
    session_id = sent(api, f"die {tmp_path / 'mark'}", trace)
    assert api.wait(session_id)["status"] == "idle"

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    assert Counter(span.name for span in receiver.of(trace)) == {
        "step look_up": 1,
        "between": 1,
        "step die_once": 1,
        "invoke_agent tracer": 1,
    }


def test_of_an_error_the_class_is_told_and_not_the_words(api: Api, receiver: OtlpReceiver) -> None:
    trace = a_trace()
    assert api.wait(sent(api, "fail secret", trace))["status"] == "idle"

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    tool = named(receiver.of(trace), "execute_tool fail")
    assert tool.is_error
    assert tool.attributes["error.type"] == "ValueError"
    assert "secret" not in said(receiver.of(trace))


def test_a_turn_that_is_cancelled_has_a_span_that_says_so(api: Api, receiver: OtlpReceiver) -> None:
    trace = a_trace()
    session_id = sent(api, "hang", trace)
    receiver.wait_for(lambda it: bool(it.of(trace)), "first step")
    assert api.post(f"/sessions/{session_id}/cancel").status_code == 200

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    turn = named(receiver.of(trace), "invoke_agent tracer")
    assert turn.attributes["error.type"] == "cancelled"
    # What had ended before that is told, although nothing is in the journal after it.
    assert named(receiver.of(trace), "between").parent == turn.id


def waits_of(receiver: OtlpReceiver, trace: str) -> list[SpanSeen]:
    return [span for span in receiver.of(trace) if span.name == "wait tool_approval"]


def test_a_rule_that_answers_is_named_as_a_person_is(receiver: OtlpReceiver, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rule]]\nname = "deletes"\ntool = "delete"\neffect = "allow"\n')
    trace = a_trace()
    with Served(AGENT, environment=receiver.environment, otel=True, policy=policy) as server:
        assert server.api.wait(sent(server.api, "go", trace))["status"] == "idle"
        receiver.wait_for(lambda it: len(waits_of(it, trace)) >= 2, "waits")
    waits = waits_of(receiver, trace)
    assert {span.attributes["gen_ai.tool.name"]: span.attributes["hitl.answered_by"] for span in waits} == {
        "size": "policy",
        "delete": "policy",
    }


def test_what_its_caller_does_not_sample_is_not_told(api: Api, receiver: OtlpReceiver) -> None:
    unsampled, sampled = a_trace(), a_trace()
    assert api.wait(sent(api, "fail x", unsampled, "00"))["status"] == "idle"
    assert api.wait(sent(api, "fail x", sampled))["status"] == "idle"

    receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(sampled)), "turn")
    assert receiver.of(unsampled) == []


def test_a_receiver_that_is_away_hinders_no_turn_and_no_stop() -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "20"}
    with Served(AGENT, environment=away, otel=True) as server:
        assert server.api.wait(sent(server.api, "fail x"))["status"] == "idle"
        assert server.api.wait(sent(server.api, "fail x"))["status"] == "idle"


def test_workers_that_cannot_be_forked_export_for_themselves(receiver: OtlpReceiver) -> None:
    agent = "tests.python.support.traced_threads:agent"
    trace = a_trace()
    with Served(agent, environment=receiver.environment, otel=True) as server:
        assert server.api.wait(sent(server.api, "fail x", trace))["status"] == "idle"
        receiver.wait_for(lambda it: any(span.name.startswith("invoke") for span in it.of(trace)), "turn")
    assert Counter(span.name for span in receiver.of(trace)) == {
        "chat scripted": 2,
        "execute_tool fail": 1,
        "invoke_agent tracer": 1,
    }


def test_without_its_option_a_server_tells_nobody_anything() -> None:
    with OtlpReceiver().serving() as receiver, Served(AGENT, environment=receiver.environment) as server:
        assert server.api.wait(sent(server.api, "fail x"))["status"] == "idle"
    assert receiver.spans == receiver.logs == []
