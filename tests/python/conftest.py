"""How the whole suite is run: by how many processes, and what first."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.python.support import bytecode
from tests.python.support.frameworks import ELSEWHERE

collect_ignore_glob = [f"*/test_{prefix}{name}*.py" for name in ELSEWHERE for prefix in ("", "ext_")]

_begun: set[Path] = set()
"""The modules of which a test has run in this process."""

WAITING = 2
"""Processes besides one for each processor: half of the time of a test is a wait, for a server or for a timer."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """What `-n auto` means."""
    processors = yield
    return processors if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else processors + WAITING


def pytest_configure() -> None:
    """What is under test hears a SIGHUP, also where `nohup`, as whose child it would ignore it, runs the tests."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Before the processes that run the tests begin."""
    bytecode.write(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is imported and collected goes again: a collector that looks at it all every few modules is
    half of the time that takes, in each process of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that none of these runs when the others have nothing left to do."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the collector need not look at all of it every few tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """So does most of what the tests of a module leave: what they imported, records of what they came to."""
    if item.path not in _begun:
        _begun.add(item.path)
        gc.collect()
        gc.freeze()
