"""Every Python block of the documents runs; a `test_...` function in one is a test with the plugin's fixtures.

The blocks of a document are one program: each sees the names of those before it, and what is a file by then can be
imported. `print(...)  # text` prints the text.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import types
from typing import Any

import pytest

from tests.python.docs.blocks import DOCUMENTS, Block, blocks, files_before
from tests.python.support.frameworks import is_elsewhere

PYTHON = [
    block
    for document in DOCUMENTS
    if not is_elsewhere(document)
    for block in blocks(document)
    if block.language == "python"
]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"{block.document}:{block.line}")
def test_it_runs(
    block: Block,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    files = files_before(block.document, block.line)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    if files:
        monkeypatch.syspath_prepend(tmp_path)
    names = run_up_to(block)
    documented = [
        text
        for other in PYTHON
        if other.document == block.document and other.line <= block.line
        for text in re.findall(r"^ *print\(.*\)  # (.*)$", other.text, re.MULTILINE)
    ]
    assert capsys.readouterr().out.splitlines() == documented
    if block.file is not None:  # its tests have fixtures of their own, and the page types `pytest`
        return
    for name, test in names.items():
        if name.startswith("test_") and test.__code__.co_filename.endswith(f":{block.line}"):
            given = test(
                **{fixture: request.getfixturevalue(fixture) for fixture in inspect.signature(test).parameters}
            )
            if inspect.iscoroutine(given):
                asyncio.run(given)


def run_up_to(block: Block) -> dict[str, Any]:
    module = types.ModuleType("documented")
    sys.modules["documented"] = module  # as every program's module is: its classes are found there
    for other in PYTHON:
        if other.document == block.document and other.line <= block.line:
            exec(compile(other.text, f"{other.document}:{other.line}", "exec"), module.__dict__)
    return module.__dict__
