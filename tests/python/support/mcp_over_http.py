"""An MCP server over streamable HTTP, as a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.python.support.served import ROOT


@contextmanager
def mcp_over_http(arguments: list[str], place: Path, **environment: str) -> Iterator[str]:
    """The URL of a server that Python runs with these arguments; it writes it to `place`, which is its last one."""
    command = [sys.executable, *arguments, "--http", str(place)]
    variables = {**os.environ, **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=variables, cwd=ROOT) as process:
        watch = select.poll()
        assert process.stderr is not None
        watch.register(process.stderr, select.POLLHUP)
        try:
            while not place.exists():
                # Ends at once when the server dies; else it looks again a little later.
                if watch.poll(20):
                    raise RuntimeError(process.stderr.read().decode())
            yield place.read_text()
        finally:
            process.terminate()
