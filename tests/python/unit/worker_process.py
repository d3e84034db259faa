"""A worker as the server has it: a real process, and the server's end of its channel."""

import os
import subprocess
import sys
from pathlib import Path

from tests.python.unit.server_end import ServerEnd

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from hitl.worker.child import run_child
from hitl.worker.loading import load_agent
run_child(int(sys.argv[1]), load_agent(sys.argv[2]), sys.argv[3], version="code-1")
"""


class Child(ServerEnd):
    """A worker process and the server's end of its channel."""

    def __init__(self, agent: str, mode: str = "turn") -> None:
        super().__init__()
        fd = self.worker.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(fd), f"{__package__}.worker_agents:{agent}", mode],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])},
            pass_fds=[fd],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.worker.close()
        self.stdout = self.stderr = ""

    def exit_code(self) -> int:
        """Wait for the process; its output is in ``stdout`` and ``stderr`` then."""
        self.stdout, self.stderr = self.process.communicate(timeout=100)
        return self.process.returncode

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
