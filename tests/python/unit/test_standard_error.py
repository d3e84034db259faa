"""What a process says on standard error beside its log."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr

from hitl.serving import standard_error
from tests.python.support.served import ROOT

IN_ORDER = """
import sys
from hitl.serving import standard_error

standard_error.start_log("info", "json")
for number in range(100):
    standard_error.say(f"{number}")
standard_error.say("no character: \\udc80")
sys.exit(3)
"""
FORKED = """
import os, sys
from hitl.serving import standard_error

standard_error.start_log("info", "json")
standard_error.say("before")
child = os.fork()
if child == 0:
    standard_error.say("in the child")
    sys.exit(4)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
standard_error.say(f"after a child that ended with {code}")
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    # Newer Pythons warn of every fork beside a thread.
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100)


def test_everything_is_written_in_order_before_the_process_ends() -> None:
    ended = run(IN_ORDER)
    assert ended.returncode == 3
    assert ended.stderr.splitlines() == [*(str(number) for number in range(100)), "no character: \\udc80"]
    assert ended.stdout == ""


def test_a_process_that_is_forked_writes_its_own_lines_and_none_of_its_parent() -> None:
    ended = run(FORKED)
    assert ended.returncode == 0
    assert sorted(ended.stderr.splitlines()) == ["after a child that ended with 4", "before", "in the child"]


def test_a_program_that_leads_standard_error_elsewhere_gets_it_there() -> None:
    with redirect_stderr(io.StringIO()) as text:
        standard_error.say("led elsewhere")
    assert text.getvalue() == "led elsewhere\n"
