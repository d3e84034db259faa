"""What is installed in this Python's environment."""

from __future__ import annotations

import importlib.metadata


def pins() -> list[str]:
    """What is installed beside this project."""
    found = {(item.metadata["Name"], item.version) for item in importlib.metadata.distributions()}
    return sorted(f"{name}=={version}" for name, version in found if name != "hitl-runtime")
