"""A run of an agent of Strands that is carried from process to process, and the check before a deploy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hitl import Server
from hitl.client import Client
from tests.python.support.served import clean_environment

PROGRAM = """
import asyncio, json, sys
from pathlib import Path

import hitl
from strands import Agent, tool
from strands.models import Model
from strands.vended_interventions.hitl import HumanInTheLoop

def note(what):
    with Path("ledger").open("a") as ledger:
        ledger.write(what + chr(10))

class Player(Model):
    def get_config(self): return {}
    def update_config(self, **config): pass
    def structured_output(self, *args, **kwargs): raise NotImplementedError
    async def stream(self, messages, *args, **kwargs):
        note("model")
        yield {"messageStart": {"role": "assistant"}}
        if len(messages) > 1:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for name, id, args in (("pay", "1", {"cents": 1}), ("pay", "2", {"cents": 2}), ("look", "3", {})):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}

@tool
def pay(cents: int) -> str:
    "Pay."
    note(f"pay {cents}")
    return "paid"

@tool
def look() -> str:
    "Look."
    note("look")
    return "seen"

approval = HumanInTheLoop(allowed_tools=["look"])
agent = Agent(Player(), name="payer", tools=[pay, look], interventions=[approval])

async def main(path):
    if not path.exists():
        result = await hitl.run(agent, "go")
    else:
        state = hitl.RunState.from_string(agent, path.read_text())
        for asked in state.interrupts:
            state.approve(asked)
        result = await hitl.run(agent, state)
    if result.status == "interrupted":
        path.write_text(result.state.to_string())
    print(result.status, len(result.interrupts), result.output)

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payer.py").write_text(PROGRAM)
    return tmp_path / "payer.py"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=clean_environment(), capture_output=True, text=True, check=False
    )


def test_a_state_goes_from_process_to_process(program: Path) -> None:
    said = [python("payer.py", "state.json").stdout for _ in range(2)]
    assert said == ["interrupted 2 None\n", "idle 0 done\n"]
    done = sorted(Path("ledger").read_text().splitlines())
    assert done == ["look", "model", "model", "pay 1", "pay 2"]


def test_the_check_before_a_deploy_knows_what_waits(program: Path) -> None:
    store = "sqlite:payer.db"
    with Server("payer:agent", port=0, store=store, workers=1, park_after=0) as server, Client(server.url) as client:
        session = client.ask(client.create_session().session_id, "go")
        assert session.status == "interrupted"
    edits = [('"paid"', '"paid in full"', "goes on"), ('allowed_tools=["look"]', 'allowed_tools=["*"]', "breaks")]
    for before, after, verdict in edits:
        assert before in PROGRAM
        program.write_text(PROGRAM.replace(before, after))
        checked = python("-m", "hitl", "replay-check", "payer:agent", "--store", store)
        assert checked.stdout, checked.stderr
        assert [turn["verdict"] for turn in json.loads(checked.stdout)["turns"]] == [verdict], checked.stdout
