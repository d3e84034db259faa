"""What really happened: effects of tools and questions to policies, as lines of files that every process may write."""

from __future__ import annotations

from pathlib import Path


class Ledger:
    """The effects of one conversation. `lines` is read from disk, whoever wrote it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._effects = folder / "effects"
        self._policy = folder / "policy"

    def write(self, line: str) -> None:
        """A tool has done something."""
        _append(self._effects, line)

    def policy_asked(self, line: str) -> None:
        """A policy was asked about a call."""
        _append(self._policy, line)

    @property
    def lines(self) -> list[str]:
        """The effects so far, in order."""
        return _lines(self._effects)

    @property
    def policy_lines(self) -> list[str]:
        """What policies were asked so far, in order."""
        return _lines(self._policy)


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{line}\n")


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
