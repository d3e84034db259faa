"""What pyright says of files in its strict mode: for `tests/python/typed` and `tools.frameworks`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

SWITCHED_OFF: dict[str, tuple[str, ...]] = {
    # Each example is the body of a function: what it makes is for the reader to go on with.
    "docstrings.py": ("reportUnusedClass", "reportUnusedFunction", "reportUnusedVariable"),
    # LangChain and LangGraph leave out type arguments (`BaseCheckpointSaver`, `Command`) where they say what they take,
    # and pyright does not find that they are typed where several packages are one folder, as `langgraph` is.
    "docs_langgraph.py": ("reportMissingTypeStubs", "reportUnknownMemberType", "reportUnknownVariableType"),
    "ext_langgraph.py": ("reportUnknownVariableType",),
    # So does Strands, of the schema that its decorator takes.
    "docs_strands.py": ("reportUnknownVariableType",),
    "ext_strands.py": ("reportUnknownVariableType",),
}
"""The rules of the strict mode that a file cannot keep, by its name, and why. One that it keeps is a complaint."""


def examples_of(name: str) -> list[Path]:
    """The examples of one framework."""
    return sorted((ROOT / "examples").glob(f"*_{name}.py"))


def complaints(files: Iterable[Path], python: Path | str = sys.executable, stand_ins: Sequence[Path] = ()) -> list[str]:
    """`FILE:LINE: what is wrong (rule)`, in the environment of `python`; a comment that ignores nothing is wrong too.

    files: checked as copies, so that what the project is configured for does not count. Packages of `stand_ins` take
    the place of those that are not installed. Raises `RuntimeError` where pyright does not run, or looks at fewer of
    them.
    """
    given = list(files)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in given:
            # Below a folder that is called as theirs: examples import each other.
            place = folder / path.parent.name / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        config: dict[str, Any] = {
            "extraPaths": [str(ROOT / "python"), str(ROOT), *map(str, stand_ins)],
            "pythonVersion": "3.11",
            "strict": ["."],
            "reportUnnecessaryTypeIgnoreComment": "error",
        }
        (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
        checked = subprocess.run(
            [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), "--project", name],
            capture_output=True,
            text=True,
            env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
            check=False,
        )
    if not checked.stdout.startswith("{"):
        raise RuntimeError(f"pyright did not run: {checked.stdout}{checked.stderr}")
    report = json.loads(checked.stdout)
    if (looked_at := report["summary"]["filesAnalyzed"]) != len(given):
        raise RuntimeError(f"pyright looked at {looked_at} files, and not at {len(given)}")
    said: list[str] = []
    unbroken = {(path.name, rule) for path in given for rule in SWITCHED_OFF.get(path.name, ())}
    for wrong in report["generalDiagnostics"]:
        file, rule = Path(wrong["file"]).name, wrong.get("rule")
        if rule in SWITCHED_OFF.get(file, ()):
            unbroken.discard((file, rule))
        else:
            said.append(f"{file}:{wrong['range']['start']['line'] + 1}: {wrong['message']} ({rule})")
    return said + [f"{file}: {rule} is switched off for nothing" for file, rule in sorted(unbroken)]
