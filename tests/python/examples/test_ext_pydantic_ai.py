"""The support agent that is written for another framework: asked, killed, answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl.testing import HitlServer, Human
from tests.python.support.api import ok
from tests.python.support.served import Served

AGENT = "examples.ext_pydantic_ai:support_agent"


@pytest.fixture
def blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was blocked; no real model is asked."""
    for variable in ("OPENAI_API_KEY", "HITL_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("BLOCKED_CARDS", str(tmp_path / "blocked"))
    return tmp_path / "blocked"


def test_a_person_changes_why_the_card_is_blocked(hitl_server: HitlServer, human: Human, blocked: Path) -> None:
    human.on("block_card").edit(card="4242", reason="stolen")
    reply = hitl_server(AGENT).send("block my card")
    assert (reply.content or "").splitlines() == ["The balance of checking is 123.45 USD.", "Card 4242 is blocked."]
    assert blocked.read_text() == "4242: stolen\n"
    assert human.seen[0].message == "A blocked card stays blocked."


def test_a_server_that_is_killed_while_it_waits_blocks_the_card_once(blocked: Path, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'hitl.db'}"
    with Served(AGENT, store=store) as first:
        session_id = first.api.create()
        asked = first.api.settled(session_id, "block my card", 1)["interrupts"][0]
        first.kill()
    with Served(AGENT, store=store) as second:
        ok(second.api.resume(session_id, asked["interrupt_id"], {"type": "approve"}))
        session = second.api.wait(session_id)
    assert session["response"]["content"].endswith("Card 4242 is blocked.")
    assert blocked.read_text() == "4242: the customer asks for it\n"
