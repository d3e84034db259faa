"""Runs and servers on a Python that hitl is not tested on: refused, until somebody says that they may.

There is none here, so that a new process says that it is one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hitl import _core, pythons

NEXT = int(_core.PYTHONS[-1].partition(".")[2]) + 1

LATER = f"""
import collections, sys
import hitl
from pydantic import TypeAdapter  # what a library imports later would look at the version too
hitl.run, hitl.stream, hitl.run_sync, hitl.Server, hitl.Store
import hitl.cli.failures, hitl.client, hitl.worker.inprocess
version = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = version(3, {NEXT}, 0, "final", 0)
"""

FREE_THREADED = """
import sys, sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
sys.modules["hitl._core"] = None  # what is built for the stable ABI cannot be imported there
import hitl
"""

AGENT = """
import asyncio
from hitl import ChatMessage
async def agent(message, state):
    return ChatMessage.assistant_message(content="done"), [*state, message]
"""

WAYS = {
    "run": "result = asyncio.run(hitl.run(agent, 'hi'))",
    "run_sync": "result = hitl.run_sync(agent, 'hi')",
    "stream": "async def heard(): return [event async for event in hitl.stream(agent, 'hi')]\nasyncio.run(heard())",
    "server": "with hitl.Server(agent, port=0, store='memory') as server: print(server.url)",
    "server of a module": "hitl.Server('hitl.examples.file_agent:agent', port=0, store='memory').start()",
}

SAID = """
try:
    {way}
except hitl.HitlError as error:
    print(type(error).__name__, error.code, error, sep="|")
"""


def python(code: str, *, allow: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != pythons.ALLOW}
    if allow is not None:
        environment[pythons.ALLOW] = allow
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def said(kind: str, way: str) -> str:
    done = python(kind + AGENT + SAID.format(way=way.replace("\n", "\n    ")))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_python_that_no_test_ran_on_is_refused(way: str) -> None:
    name, code, message = said(LATER, way).split("|")
    assert (name, code) == ("PythonUntested", "python_untested")
    assert all(minor in message for minor in (*_core.PYTHONS, f"3.{NEXT}"))
    assert "set HITL_ALLOW_UNTESTED_PYTHON=1" in message


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_free_threaded_build_is_refused_although_it_has_no_core_to_ask(way: str) -> None:
    name, code, message = said(FREE_THREADED, way).split("|")
    assert (name, code) == ("PythonUntested", "python_untested")
    assert "free-threaded" in message
    assert "set HITL_ALLOW_UNTESTED_PYTHON=1" in message


@pytest.mark.parametrize("kind", [LATER, FREE_THREADED], ids=["later", "free-threaded"])
def test_the_import_alone_is_neither_refused_nor_warned_about(kind: str) -> None:
    done = python(kind + "print(hitl.__version__, hitl.ChatMessage.__name__, hitl.HitlError.__name__)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("way", ["run", "server"])
def test_who_says_that_it_may_goes_on(way: str) -> None:
    done = python(LATER + AGENT + WAYS[way] + "\nprint('went on')", allow="1")
    assert done.stdout.endswith("went on\n"), done.stderr


@pytest.mark.parametrize("value", ["", "0", "no"])
def test_only_1_says_that_it_may(value: str) -> None:
    done = python(LATER + AGENT + WAYS["run"], allow=value)
    assert "PythonUntested" in done.stderr


def test_a_core_that_is_missing_for_another_reason_is_an_import_error() -> None:
    done = python("import sys\nsys.modules['hitl._core'] = None\nimport hitl\nhitl.run")
    assert "PythonUntested" not in done.stderr
    assert "ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("command", ["serve", "replay-check"])
def test_commands_say_it_with_a_hint(command: str) -> None:
    arguments = [command, "m:agent", "--store", "memory"]
    done = python(f"{FREE_THREADED}from hitl.cli.app import run\nsys.exit(run({arguments!r}))")
    first, *_, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first.startswith("error: hitl is not tested on free-threaded builds of Python")
    assert last.startswith("hint: use a build with the GIL, or set HITL_ALLOW_UNTESTED_PYTHON=1")
