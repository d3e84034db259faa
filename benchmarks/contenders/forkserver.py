"""The baseline: a session server that keeps a process for every turn, for as long as its person thinks.

What `multiprocessing` offers for it: a forkserver that has the agent imported, a process a turn, a pipe to it. Sessions
are a dict of the server; nothing is on disk. It speaks the part of the HTTP contract that the job needs.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlsplit

from benchmarks.contenders.children import TO_STOP
from benchmarks.contenders.host import serve, work
from benchmarks.contenders.sessions import SessionServer

CONTEXT = multiprocessing.get_context("forkserver")


async def interrupt(pipe: Connection, payload: dict[str, Any]) -> Any:
    """Ask through the pipe, and wait for what comes back."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Any] = loop.create_future()
    loop.add_reader(pipe.fileno(), answered.set_result, None)
    pipe.send({"status": "interrupted", "payload": payload})
    await answered
    loop.remove_reader(pipe.fileno())
    return pipe.recv()


async def agent(pipe: Connection, message: str) -> str:
    """The job."""
    work(1)
    answer = await interrupt(pipe, {"type": "question", "prompt": "Go on?"})
    work(2)
    return str(answer)


def run_turn(pipe: Connection, message: str) -> None:
    """All that a worker process does."""
    try:
        pipe.send({"status": "idle", "response": asyncio.run(agent(pipe, message))})
    except EOFError:
        return  # the server has ended, and with it everybody who waits


class Session:
    """One conversation, and the process of its turn."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.status = "idle"
        self.response: str | None = None
        self.interrupts: dict[str, Any] = {}
        self.pipe: Connection | None = None

    def begin(self, message: str) -> None:
        """Start the turn's process, and a thread that hears it."""
        self.pipe, theirs = CONTEXT.Pipe()
        self.status = "running"
        process = CONTEXT.Process(target=run_turn, args=(theirs, message), daemon=True)
        process.start()
        theirs.close()
        threading.Thread(target=self._hear, args=(process,), daemon=True).start()

    def _hear(self, process: Any) -> None:
        assert self.pipe is not None
        while self.status in ("running", "interrupted"):
            try:
                told = self.pipe.recv()
            except EOFError:
                told = {"status": "error"}
            with self.changed:
                if told["status"] == "interrupted":
                    self.interrupts[str(uuid.uuid4())] = told["payload"]
                self.response = told.get("response")
                self.status = told["status"]
                self.changed.notify_all()
        self.pipe.close()
        process.join()

    def resume(self, interrupt_id: str, value: Any) -> None:
        """Hand the answer to the process."""
        assert self.pipe is not None
        with self.changed:
            del self.interrupts[interrupt_id]
            self.status = "running"
        self.pipe.send(value)

    def view(self) -> dict[str, Any]:
        """What a long poll gets: the session once it does not run."""
        with self.changed:
            self.changed.wait_for(lambda: self.status != "running")
            asked = [{"interrupt_id": key, "payload": payload} for key, payload in self.interrupts.items()]
            error = "the process of the turn has ended" if self.status == "error" else None
            return {"status": self.status, "response": {"content": self.response}, "interrupts": asked, "error": error}


SESSIONS: dict[str, Session] = {}


class Handler(BaseHTTPRequestHandler):
    """POST /sessions, POST /sessions/ID/messages, POST /sessions/ID/resume, GET /sessions/ID?wait=true."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, _, *rest = urlsplit(self.path).path.split("/")
        if not rest:
            session_id = str(uuid.uuid4())
            SESSIONS[session_id] = Session()
            self._reply({"session_id": session_id})
        elif rest[1] == "messages":
            SESSIONS[rest[0]].begin(body["content"])
            self._reply({"status": "running"})
        else:
            SESSIONS[rest[0]].resume(body["interrupt_id"], body["value"])
            self._reply({"status": "running"})

    def do_GET(self) -> None:
        self._reply(SESSIONS[urlsplit(self.path).path.split("/")[2]].view())

    def _reply(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def serve_sessions() -> None:
    """Serve on a free port, which is printed; SIGTERM ends the turns' processes too, and what they left in files."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    CONTEXT.set_forkserver_preload([__name__])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


class Forkserver(SessionServer):
    """The server in a process of its own."""

    settings = "nothing durable: sessions are a dict of the server"

    def __init__(self) -> None:
        # Not `-m`: a child would import the main module again, for every turn.
        command = [sys.executable, "-c", f"from {__spec__.name} import serve_sessions; serve_sessions()"]
        self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._server.stdout.readline())}"

    def close(self) -> None:
        self._server.terminate()
        try:
            self._server.wait(TO_STOP)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


if __name__ == "__main__":
    serve(Forkserver)
