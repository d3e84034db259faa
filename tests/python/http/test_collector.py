"""Python's garbage collector, while an agent is imported and afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hitl
from hitl.client import Client
from tests.python.http.test_starts import THREADED

COUNTS = """
import gc
import json

from hitl import ChatMessage

counted = []
def count(phase, info):
    counted.append(phase)

gc.callbacks.append(count)
held = [[] for _ in range(100_000)]
gc.callbacks.remove(count)

async def agent(message, state):
    said = json.dumps([counted, gc.get_threshold(), gc.isenabled()])
    return ChatMessage.assistant_message(content=said), state
"""


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("", ""),
        (THREADED, ""),
        ("", "gc.set_threshold(0, 5)"),
        ("", "gc.set_threshold(*(at * 10 for at in gc.get_threshold()))"),
        ("", "gc.disable()"),
        ("", "was = gc.isenabled()\ngc.disable()\nif was: gc.enable()"),
    ],
    ids=[
        "forked",
        "not forked",
        "with a threshold of its own",
        "with a multiple of the threshold",
        "switched off",
        "switched off and on again",
    ],
)
def test_no_import_is_searched_for_garbage_and_what_runs_then_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str, ends: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counting.py").write_text(f"{begins}{COUNTS}\n{ends}\n")
    alone = f"import gc, json\n{ends}\nprint(json.dumps([[], gc.get_threshold(), gc.isenabled()]))"
    expected = subprocess.run([sys.executable, "-c", alone], check=True, capture_output=True, text=True).stdout
    with hitl.Server("counting:agent", port=0, store="memory") as server, Client(server.url) as client:
        response = client.ask(client.create_session().session_id, "go").response
    assert response is not None
    assert json.loads(response.content or "") == json.loads(expected)
