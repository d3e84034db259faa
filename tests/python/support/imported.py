"""What a test has written and imported, taken away again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def forget(below: Path) -> None:
    """Forget modules and packages that are in there. Others that came with them are everybody's: a second one of ours
    would have classes of its own."""
    for name, module in list(sys.modules.items()):
        if any(Path(place).is_relative_to(below) for place in _places(module)):
            del sys.modules[name]
    importlib.invalidate_caches()


def _places(module: object) -> list[str]:
    members = vars(module) if type(module) is ModuleType else {}  # what else is there may be anything
    places = [members.get("__file__"), *members.get("__path__", [])]
    return [place for place in places if isinstance(place, str)]
