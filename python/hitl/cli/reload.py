"""`hitl serve --reload`: run the server as a child process, and start it again when a source file changes.

For development only. Files are compared twice a second by modification time and size; that needs no dependency and
works on every file system, network ones and containers' included.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import typer

from hitl.cli import exit_codes

CHILD_MARK = "HITL_RELOAD_CHILD"
"""In the environment of the server that is watched over: it serves instead of watching."""

INTERVAL = 0.5
"""Seconds between two looks at the files."""

_SKIPPED = {"node_modules", "__pycache__", "target", "build", "dist", "site-packages"}

Snapshot = Mapping[str, tuple[int, int]]


def run_reloading(directory: Path) -> int:
    """Serve with this process's own command line until told to stop; the exit code of the last server."""
    stopping = threading.Event()
    received: list[int] = []
    told = 0
    server: subprocess.Popen[bytes] | None = None

    def pass_on() -> None:
        """Tell the server of each signal once: also of one that came while it was being started."""
        nonlocal told
        while server is not None and told < len(received):
            told += 1
            if server.poll() is None:
                server.send_signal(received[told - 1])

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        stopping.set()
        pass_on()

    def start() -> subprocess.Popen[bytes]:
        nonlocal server
        server = None  # the one before is gone, and a signal from here on is for the new one
        server = _start()
        pass_on()
        return server

    files = snapshot(directory)
    # Late, for what serves takes long to import, and the server itself has it anyway.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    running = start()
    said_stopped = False
    while not stopping.wait(INTERVAL):
        code = running.poll()
        if code in (exit_codes.OK, exit_codes.USAGE, exit_codes.INTERRUPTED):
            return code
        if code is not None and not said_stopped:
            said_stopped = True
            typer.echo(f"The server ended with code {code}; waiting for a file to change.", err=True)
        now = snapshot(directory)
        if now == files:
            continue
        typer.echo(f"{_changed(files, now)} changed, starting again.", err=True)
        files, said_stopped = now, False
        _stop(running)
        if not stopping.is_set():
            running = start()
    code = running.wait()
    return exit_codes.INTERRUPTED if received == [signal.SIGINT] and code < 0 else max(code, 0)


def snapshot(directory: Path) -> Snapshot:
    """Each .py file below `directory` with its modification time (ns) and size; environments and hidden directories
    are left out."""
    return {path: (entry.st_mtime_ns, entry.st_size) for path, entry in _sources(str(directory))}


def _sources(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # Gone, or not ours to read, since it was listed: then there is nothing to watch.
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                yield from _sources(entry.path)
        elif entry.name.endswith(".py"):
            try:
                yield entry.path, entry.stat()
            except FileNotFoundError:
                continue  # An editor replaces files by renaming; the next look sees the new one.


def _changed(before: Snapshot, after: Snapshot) -> str:
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return os.path.relpath(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "hitl", *sys.argv[1:]], env={**os.environ, CHILD_MARK: "1"}, stdin=subprocess.DEVNULL
    )


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    server.wait()
