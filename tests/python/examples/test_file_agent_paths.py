"""No path leads out of the file assistant's directory, whoever asks and however it is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitl.examples import file_agent
from hitl.examples.sample_files import SAMPLES, make_sample_files


@pytest.fixture(autouse=True)
def outside(files: Path) -> Path:
    """A file beside the directory, which must survive everything."""
    make_sample_files(files)
    (files / "way_out").symlink_to(files.parent)
    (files / "link.txt").symlink_to(files.parent / "outside.txt")
    secret = files.parent / "outside.txt"
    secret.write_text("secret")
    return secret


WAYS_OUT = [
    "../outside.txt",
    "downloads/../../outside.txt",
    "/etc/passwd",
    "way_out/outside.txt",
    "link.txt",
    "downloads/\0.txt",
]

USES: dict[str, Callable[[str], Any]] = {
    "list": lambda path: file_agent.list_files.function(path),
    "read": lambda path: file_agent.read_file.function(path),
    "delete": lambda path: file_agent.delete_file.function(path),
    "move from": lambda path: file_agent.move_files.function({path: "mine.txt"}),
    "move to": lambda path: file_agent.move_files.function({"todo.txt": path}),
    "ask to delete": lambda path: file_agent.can_be_deleted(path),
    "ask to move": lambda path: file_agent.can_be_moved({"todo.txt": path}),
}


@pytest.mark.parametrize("path", WAYS_OUT)
@pytest.mark.parametrize("use", USES)
def test_a_way_out_is_refused(outside: Path, files: Path, use: str, path: str) -> None:
    with pytest.raises(ValueError, match="out of the directory"):
        USES[use](path)
    assert outside.read_text() == "secret"
    assert (files / "todo.txt").exists()


@pytest.mark.parametrize("folder", ["nowhere", "todo.txt"])
def test_a_folder_that_is_none_is_an_error(folder: str) -> None:
    with pytest.raises(NotADirectoryError, match="there is no folder"):
        file_agent.list_files.function(folder)


def test_links_are_not_listed(files: Path) -> None:
    assert {entry["path"] for entry in file_agent.list_files.function()} == SAMPLES.keys()


@pytest.mark.parametrize(
    "moves",
    [
        {"todo.txt": "old_logs.txt"},
        {"todo.txt": "downloads"},
        {"todo.txt": "old_logs.txt/below"},
        {"todo.txt": "new.txt", "old_logs.txt": "new.txt"},
        {"todo.txt": "new", "old_logs.txt": "new/below.txt"},
    ],
)
def test_nothing_is_overwritten_and_no_plan_is_half_done(files: Path, moves: dict[str, str]) -> None:
    with pytest.raises(FileExistsError, match="taken already"):
        file_agent.move_files.function(moves)
    assert all((files / path).read_text() == text for path, (_, text) in SAMPLES.items())


def test_samples_that_another_turn_was_quicker_to_make_are_kept(files: Path) -> None:
    (files / "todo.txt").write_text("changed")
    make_sample_files(files)
    assert (files / "todo.txt").read_text() == "changed"
    assert [place.name for place in files.parent.iterdir() if place.name.startswith(".samples")] == []
