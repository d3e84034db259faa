"""What pyright says of files, in its strict mode where it should: for `tests/python/typed` and `tools.frameworks`."""

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


def examples_of(name: str) -> list[Path]:
    """The examples of one framework."""
    return sorted((ROOT / "examples").glob(f"*_{name}.py"))


def complaints(
    strict: Iterable[Path],
    plain: Iterable[Path] = (),
    python: Path | str = sys.executable,
    stand_ins: Sequence[Path] = (),
) -> list[str]:
    """`FILE:LINE: what is wrong (rule)`, in the environment of `python`; a comment that ignores nothing is wrong too.

    strict, plain: the files, checked as copies, so that what the project is configured for does not count. Packages of
    `stand_ins` take the place of those that are not installed. Raises `RuntimeError` where pyright does not run, or
    looks at fewer files.
    """
    given = [*((path, "strict") for path in strict), *((path, "plain") for path in plain)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path, kind in given:
            # Below a folder that is called as theirs: examples import each other.
            place = (
                folder / (f"{kind}/{path.parent.name}" if path.parent.name != "examples" else "examples") / path.name
            )
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        config: dict[str, Any] = {
            "extraPaths": [str(ROOT / "python"), str(ROOT), *map(str, stand_ins)],
            "pythonVersion": "3.11",
            "strict": ["strict", "examples"],
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
        return [
            f"{Path(wrong['file']).name}:{wrong['range']['start']['line'] + 1}: "
            f"{wrong['message']} ({wrong.get('rule')})"
            for wrong in report["generalDiagnostics"]
        ]
