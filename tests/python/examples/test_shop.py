"""A database in the tools of an agent."""

from __future__ import annotations

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

    assert said("bob", "refund A-1") == "bob has no open order A-1"
    assert said("ada", "refund A-1") == "refunded 900 cents"
    assert said("ada", "orders") == "You have no open order."
    assert said("bob", "orders") == 'Your orders: B-2. Say "refund B-2".'
    assert [asked.tool_args for asked in human.seen] == [{"number": "A-1"}, {"number": "A-1"}]


def test_in_a_chat_where_nobody_says_who_it_is_there_is_an_order_to_try_it_with(
    hitl_server: HitlServer, human: Human, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))
    human.on("refund").approve()
    server = hitl_server("hitl.examples.shop:agent")
    assert server.send("what is there?").content == 'Your orders: A-1. Say "refund A-1".'
    assert server.send("refund A-1").content == "refunded 900 cents"
