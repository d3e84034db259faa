"""What checkers know of a program that uses hitl: the modules beside this one, the examples, the documents and the
docstrings, in pyright and mypy.

A line that is wrong, for checkers to find, has a comment `# pyright: ignore[...]`; one that no checker complains of any
more fails the test.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import hitl
import hitl.client
import hitl.hooks
import hitl.middleware
import hitl.models
import hitl.planner
import hitl.testing
from hitl.cli.init import project_files
from hitl.serving.options import ServeOptions
from tests.python.docs import docstrings
from tests.python.docs.blocks import DOCUMENTS
from tests.python.docs.snippets import programs_of
from tests.python.support.frameworks import ELSEWHERE, is_elsewhere
from tools.strict_types import complaints, examples_of

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = sorted(path for path in HERE.glob("*.py") if path.name not in ("__init__.py", Path(__file__).name))
STAND_INS = HERE / "stand_ins"
"""Interfaces of packages of which the recipes are not tested with the real ones."""
IN_THE_PACKAGE = [path for path in (ROOT / "python/hitl/examples").glob("*.py") if path.name != "__init__.py"]
EXAMPLES = sorted(
    {*(ROOT / "examples").glob("*.py"), *IN_THE_PACKAGE} - {path for name in ELSEWHERE for path in examples_of(name)}
)
"""Those of a framework with an environment of its own are checked there, as its page is: `tools.frameworks --types`."""
MODULES = (hitl, hitl.client, hitl.hooks, hitl.middleware, hitl.models, hitl.planner, hitl.testing)


@pytest.mark.slow
def test_pyright_in_strict_mode_agrees_with_the_programs_the_examples_and_the_documents(tmp_path: Path) -> None:
    """And with what `hitl init` writes. What its strict mode need not be kept of is in `tools/strict_types.py`."""
    files = [*PROGRAMS, *EXAMPLES]
    for document in DOCUMENTS:
        if not is_elsewhere(document):
            files += programs_of(document, tmp_path)
    written = {"docstrings.py": docstrings.program()}
    written |= {f"project/{name}": text for name, text in project_files() if name.endswith(".py")}
    (tmp_path / "project").mkdir()
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        files.append(tmp_path / name)
    assert complaints(files, stand_ins=[STAND_INS]) == []


@pytest.mark.slow
def test_pyright_is_in_its_strict_mode(tmp_path: Path) -> None:
    """A file that only the strict mode complains of, and one that a rule is switched off for, and keeps it."""
    loose, kept = tmp_path / "loose.py", tmp_path / "ext_langgraph.py"
    loose.write_text("def test_it(human):\n    human.approve()\n")
    kept.write_text("")
    said = complaints([loose, kept])
    assert any(line.startswith("loose.py:1: ") and line.endswith("(reportMissingParameterType)") for line in said)
    assert said[-1] == "ext_langgraph.py: reportUnknownVariableType is switched off for nothing"


@pytest.mark.slow
def test_mypy_in_strict_mode_complains_of_the_same_lines() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary", "--hide-error-context", *PROGRAMS],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert not checked.stderr
    complained = {
        (Path(found[1]).name, int(found[2]))
        for found in re.finditer(r"^(.+?):(\d+): error:", checked.stdout, re.MULTILINE)
    }
    assert complained == wrong_lines(), checked.stdout


def wrong_lines() -> set[tuple[str, int]]:
    return {
        (program.name, number)
        for program in PROGRAMS
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
        if "# pyright: ignore[" in line
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_programs_can_be_imported(program: Path) -> None:
    import_module(f"tests.python.typed.{program.stem}")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_programs_use_every_public_name(module: ModuleType) -> None:
    used = set().union(*map(names_in, PROGRAMS))
    assert set(module.__all__) - {"__version__"} <= used


def names_in(program: Path) -> set[str]:
    tree = ast.parse(program.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def test_a_server_is_typed_with_every_option_that_it_takes() -> None:
    types = get_type_hints(ServeOptions)
    # But for the one that is no keyword.
    options = {option.name: types[option.name] for option in fields(ServeOptions) if option.name != "agent"}
    assert get_type_hints(hitl.ServerOptions) == options
