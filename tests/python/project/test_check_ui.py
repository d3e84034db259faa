"""`tools/check_ui.py`, that the committed web inbox is what its source makes. `make lint` runs all of it."""

from __future__ import annotations

import importlib.util
import subprocess

import pytest

from tools import check_ui


def test_its_node_is_that_of_the_environment_whatever_the_system_has() -> None:
    node = check_ui.node()
    assert (node / "lib/node_modules/npm/bin/npm-cli.js").exists()
    said = subprocess.run([node / "bin/node", "--version"], capture_output=True, text=True, check=True).stdout
    assert int(said.removeprefix("v").partition(".")[0]) >= 20


def test_nothing_is_taken_for_compared_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="there is no node to compare the web inbox with"):
        check_ui.main()
