"""LangGraph's dev server (`langgraph dev`), spoken to over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.contenders.children import Child, free_ports
from benchmarks.contenders.connections import Requests
from benchmarks.contenders.host import Http, directory, serve

ROOT = Path(__file__).resolve().parents[2]
JOBS = 32
"""As many as there are clients."""


class LangGraphDev(Http[str]):
    """The server and its client. A client keeps its thread: making one is a request of its own."""

    settings = f"not durable: memory, written to a file from time to time; --n-jobs-per-worker {JOBS} --no-reload"
    packages = ("langgraph", "langgraph-api", "langgraph-cli")

    def __init__(self) -> None:
        graph = Path(__file__).with_name("langgraph_graph.py")
        config = directory() / "langgraph.json"
        config.write_text(json.dumps({"dependencies": ["."], "graphs": {"job": f"{graph}:graph"}}))
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(config), "--port", str(port)]
        command += ["--no-browser", "--no-reload", "--n-jobs-per-worker", str(JOBS), "--server-log-level", "error"]
        self._server = Child(
            command, directory(), PYTHONPATH=str(ROOT), LANGGRAPH_CLI_NO_ANALYTICS="1", LANGSMITH_TRACING="false"
        )
        self._server.wait_for(port, "/ok")
        self.url = f"http://127.0.0.1:{port}"

    def open(self) -> Requests[str]:
        return (yield "POST", "/threads", {})["thread_id"]

    def ask(self, session: str) -> Requests[str]:
        paused = yield from self._run(session, {"input": {"message": "go"}})
        if not paused["__interrupt__"]:
            raise RuntimeError("the graph did not pause")
        return session

    def answer(self, asked: str) -> Requests[str]:
        ended = yield from self._run(asked, {"command": {"resume": "done"}})
        said: str = ended["answer"]
        return said

    def _run(self, thread: str, what: dict[str, Any]) -> Requests[Any]:
        return (yield "POST", f"/threads/{thread}/runs/wait", {"assistant_id": "job", **what})

    def close(self) -> None:
        self._server.stop()


if __name__ == "__main__":
    serve(LangGraphDev)
