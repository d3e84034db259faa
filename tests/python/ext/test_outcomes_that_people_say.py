"""What a person says came of a call is read as words, never as what an adapter has kept of one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from hitl.journal.outcomes import KINDS_OF_FRAMEWORKS, OF_FRAMEWORKS

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
