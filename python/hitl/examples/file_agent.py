"""A file assistant that asks before it moves or deletes anything.

    hitl serve hitl.examples.file_agent:agent
    hitl chat http://127.0.0.1:8000

It works on real files, in one directory: `HITL_FILES`, by default `./demo_files`, which is made with a few samples when
it is missing. With OPENROUTER_API_KEY or OPENAI_API_KEY a real model drives it (`HITL_MODEL` says which one); without
a key it is `DemoModel`, which follows fixed plans and needs no network. Agent, tools and approvals are the same.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from hitl import ReActAgent, ask_user_question, tool
from hitl.examples.demo_model import DemoModel, choose_model
from hitl.examples.sample_files import directory

LONGEST_TEXT = 20_000
"""Characters of a file that a model gets to see."""
MOST_FILES = 500


# --- one directory, and no way out of it --------------------------------------------------------------------------


def locate(path: str) -> Path:
    """Where `path` is inside the directory. `ValueError` for what could lead out of it."""
    root = directory()
    parts = PurePosixPath(path).parts
    if PurePosixPath(path).is_absolute() or ".." in parts or "\0" in path:
        raise ValueError(f"{path!r} leads out of the directory: paths are relative to it, without '..'")
    place = root
    for part in parts:
        place /= part
        if place.is_symlink():
            raise ValueError(f"{path!r} goes through a symbolic link, which may lead out of the directory")
    return place


def existing_file(path: str) -> Path:
    """The file at `path`; `FileNotFoundError` when there is none."""
    place = locate(path)
    if not place.is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    return place


# --- guardrails: what cannot work is not put before a person --------------------------------------------------------


def can_be_deleted(path: str) -> None:
    existing_file(path)


def can_be_moved(moves: dict[str, str]) -> None:
    taken: set[Path] = set()
    for source, destination in moves.items():
        existing_file(source)
        place = locate(destination)
        if place.exists() or taken & {place, *place.parents} or any(parent.is_file() for parent in place.parents):
            raise FileExistsError(f"{destination!r} is taken already")
        taken.add(place)


# --- tools ----------------------------------------------------------------------------------------------------------


@tool
def list_files(folder: str = ".") -> list[dict[str, Any]]:
    """List the files in a folder and below it, each with its path, its size and the day it was changed last.

    Args:
        folder: Relative to the assistant's directory; "." is all of it.
    """
    root, top = directory(), locate(folder)
    if not top.is_dir():
        raise NotADirectoryError(f"there is no folder {folder!r}")
    found: list[dict[str, Any]] = []
    for parent, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            place = Path(parent, name)
            if place.is_symlink() or not place.is_file():
                continue
            facts = place.stat()
            changed = datetime.fromtimestamp(facts.st_mtime, UTC).date().isoformat()
            path = place.relative_to(root).as_posix()
            found.append({"path": path, "bytes": facts.st_size, "modified": changed})
    return found[:MOST_FILES]


@tool
def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: Relative to the assistant's directory.
    """
    with existing_file(path).open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST_TEXT)


@tool(requires_approval=True, input_guardrails=[can_be_moved])
def move_files(moves: dict[str, str]) -> str:
    """Move or rename files. All of them are approved together; folders are made as needed, nothing is overwritten.

    Args:
        moves: The new path of each file, by its present path; both relative to the assistant's directory.
    """
    can_be_moved(moves)  # again: a person may have taken days to say yes
    for source, destination in moves.items():
        place = locate(destination)
        place.parent.mkdir(parents=True, exist_ok=True)
        existing_file(source).rename(place)
    places = [locate(destination).relative_to(directory()) for destination in moves.values()]
    if len(places) < 2:
        return f"moved 1 file to {places[0]}" if places else "moved no file"
    return f"moved {len(places)} files into {', '.join(sorted({str(place.parent) for place in places}))}"


@tool(requires_approval=True, input_guardrails=[can_be_deleted])
def delete_file(path: str) -> str:
    """Delete a file, for good.

    Args:
        path: Relative to the assistant's directory.
    """
    existing_file(path).unlink()
    return f"deleted {path}"


# --- the agent ------------------------------------------------------------------------------------------------------

SYSTEM_PROMPT = """\
You look after the files in one directory. List them before you say what is there; never guess a path.
When a request can be met in several ways, ask with ask_user_question; put a whole plan into one move_files call.
Moving and deleting are shown to a person, who may refuse. A refusal is final: do not try the same thing in another
way. Say what you heard, the reason included, and offer what else you could do. Answer in a sentence or two."""


client, model_name = choose_model(DemoModel())
agent = ReActAgent(
    client=client,
    model_name=model_name,
    name="file_agent",
    system_prompt=SYSTEM_PROMPT,
    tools=[list_files, read_file, move_files, delete_file, ask_user_question],
)
