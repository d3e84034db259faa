"""What `MCPTools` can be told, checked when it is made: a mistake would be found in a turn, or never."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence


def check_kinds(command: object, url: object, name: object, env: object, cwd: object, headers: object) -> None:
    """`TypeError` for a value of another kind, and for an option of the other way to reach a server."""
    for option, value in (("url", url), ("name", name)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"MCPTools: {option} must be a str, got {value!r}")
    if isinstance(command, str) or command is None:
        pass
    elif not isinstance(command, Sequence) or not all(isinstance(each, str) for each in command):
        raise TypeError(f"MCPTools: command must be a str or a list of them, got {command!r}")
    for option, value in (("env", env), ("headers", headers)):
        if value is None:
            continue
        # Either may hold secrets: no value is repeated.
        if not isinstance(value, Mapping):
            raise TypeError(f"MCPTools: {option} must be a dict of str, got {type(value).__name__}")
        for key, each in value.items():
            if not isinstance(key, str) or not isinstance(each, str):
                raise TypeError(f"MCPTools: {option} must be a dict of str, got {type(each).__name__} for {key!r}")
    if cwd is not None and not isinstance(cwd, str | os.PathLike):
        raise TypeError(f"MCPTools: cwd must be a str or a Path, got {cwd!r}")
    if url is None and headers is not None:
        raise TypeError("MCPTools: headers are for a url, and there is a command")
    for option, value in (("env", env), ("cwd", cwd)):
        if url is not None and value is not None:
            raise TypeError(f"MCPTools: {option} is for a command, and there is a url: nothing is started")


def check_prefix(prefix: object) -> None:
    """`TypeError`, or `ValueError` for what no name of a tool may begin with."""
    if not isinstance(prefix, str):
        raise TypeError(f"MCPTools: prefix must be a str, got {prefix!r}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,32}", prefix):
        raise ValueError(f"MCPTools: prefix takes letters, digits, _ and -, 32 at most, got {prefix!r}")


def check_timeout(timeout: object) -> None:
    """`TypeError`, or `ValueError` for what is no time."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"MCPTools: timeout is a number of seconds or None, got {timeout!r}")
    if not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"MCPTools: timeout must be more than 0 seconds, got {timeout!r}")


def check_approval(option: str, value: object) -> None:
    """`TypeError` for what says nothing of whether a person is asked."""
    if not isinstance(value, bool) and not callable(value):
        raise TypeError(f"MCPTools: {option} must be a bool or a callable (ctx, args) -> bool, got {value!r}")
