"""A run of another framework's agent that is carried from process to process, and the check before a deploy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hitl import Server
from hitl.client import Client
from tests.python.support.served import clean_environment

PYDANTIC_AI = """
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

def model(messages, info):
    note("model")
    if len(messages) > 1:
        return ModelResponse(parts=[TextPart("done")])
    calls = [ToolCallPart("pay", {"cents": cents}, tool_call_id=str(cents)) for cents in (1, 2)]
    return ModelResponse(parts=[*calls, ToolCallPart("look", {}, tool_call_id="look")])

agent = Agent(FunctionModel(model), name="payer")

@agent.tool_plain(requires_approval=True)
def pay(cents: int) -> str:
    note(f"pay {cents}")
    return "paid"

@agent.tool_plain
def look() -> str:
    note("look")
    return "seen"
"""

OPENAI_AGENTS = """
from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call

set_tracing_disabled(True)

class Scripted(Model):
    async def get_response(self, system_instructions, input, *asked, **more):
        note("model")
        calls = [function_call("pay", {"cents": cents}, call_id=str(cents)) for cents in (1, 2)]
        calls.append(function_call("look", {}, call_id="look"))
        output = [assistant_message("done")] if len(input) > 1 else calls
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *asked, **more):
        raise NotImplementedError

@function_tool(needs_approval=True)
def pay(cents: int) -> str:
    note(f"pay {cents}")
    return "paid"

@function_tool
def look() -> str:
    note("look")
    return "seen"

agent = Agent(name="payer", model=Scripted(), tools=[pay, look])
"""

LANGGRAPH = """
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

class Model(BaseChatModel):
    _llm_type = "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *args, **options):
        note("model")
        calls = [{"name": "pay", "args": {"cents": cents}, "id": str(cents)} for cents in (1, 2)]
        calls.append({"name": "look", "args": {}, "id": "look"})
        reply = AIMessage("done") if len(messages) > 1 else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])

def pay(cents: int) -> str:
    "Pay."
    note(f"pay {cents}")
    return "paid"

def look() -> str:
    "Look."
    note("look")
    return "seen"

requires_approval=True
gate = HumanInTheLoopMiddleware({"pay": requires_approval}, interrupt_mode="per_call")
agent = create_agent(Model(), [pay, look], middleware=[gate], name="payer")
"""

BEFORE = """
import asyncio, sys
from pathlib import Path

import hitl

def note(what):
    with Path("ledger").open("a") as ledger:
        ledger.write(what + chr(10))
"""

AFTER = """
async def main(path):
    if not path.exists():
        result = await hitl.run(agent, "go")
    else:
        state = hitl.RunState.from_string(agent, path.read_text())
        result = await hitl.run(agent, state.approve(state.interrupts[-1]))
    if result.status == "interrupted":
        path.write_text(result.state.to_string())
    print(result.status, len(result.interrupts), result.output)

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
"""


AGENTS = {"langgraph": LANGGRAPH, "openai_agents": OPENAI_AGENTS, "pydantic_ai": PYDANTIC_AI}
PROGRAMS = {name: BEFORE + agent + AFTER for name, agent in AGENTS.items()}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payer.py").write_text(PROGRAMS[request.param])
    return tmp_path / "payer.py"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=clean_environment(), capture_output=True, text=True, check=False
    )


def test_a_state_goes_from_process_to_process(program: Path) -> None:
    said = [python("payer.py", "state.json").stdout for _ in range(3)]
    assert said == ["interrupted 2 None\n", "interrupted 1 None\n", "idle 0 done\n"]
    done = sorted(Path("ledger").read_text().splitlines())
    assert done == ["look", "model", "model", "pay 1", "pay 2"]


def test_the_check_before_a_deploy_knows_what_waits(program: Path) -> None:
    store = "sqlite:payer.db"
    with Server("payer:agent", port=0, store=store, workers=1, park_after=0) as server, Client(server.url) as client:
        session = client.ask(client.create_session().session_id, "go")
        assert session.status == "interrupted"
    text = program.read_text()
    edits = {
        "goes on": ('"paid"', '"paid in full"'),  # what a tool says
        "breaks": ("_approval=True", "_approval=False"),  # that nobody is asked
    }
    for verdict, edit in edits.items():
        assert edit[0] in text
        program.write_text(text.replace(*edit))
        report = checked(store)
        assert [turn["verdict"] for turn in report["turns"]] == [verdict], report


def checked(store: str) -> dict[str, Any]:
    done = python("-m", "hitl", "replay-check", "payer:agent", "--store", store)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report
