"""A server that tests kill, in a process of its own: quicker to begin than `hitl serve`, otherwise the same.

`python -m tests.python.faults.server MODULE:ATTR OPTIONS`, the options of `hitl.serving.server.Server` as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from hitl.serving.server import Server
from tests.python.support.served import as_command, begin, start


class Process:
    """One server process. It may die at any time; nothing here minds. If it is `started`, its zygote is its child."""

    def __init__(self, agent: str, environment: Mapping[str, str], *, started: bool = False, **options: Any) -> None:
        mutation = os.environ.get("HITL_MUTATION")
        given = ({} if mutation is None else {"HITL_MUTATION": mutation}) | dict(environment)
        program = "tests.python.faults.server", [agent, json.dumps(options)]
        self._process = start(as_command(program), given) if started else begin(program, given)
        self.lines: list[str] = []
        self._url: str | None = None
        self._told = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def url(self, timeout: float = 200.0) -> str | None:
        """Where it listens, once it does; None when it has ended before."""
        assert self._told.wait(timeout), "\n".join(self.lines)
        return self._url

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, timeout: float = 200.0) -> int:
        """Its exit code, once it and all that hold its output have ended."""
        code = self._process.wait(timeout)
        self._reader.join(timeout)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def kill(self) -> None:
        """End it and see to its end, also where it has ended by itself."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        self._process.terminate()
        return self.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("served on "):
                self._url = line.split()[-1]
                self._told.set()
        self._told.set()


def main() -> None:
    # A stop may come before there is anything to stop.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with Server(sys.argv[1], **json.loads(sys.argv[2])) as server:
        print(f"served on {server.url}", flush=True)
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
