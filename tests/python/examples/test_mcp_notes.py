"""Notes behind a gate: the tools of a real MCP server, of which only those that read are free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.support.api import Api, ok
from tests.python.support.served import Served

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "garden.txt").write_text("water the beans")
    (folder / "house.txt").write_text("paint the door")
    return folder


@pytest.fixture(scope="module")
def api(notes: Path) -> Iterator[Api]:
    with Served("examples.mcp_notes:agent", environment={"NOTES": str(notes)}) as served:
        yield served.api


def test_reading_asks_nobody(api: Api) -> None:
    session = api.settled(api.create(), "show the notes", 0)
    assert session["response"]["content"] == "garden: water the beans\nhouse: paint the door"
    decided = {record["rule"] for record in ok(api.get("/interrupts")) if record["session_id"] == session["session_id"]}
    assert decided == {"on_approval"}


def test_writing_waits_for_somebody(api: Api, notes: Path) -> None:
    session_id = api.create()
    (asked,) = api.settled(session_id, "write milk to shopping", 1)["interrupts"]
    assert asked["payload"]["tool_name"] == "write_note"
    assert not (notes / "shopping.txt").exists()
    edit = {"approved": True, "args": {"name": "shopping", "text": "oat milk"}}
    ok(api.resume(session_id, asked["interrupt_id"], edit))
    assert "shopping has 8 characters now" in api.wait(session_id)["response"]["content"]
    assert (notes / "shopping.txt").read_text() == "oat milk"


def test_a_rule_means_the_server_by_its_name_as_the_documents_say(notes: Path, tmp_path: Path) -> None:
    (when,) = re.findall(r"`when = \"(source == .+?)\"`", (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8"))
    with Served("examples.mcp_notes:agent", environment={"NOTES": str(notes)}) as served:
        session_id = served.api.create()
        (asked,) = served.api.settled(session_id, "write milk to shopping", 1)["interrupts"]
        source = asked["tool_source"]
    assert re.fullmatch(r"mcp:notes:[0-9a-f]{16}", source)
    # As the document has it, and as somebody may have written it who has read the record.
    for says in (when, f"source == '{source}'"):
        path = tmp_path / "policy.toml"
        path.write_text(f'[[rule]]\nname = "no-notes"\neffect = "deny"\ntool = "*"\nwhen = "{says}"\n')
        with Served("examples.mcp_notes:agent", environment={"NOTES": str(notes)}, policy=path) as served:
            served.api.settled(served.api.create(), "show the notes", 0)
            denied = {record["rule"] for record in ok(served.api.get("/interrupts"))}
        assert denied == {"policy:no-notes"}, says
