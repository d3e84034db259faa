"""A database in the tools of an agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hitl.testing import HitlServer, Human


def test_whoever_sent_the_message_gets_their_own_money_back(
    hitl_server: HitlServer, human: Human, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))
    human.on("refund").approve()
    server = hitl_server("hitl.examples.shop:agent", park_after=0)

    def said(customer: str, content: str) -> str | None:
        return server.send({"role": "user", "content": content, "user_params": {"customer": customer}}).content

    assert said("bob", "refund A-1") == "bob has no order A-1"
    assert said("ada", "refund A-1") == "refunded 900 cents"
    assert said("ada", "orders") == "[]"
    assert json.loads(said("bob", "orders") or "") == [{"number": "B-2", "cents": 500}]
    assert [asked.tool_args for asked in human.seen] == [{"number": "A-1"}, {"number": "A-1"}]
