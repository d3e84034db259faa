"""What a person says came of a call is read as words, never as what an adapter has kept of one."""

from __future__ import annotations

import ast
from pathlib import Path

from hitl.journal.outcomes import OF_FRAMEWORKS

EXT = Path(__file__).resolve().parents[3] / "python" / "hitl" / "ext"


def test_every_form_that_an_adapter_keeps_outcomes_in_is_known() -> None:
    found = set()
    for path in EXT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_WIRE":
                assert isinstance(node.value, ast.Constant)
                found.add(node.value.value)
    assert found == OF_FRAMEWORKS
