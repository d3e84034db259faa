"""A server that starts, and a database that does not answer."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.python.cluster.conftest import AGENT


def test_a_server_says_which_database_it_waits_for() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        # Connections are taken, and nobody says a word there.
        silent.listen()
        address = f"postgresql://hitl:secret@127.0.0.1:{silent.getsockname()[1]}/hitl"
        serving = [sys.executable, "-m", "hitl", "serve", AGENT, "--port", "0", "--store", address]
        with subprocess.Popen(serving, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            try:
                said = next((line for line in server.stdout if "has not answered yet" in line), "")
            finally:
                server.terminate()
        assert address.replace(":secret", "") in said
        assert "secret" not in said
