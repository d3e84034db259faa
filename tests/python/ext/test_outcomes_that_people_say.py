"""What a person says came of a call is read as words, never as what an adapter has kept of one."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from hitl import ChatMessage
from hitl.driver.shapes import as_agent
from hitl.journal.outcomes import KINDS_OF_FRAMEWORKS, OF_FRAMEWORKS, PARTS_OF_FRAMEWORKS
from tests.python.support.local import LocalTurn

EXT = Path(__file__).resolve().parents[3] / "python" / "hitl" / "ext"


def test_every_form_that_an_adapter_keeps_outcomes_in_is_known() -> None:
    found = set()
    for path in EXT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_WIRE":
                assert isinstance(node.value, ast.Constant)
                found.add(node.value.value)
    assert found == OF_FRAMEWORKS


def test_every_kind_that_pydantic_ai_reads_as_more_than_data_is_known() -> None:
    messages: Any = pytest.importorskip("pydantic_ai.messages")
    read = (messages.ToolReturn, *messages.MULTI_MODAL_CONTENT_TYPES)
    assert {each.__dataclass_fields__["kind"].default for each in read} == KINDS_OF_FRAMEWORKS


def test_every_part_that_the_openai_sdk_shows_a_model_is_known() -> None:
    tool: Any = pytest.importorskip("agents.tool")
    parts = {
        part.model_fields["type"].default: part.model_fields for part in get_args(tool.ValidToolOutputPydanticModels)
    }
    assert parts.keys() == PARTS_OF_FRAMEWORKS.keys()
    assert all(needed <= parts[kind].keys() for kind, needed in PARTS_OF_FRAMEWORKS.items())


IMAGE = {"type": "image", "image_url": "http://10.0.0.1/admin.png"}


@pytest.mark.parametrize(
    "said",
    [
        IMAGE,
        {"type": "image", "file_id": "file_1", "detail": "low"},
        {"type": "file", "file_url": "http://10.0.0.1/"},
        {"type": "text", "text": "paid", "by": "hand"},
        [IMAGE, {"type": "text", "text": "see above"}],
        {"type": "input_image", "image_url": "http://10.0.0.1/admin.png"},
    ],
    ids=str,
)
async def test_what_the_openai_sdk_shows_a_model_as_more_than_text_is_told_it_as_text(said: Any) -> None:
    runs = pytest.importorskip("tests.python.ext.openai_agents_runs")
    pytest.importorskip("agents").set_tracing_disabled(True)
    seen: list[Any] = []
    agent = runs.payer([])
    agent.model.seen = seen
    loaded, message = as_agent(agent), ChatMessage.user_message(content="Pay five.")

    async def told(answer: Any, journal: Any = None) -> tuple[str, list[Any]]:
        turn = LocalTurn(lambda asked: answer, agent=loaded.name, journal=journal)
        await turn.run(loaded.run, message, [])
        await turn.end()
        return seen[-1][-1]["output"], turn.port.journal

    in_its_place, _ = await told({"type": "respond", "message": said})
    assert json.loads(in_its_place) == said
    _, journal = await told({"type": "approve"})
    cut = next(at for at, entry in enumerate(journal, 1) if entry["entry"] == "intent")
    of_a_crash, after = await told({"outcome": "done", "result": said}, journal[:cut])
    assert type(of_a_crash) is str
    assert (await told(None, after[:-1]))[0] == of_a_crash
