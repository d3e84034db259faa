"""Frameworks that have an environment of their own, and what of the project can be imported without."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.frameworks import ENVIRONMENTS, OLDEST, groups

ROOT = Path(__file__).resolve().parents[3]

HERE = Path(sys.prefix).name.removeprefix(OLDEST) if Path(sys.prefix).parent == ENVIRONMENTS else None
"""Whose environment this is."""

ELSEWHERE = frozenset(groups()) - {HERE}
"""Those that this environment does not have: `make test-frameworks` runs their tests where they are."""


def is_elsewhere(document: str) -> bool:
    """Whether it is the page of a framework that is not here."""
    return document.removeprefix("docs/").removesuffix(".md").replace("-", "_") in ELSEWHERE


def modules() -> list[str]:
    """Every module of hitl that can be imported here, and does not run when it is."""
    names = []
    for path in sorted((ROOT / "python" / "hitl").rglob("*.py")):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        is_missing = parts[1:2] == ("ext",) and parts[2:3] and parts[2] in ELSEWHERE
        if parts[-1] != "__main__" and not is_missing:
            names.append(name)
    return names
