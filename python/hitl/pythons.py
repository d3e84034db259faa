"""Which Pythons run turns: those that hitl is tested on, and others where somebody has said so.

A replay rests on the order in which asyncio does things, which no document of Python promises. A version on which it
was never compared may go another way, and would only show that when a turn cannot go on after weeks of waiting.
"""

from __future__ import annotations

import os
import sys
import sysconfig

from hitl.errors import PythonUntested

ALLOW = "HITL_ALLOW_UNTESTED_PYTHON"


def require_tested() -> None:
    """Raise ``PythonUntested`` where neither the tests nor ``HITL_ALLOW_UNTESTED_PYTHON=1`` stand for this Python."""
    if os.environ.get(ALLOW) == "1":
        return
    minor = "{}.{}".format(*sys.version_info)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # Before the core is looked for: there is none for such a build, unless somebody has compiled it.
        raise PythonUntested(
            f"hitl is not tested on free-threaded builds of Python, and this is one of Python {minor}",
            f"use a build with the GIL, or set {ALLOW}=1 to go on anyway",
        )
    # Here: what is asked is whether it can be imported.
    from hitl import _core

    if minor not in _core.PYTHONS:
        *others, last = _core.PYTHONS
        raise PythonUntested(
            f"hitl is tested on Python {', '.join(others)} and {last}, and not on Python {minor}",
            f"use one of those, or set {ALLOW}=1 to go on anyway: turns that wait may then not go on",
        )
