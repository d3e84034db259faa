"""A directory for the file assistant, and no key: the offline model drives it unless a test says otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.python.support.served import zygotes_python


@pytest.fixture(autouse=True)
def _forked_zygotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", zygotes_python())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the assistant works; it does not exist yet, so the first use fills it with samples."""
    for variable in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "HITL_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    directory = tmp_path / "files"
    monkeypatch.setenv("HITL_FILES", str(directory))
    return directory
