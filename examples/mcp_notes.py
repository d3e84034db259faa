"""The tools of an MCP server behind a gate: those that only read are free, whatever else it has is asked about.

    hitl serve examples.mcp_notes:agent
    hitl chat http://127.0.0.1:8000 "write milk and eggs to shopping"

The server is this file too, over stdin and stdout: `python -m examples.mcp_notes`. Any other is given in the same way,
`MCPTools("uvx some-server")` or `MCPTools(url="https://...")`. Its notes are in `NOTES` (`notes`).

The list is of what is free, and not of what is asked: a tool that the server gets with its next release waits for
somebody before it has run once. With OPENROUTER_API_KEY or OPENAI_API_KEY a real model drives it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from mcp.server import MCPServer

from hitl import ApprovalRequest, Decision, MCPTools, ReActAgent
from hitl.examples.demo_model import DemoModel, Plan, choose_model, error_of

NOTES = Path(os.environ.get("NOTES") or "notes").resolve()

# --- the server: somebody else's, as a rule ---------------------------------------------------------------------------

server = MCPServer("notes")


def note(name: str) -> Path:
    """Where a note is."""
    if re.fullmatch(r"[a-z]+", name) is None:
        raise ValueError(f"a note's name is of small letters, and not {name!r}")
    return NOTES / f"{name}.txt"


@server.tool()
def list_notes() -> str:
    """The names of all notes, one a line."""
    return "\n".join(sorted(path.stem for path in NOTES.glob("*.txt")))


@server.tool()
def read_note(name: str) -> str:
    """What a note says."""
    return note(name).read_text(encoding="utf-8")


@server.tool()
def write_note(name: str, text: str) -> str:
    """Write a note, over what it said before."""
    NOTES.mkdir(exist_ok=True)
    note(name).write_text(text, encoding="utf-8")
    return f"{name} has {len(text)} characters now"


@server.tool()
def delete_note(name: str) -> str:
    """Delete a note."""
    note(name).unlink()
    return f"{name} is gone"


# --- the gate ---------------------------------------------------------------------------------------------------------

FREE = {"list_notes", "read_note"}


def only_reads(request: ApprovalRequest) -> Decision | None:
    """Let what is known to read run; None leaves all else to a person."""
    return Decision.approve() if request.tool_name in FREE else None


notes = MCPTools(
    [sys.executable, "-m", "examples.mcp_notes"],
    name="notes",
    env={"NOTES": str(NOTES), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    requires_approval=True,
    on_approval=only_reads,
)

# --- a model without a mind, for those who have no key: see hitl.examples.demo_model --------------------------------


def write(request: str) -> Plan:
    """`write milk and eggs to shopping`."""
    found = re.search(r"write (.+) to (\w+)", request)
    assert found is not None
    result = yield "write_note", {"name": found[2], "text": found[1]}
    return f"I was told: {error}" if (error := error_of(result)) else f"Done: {result}."


def delete(request: str) -> Plan:
    """`delete shopping`."""
    result = yield "delete_note", {"name": request.split()[-1]}
    return f"I was told: {error}" if (error := error_of(result)) else f"Done: {result}."


def show(request: str) -> Plan:
    """All of them, read at the same time."""
    listed: str = yield "list_notes", {}
    if not (names := listed.split()):
        return "There are no notes."
    texts: list[str] = yield [("read_note", {"name": name}) for name in names]
    return "\n".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


OFFLINE = DemoModel(
    [(r"write .+ to \w+", write), (r"delete \w+", delete), ("show|list|read|what", show)],
    "I can: show the notes, write TEXT to NAME, delete NAME.",
)
client, model_name = choose_model(OFFLINE)
agent = ReActAgent(
    client=client,
    model_name=model_name,
    name="secretary",
    system_prompt="You keep somebody's notes. A refusal is final; say what you heard.",
    tools=[notes],
)

if __name__ == "__main__":
    server.run()
