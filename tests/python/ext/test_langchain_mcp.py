"""Tools of MCP servers in an agent of LangChain, whose own client for them needs an environment of its own."""

from __future__ import annotations

from pathlib import Path

from tests.python.ext.kills import kill_and_go_on
from tests.python.ext.proof import Ledger
from tests.python.support.mcp_over_http import mcp_over_http


def test_servers_are_connected_anew_by_whoever_goes_on_after_a_kill(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    arguments = ["-m", "tests.python.ext.shelf", "shelf"]
    with mcp_over_http(arguments, tmp_path / "url", LEDGER=str(ledger.path)) as shelf:
        kill_and_go_on("langgraph", "task", ledger, shelf, f"sqlite:{tmp_path / 'hitl.db'}")
