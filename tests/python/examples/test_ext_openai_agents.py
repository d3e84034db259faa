"""The support agent that is written for the OpenAI Agents SDK: asked, killed, answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl.testing import HitlServer, Human
from tests.python.support.api import ok
from tests.python.support.event_stream import listen
from tests.python.support.served import Served

AGENT = "examples.ext_openai_agents:agent"


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was done; no real model is asked."""
    for variable in ("OPENAI_API_KEY", "HITL_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SUPPORT_OUTBOX", str(tmp_path / "outbox"))
    return tmp_path / "outbox"


def test_a_person_changes_the_mail_and_keeps_the_order(hitl_server: HitlServer, human: Human, outbox: Path) -> None:
    human.on("cancel_order").reject("it was delivered")
    human.on("send_email").edit(subject="About your refund", body="There is none.")
    reply = hitl_server(AGENT).send("cancel order 42")
    assert (reply.content or "").splitlines() == [
        "User rejected cancel_order: it was delivered",
        "Sent 'Your order'",
        "Sent 'About your refund'",
    ]
    assert outbox.read_text().splitlines() == ["sent Your order", "sent About your refund"]


def test_a_server_that_is_killed_while_it_waits_cancels_the_order_once(outbox: Path, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        # The mail that nobody has to approve is a step too: killed before its result is kept, it would be sent again.
        to_come = ["interrupt.created", "interrupt.created", "tool.finished"]
        with listen(first.api, f"/sessions/{session_id}/events") as stream:
            first.api.send(session_id, "cancel order 42")
            while to_come:
                event = stream.next().event
                if event in to_come:
                    to_come.remove(event)
        asked = first.api.session(session_id)["interrupts"]
        first.kill()
    with Served(AGENT, store=store) as second:
        for each in asked:
            ok(second.api.resume(session_id, each["interrupt_id"], {"type": "approve"}))
        session = second.api.wait(session_id)
    assert session["response"]["content"].startswith("Cancelled order 42")
    assert sorted(outbox.read_text().splitlines()) == ["cancelled 42", "sent Your order", "sent Your refund"]
