"""See the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tool(name: str) -> Callable[[Callable[..., Any]], Any]:
    raise NotImplementedError
