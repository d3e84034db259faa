"""SECURITY.md speaks of what there is: scopes, options and codes of `hitl serve`, and no address that nobody reads."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.python.docs.blocks import ROOT

POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_scope_has_its_row() -> None:
    scopes = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert scopes == ["read", "send", "answer", "admin"]
    assert re.findall(r"^\| a person with `(\w+)` \|", POLICY, re.MULTILINE) == scopes


def test_every_option_is_one_of_serve() -> None:
    command = [sys.executable, "-m", "hitl", "serve", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout
    for option in re.findall(r"`(--[\w-]+)", POLICY):
        assert option in shown, option


@pytest.mark.parametrize("document", ["SECURITY.md", "docs/security.md"])
def test_no_address_is_made_up(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert not re.findall(r"[\w.]+@[\w-]+\.\w+|https?://", text.replace("http://127.0.0.1:8000", ""))


def test_the_readme_leads_there() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
