"""The files `file_agent` starts with, so that there is something to delete, to organise and to read."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

SAMPLES: dict[str, tuple[str, str]] = {
    "old_logs.txt": ("2023-02-11", "2023-02-11 04:12:55 WARN disk 91 % full\n" * 40),
    "todo.txt": ("2025-06-02", "- renew the passport\n- organise the downloads, some day\n"),
    "downloads/budget.csv": ("2025-01-19", "month,spent\n2025-01,1840\n2025-02,1725\n"),
    "downloads/lease.txt": ("2024-09-01", "The flat on the third floor is let from 1 October.\n"),
    "downloads/logo.svg": (
        "2024-09-14",
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle cx="4" cy="4" r="4"/></svg>\n',
    ),
    "downloads/measurements.csv": ("2025-01-03", "second,volts\n" + "".join(f"{n},3.3\n" for n in range(20_000))),
    "downloads/recipe.txt": ("2025-05-25", "Four eggs, a spoon of flour, patience.\n"),
}
"""Path -> the day it was changed last, and its text."""


def directory() -> Path:
    """The directory that `file_agent` looks after; made with the samples when it does not exist."""
    path = Path(os.environ.get("HITL_FILES") or "demo_files").resolve()
    if not path.exists():
        make_sample_files(path)
    return path


def missing(path: Path) -> list[str]:
    """Which of the samples are not there any more."""
    return [name for name in SAMPLES if not (path / name).exists()]


def make_sample_files(path: Path) -> None:
    """Make the directory `path` with the samples in it, all at once: two turns may try at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".samples-") as temporary:
        fresh = Path(temporary, "files")
        for name, (day, text) in SAMPLES.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            seconds = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC).timestamp()
            os.utime(file, (seconds, seconds))
        try:
            fresh.rename(path)
        except OSError:
            if not path.is_dir():  # if it is one, another turn was quicker, and its files are the same
                raise
