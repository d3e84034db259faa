"""A server in a process of its own, as `hitl serve` starts it, which a test may also kill.

As a program, `python -m tests.python.support.served MODULE:ATTR OPTIONS`, it is what `hitl serve` is once it has read
its command line, and with `work` after these what `hitl work` is: most of what a start costs is typer's, which imports
pydantic, and the suite starts a thousand. That each option of a server is one of the command line, tests of `hitl
serve` say (`tests/python/cli/test_serve.py`). Most are forked from a process that has imported all this
(`tests.python.support.warm`); what is said of processes, their files, limits or ends, is said of one that was
`started`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hitl import _core
from hitl.serving.options import ServeOptions, WorkOptions
from tests.python.support.warm import Forked, are_late, warm

if TYPE_CHECKING:
    from tests.python.support.api import Api

ROOT = Path(__file__).resolve().parents[3]
AGENTS = "tests.python.support.agents"
PUPPET = "tests.python.support.puppet:puppet"
START = 240.0
"""Seconds a start may take on a busy machine."""
STOP = 100.0
"""Seconds that the end may take there."""
ENDING = 5.0
"""Seconds for which one that has cut a connection is looked at, whether it ends."""

Program = tuple[str, list[str]]
"""A module and its arguments: `python -m module` with these."""
_URL = re.compile(r"https?://(127\.0\.0\.1|0\.0\.0\.0|\[::1\]|localhost):\d+")


def named(agent: str) -> str:
    """`MODULE:ATTR` of one of the agents here, or of another."""
    if agent == "puppet":
        return PUPPET
    return agent if ":" in agent else f"{AGENTS}:{agent}"


Process = subprocess.Popen[str] | Forked


def as_command(program: Program) -> list[str]:
    """What starts it."""
    module, arguments = program
    return [sys.executable, "-m", module, *arguments]


def begin(program: Program, given: dict[str, str]) -> Process:
    """Fork a program, with the environment of this process and these variables, or start it where that cannot be."""
    return fork(program, given) or start(as_command(program), given)


def fork(program: Program, given: dict[str, str], directory: Path = ROOT) -> Forked | None:
    """The same; None where that cannot be."""
    inherited = clean_environment()
    forking = warm(inherited, given)
    return None if forking is None else forking.fork(*program, inherited | given, directory)


def start(
    command: Sequence[str], given: dict[str, str], directory: Path = ROOT, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    """Start a command with that environment; both its outputs are its `stdout`."""
    return subprocess.Popen(
        command,
        cwd=directory,
        env=clean_environment() | given,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def flags(options: Mapping[str, Any]) -> list[str]:
    """Options of `hitl.Server` as flags of `hitl serve`."""
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif isinstance(value, (list, tuple)):
            arguments += [part for one in value for part in (flag, str(one))]
        elif value is not False and value is not None:
            arguments += [flag, str(value)]
    return arguments


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON has them."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}


class Served:
    """One server, from its start until `stop` or `kill`. `api` talks to it.

    It stands in `directory`. One that `stands_by` has a `port`, and is not waited for. One that is `started` is so from
    nothing, and its zygote by it, as it is with a descriptor or a command of its own, or with variables that `warm.py`
    does not name.

    A test that passes leaves a store in which all fits together, whatever was killed. That is `checked` at its end; not
    where the test has put something else there, or it is to be reached no more.
    """

    started = False
    """Whether all of a class are; what a test says goes first."""

    def __init__(
        self,
        agent: str,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: tuple[int, ...] = (),
        prefix: tuple[str, ...] = (),
        directory: Path = ROOT,
        stands_by: bool = False,
        started: bool | None = None,
        checked: bool = True,
        **options: Any,
    ) -> None:
        self._condition = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        self._api: Api | None = None
        options = {"port": 0, "store": "memory", "log_format": "json", **options}
        self._store: str | Path | None = options["store"] if checked else None
        given = dict(environment or {})
        # The command line alone reads options from the environment, and can be started in any directory.
        by_command_line = bool(prefix) or not are_late(name for name in given if name.startswith("HITL_"))
        quick = None if by_command_line else self.quick_program(agent, options)
        has_own = bool(prefix or pass_fds or (self.started if started is None else started))
        forked = None if has_own or quick is None else fork(quick, given, directory)
        # Elsewhere there is nothing of the tests to start.
        command = self.command(agent, options) if quick is None or directory != ROOT else as_command(quick)
        self._process = forked or start([*prefix, *command], given, directory, pass_fds)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._api_key: str | None = options.get("api_key")
        if stands_by:
            self.url = f"http://127.0.0.1:{options['port']}"
            return
        try:
            line = self.wait_for_line(_URL.pattern, START)
        except BaseException:
            self.kill()
            raise
        found = _URL.search(line)
        assert found is not None
        self.url = found.group(0)

    @staticmethod
    def command(agent: str, options: Mapping[str, Any]) -> list[str]:
        """What starts it from the command line."""
        return [sys.executable, "-m", "hitl", "serve", named(agent), *flags(options)]

    @staticmethod
    def quick_program(agent: str, options: Mapping[str, Any]) -> Program | None:
        """What serves the same without a command line; None for options that only that has (`--no-ui`)."""
        if not options.keys() <= {field.name for field in fields(ServeOptions)}:
            return None
        return __spec__.name, [named(agent), json.dumps(plain(options))]

    @property
    def api(self) -> Api:
        """A connection pool of its own, with the server's key."""
        # Here, for a server needs no client.
        from tests.python.support.api import Api

        if self._api is None:
            self._api = Api(self.url, api_key=self._api_key, explain=self._state)
        return self._api

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _state(self, was_cut: bool) -> str:
        # The kernel closes the connections of a process before anybody can see that it has ended.
        moment = ENDING if was_cut else 0.0
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(moment)
        code = self._process.poll()
        if code is None:
            state = f"runs, still {ENDING:g} s after a connection to it was cut" if was_cut else "runs"
        else:
            state = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with {code}"
            self._reader.join(moment)  # for its last words; a child of it may have the pipe for longer
        return "\n".join([f"the server {self.pid} at {self.url} {state}, and wrote:", *self.lines])

    @property
    def lines(self) -> list[str]:
        """What it wrote so far, both outputs together."""
        with self._condition:
            return list(self._lines)

    def wait_for_line(self, pattern: str, timeout: float = 100.0) -> str:
        """The first line that holds the regular expression, written already or still to come."""
        deadline = time.monotonic() + timeout
        with self._condition:
            seen = 0
            while True:
                for line in self._lines[seen:]:
                    if re.search(pattern, line):
                        return line
                seen = len(self._lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    reason = "the server ended" if self._ended else f"no line with {pattern!r} in {timeout:g} s"
                    raise AssertionError(f"{reason}; it wrote:\n" + "\n".join(self._lines))
                self._condition.wait(left)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, timeout: float = 100.0) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(timeout)

    def kill(self) -> None:
        """End it at once, as a power cut would: nothing is flushed, nobody is told."""
        self._close()
        self._process.kill()
        self._reap()

    def stop(self) -> None:
        """End it as Ctrl-C would."""
        self._close()
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._reap()
            raise AssertionError("SIGTERM did not end the server; it wrote:\n" + "\n".join(self.lines)) from None
        self._reap()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.stop()
        else:
            self._close()
            self._reap()
        if kind is None and self._store is not None and self._store != "memory":
            assert unfit(self._store) == []

    def _close(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            api.close()

    def _reap(self) -> None:
        self._process.wait(STOP)
        self._reader.join(STOP)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._condition:
                self._lines.append(line.rstrip("\n"))
                self._condition.notify_all()
        with self._condition:
            self._ended = True
            self._condition.notify_all()


class Working(Served):
    """One that takes no requests, as `hitl work` starts it."""

    @staticmethod
    def command(agent: str, options: Mapping[str, Any]) -> list[str]:
        return [sys.executable, "-m", "hitl", "work", named(agent), *flags(options)]

    @staticmethod
    def quick_program(agent: str, options: Mapping[str, Any]) -> Program | None:
        return None


def zygotes_python() -> str:
    """What a server of this process has to take for `sys.executable`, so that its zygotes are forked.

    Whatever else is started by it is by Python.
    """
    forking = warm(clean_environment())
    return sys.executable if forking is None else str(forking.python)


def unfit(store: str | Path) -> list[Any]:
    """What of a store does not fit together, whoever has it."""
    found: list[Any] = _core.check_store(str(store))["problems"]
    return found


def clean_environment() -> dict[str, str]:
    """This process's environment without what would configure a server, or a model."""
    secret = ("HITL_", "OPENAI_", "OPENROUTER_", "ANTHROPIC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(secret)}


def main() -> int:
    """Serve, as the command line does with the same options."""
    from hitl.serving.server import serve

    agent, options, *works = sys.argv[1:]
    made = WorkOptions if works else ServeOptions
    return serve(made(agent=agent, **json.loads(options)))


if __name__ == "__main__":
    sys.exit(main())
