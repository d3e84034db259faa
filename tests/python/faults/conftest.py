"""Worlds: see `world.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.python.faults.world import World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes a world; its server does not outlive the test."""
    made: list[World] = []

    def make(**options: object) -> World:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(World(directory, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for world in made:
        world.close()
