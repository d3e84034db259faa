"""A server keeps its environment, which holds its secrets, from other processes of its user: from tools, that is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hitl.client import Client
from tests.python.support.served import clean_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/<pid>/environ")

READ_BY_A_CHILD = """
import ctypes, os, sys
from hitl.worker import isolation

def read():
    child = os.fork()
    if child == 0:
        try:
            open(f"/proc/{os.getppid()}/environ", "rb").read()
        except PermissionError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as for every process that was not root before
before = read()
isolation.hide()
print(before, read())
"""

SAYS_WHETHER_IT_IS_HIDDEN = """
import ctypes
from hitl import ChatMessage
from hitl.serving.server import serve

async def agent(message, state):
    return ChatMessage.assistant_message(content=str(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))), state

raise SystemExit(serve(agent, port=0, store="memory"))
"""


def start(source: str, directory: Path) -> subprocess.Popen[str]:
    python_path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", source],
        cwd=directory,
        env=clean_environment() | {"PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_runs_as_the_same_user_cannot_read_the_environment_of_a_hidden_process(tmp_path: Path) -> None:
    process = start(READ_BY_A_CHILD, tmp_path)
    out, _ = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "0 1\n")


def test_a_server_is_hidden(tmp_path: Path) -> None:

    process = start(SAYS_WHETHER_IT_IS_HIDDEN, tmp_path)
    try:
        assert process.stdout is not None
        url = re.search(r"http://\S+", process.stdout.readline())
        assert url is not None
        with Client(url.group(0)) as client:
            session = client.create_session()
            client.send_message(session.session_id, "hello")
            response = client.wait(session.session_id, 60).response
        assert response is not None
        assert response.content == "0"
    finally:
        process.kill()
        process.communicate()
