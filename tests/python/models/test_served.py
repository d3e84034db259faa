"""An agent on each client, served: it asks for an approval between two requests to its model, and the server dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python.support import anthropic_api, responses_api
from tests.python.support.anthropic_api import AnthropicServer
from tests.python.support.api import Api, ok
from tests.python.support.chat_completions import ChatCompletionsServer
from tests.python.support.chat_completions import Reply as ChatReply
from tests.python.support.model_server import Failure
from tests.python.support.responses_api import ResponsesServer
from tests.python.support.served import Served

AGENT = "tests.python.support.providers_agent:agent"
ANTHROPIC_CALL = anthropic_api.Reply(
    [anthropic_api.thinking("Let me pay."), anthropic_api.text("I pay."), anthropic_api.call("c1", "pay", {"cents": 5})]
)
RESPONSES_CALL = responses_api.Reply(
    [responses_api.thought("rs_1", "Let me pay."), responses_api.call("c1", "pay", '{"cents": 5}')]
)

Providers = tuple[ChatCompletionsServer, ResponsesServer, AnthropicServer]


@pytest.fixture
def providers() -> Iterator[Providers]:
    with (
        ChatCompletionsServer().serving() as chat,
        ResponsesServer().serving() as responses,
        AnthropicServer().serving() as anthropic,
    ):
        yield chat, responses, anthropic


def asked(api: Api, name: str) -> tuple[str, str]:
    """A session whose turn waits for the approval of its payment, and the question."""
    session_id = api.create()
    assert api.send(session_id, name).status_code == 202
    session = api.wait(session_id)
    assert session["status"] == "interrupted", session
    return session_id, session["interrupts"][0]["interrupt_id"]


@pytest.mark.slow
@pytest.mark.timeout(480)  # two servers whose agent imports both providers' packages: 12 seconds of a processor
def test_over_a_restart_no_model_is_asked_again_and_each_gets_back_what_it_thought(
    providers: Providers, tmp_path: Path
) -> None:
    chat, responses, anthropic = providers
    environment = {
        "CHAT": chat.url,
        "RESPONSES": responses.url,
        "ANTHROPIC": anthropic.url,
        "LEDGER": str(tmp_path / "ledger"),
    }
    options: dict[str, Any] = {"store": f"sqlite:{tmp_path / 'hitl.db'}", "workers": 2, "environment": environment}
    waiting: dict[str, tuple[str, str]] = {}

    chat.replies = [ChatReply(calls=[("c1", "pay", '{"cents": 5}')])]
    responses.replies = [RESPONSES_CALL, Failure(529, "Overloaded")]
    anthropic.replies = [ANTHROPIC_CALL, ANTHROPIC_CALL]
    first = Served(AGENT, **options)
    for name in ("chat", "responses", "anthropic", "fallback"):
        waiting[name] = asked(first.api, name)
    first.kill()
    requests = [len(provider.received) for provider in providers]
    assert requests == [1, 2, 2]

    with Served(AGENT, **options) as second:
        api = second.api
        for name, (session_id, interrupt_id) in waiting.items():
            chat.replies = [ChatReply("all paid")]
            responses.replies = [responses_api.Reply([responses_api.text("all paid")])]
            anthropic.replies = [anthropic_api.Reply([anthropic_api.text("all paid")])]
            ok(api.resume(session_id, interrupt_id, {"approved": True}))
            session = api.wait(session_id)
            assert session["response"]["content"] == "all paid", (name, session)
        # A further turn takes the conversation out of the session's state.
        session_id = waiting["anthropic"][0]
        anthropic.replies = [anthropic_api.Reply([anthropic_api.text("yes")])]
        assert api.send(session_id, "did you?").status_code == 202
        assert api.wait(session_id)["response"]["content"] == "yes"

    assert (tmp_path / "ledger").read_text().split() == ["5"] * 4
    # One request more each, and of the fallback its first model, which is there again.
    assert [len(provider.received) for provider in providers] == [2, 4, 4]
    thought = {"type": "thinking", "thinking": "Let me pay.", "signature": "sig-of-the-thought"}
    for received in anthropic.received[2:]:
        assert received.body["system"] == "Pay."
        assert received.body["messages"][1]["content"][0] == thought
        assert received.body["messages"][2]["content"][0]["type"] == "tool_result"
    summary = [{"type": "summary_text", "text": "Let me pay."}]
    kept = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAAA"}
    sent = [received.body["input"] for received in responses.received[2:]]
    assert (sent[0][2], sent[0][-1]["output"]) == (kept, "paid 5")
    # What one provider's model thought is nothing that another could read.
    assert [item.get("type") or item["role"] for item in sent[1]] == [
        "system",
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]
