"""The chromium that tests, pictures and benchmarks of the web inbox open."""

from __future__ import annotations

import os
import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The shell first: the same engine without the windows of a desktop, which cost as much again. `tools/browser.sh` looks
for the same, and fetches one where there is none."""


def launch(playwright: Playwright) -> Browser:
    """`HITL_CHROMIUM`, or the first that the machine has; without one, what `playwright install` has fetched."""
    found = os.environ.get("HITL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    # Containers run tests as root, where chromium has no sandbox; it visits nothing but our own server.
    return playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
