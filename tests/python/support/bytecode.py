"""The tests' bytecode, written once before any process of the tests begins.

In a fresh clone each of them would compile all files, and rewrite the assertions in them, as all the others do.
"""

from __future__ import annotations

import compileall
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parents[3]
PLAIN = (ROOT / "python" / "hitl", ROOT / "tests" / "python", ROOT / "benchmarks")


def write(config: pytest.Config) -> None:
    """Write what is missing of it or old, on all processors."""
    if sys.dont_write_bytecode:
        return
    named = [Path(config.invocation_params.dir, name.partition("::")[0]) for name in config.args]
    tests = {
        file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path]) if file.is_file()
    }
    plain = {file for folder in PLAIN for file in folder.rglob("*.py") if not file.name.startswith("test_")}
    # The large ones first, so that all have as much to do.
    files = sorted(tests | plain, key=lambda file: file.stat().st_size, reverse=True)
    processors = os.cpu_count() or 1
    children = []
    for number in range(processors):
        child = os.fork()
        if child == 0:
            try:
                write_some(config, files[number::processors], tests)
            except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the parent's code
                traceback.print_exc()
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def write_some(config: pytest.Config, files: Iterable[Path], tests: set[Path]) -> None:
    """Of these files, of which some are tests. What cannot be compiled is told by whoever imports it."""
    for file in files:
        if file not in tests and file.name != "conftest.py":
            compileall.compile_file(file, quiet=2)
            continue
        cached = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(file, cached) is None:
            try:
                source_hash, code = rewrite._rewrite_test(file, config)
            except SyntaxError:
                continue
            cached.parent.mkdir(parents=True, exist_ok=True)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, cached)
