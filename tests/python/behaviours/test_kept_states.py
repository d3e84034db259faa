"""States that releases have written are read by this one, and what comes of them is the same."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

import hitl
from tests.python.behaviours.faces.run import RunFace
from tests.python.behaviours.kept_states import FOLDER, STATES, go_on
from tests.python.behaviours.scenes import Scene

FILES = sorted(FOLDER.rglob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_kept_state_goes_on(file: Path, tmp_path: Path) -> None:
    kept = json.loads(file.read_text(encoding="utf-8"))
    with ExitStack() as cleanup:
        face = RunFace(tmp_path, cleanup)
        talk = face.reopen(Scene.from_json(kept["scene"]), {"state": json.dumps(kept["state"])})
        assert talk.waiting(), "it waits for somebody"
        assert go_on(talk) == kept["then"]


def test_this_release_has_kept_its_states() -> None:
    kept = {file.stem for file in FILES if file.parent.name == hitl.__version__}
    assert kept == {name.replace(" ", "_") for name in STATES}
