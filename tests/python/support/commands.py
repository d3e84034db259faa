"""`hitl` in this process: it does what it does in one of its own, and spares the start of it.

What a command starts by itself prints somewhere else (`replay-check`): that is run as a program.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

from hitl.cli.app import run
from tests.python.support.served import ROOT, clean_environment


def command(*arguments: str, expect: int = 0, **environment: str) -> str:
    """What it prints, without a terminal; of one that is expected to fail, the errors as well."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, clean_environment() | environment, clear=True),
        patch.object(sys, "path", list(sys.path)),
        chdir(ROOT),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        code = run(list(arguments))
    assert code == expect, out.getvalue() + errors.getvalue()
    return out.getvalue() + ("" if expect == 0 else errors.getvalue())
