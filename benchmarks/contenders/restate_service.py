"""Restate: its server, written in Rust, and a service of its Python SDK; spoken to over HTTP.

Arguments: how a client gets to know the question, and after how many seconds a workflow that waits leaves the service's
memory, 60 by default. With `waits` one workflow does the job, and a handler beside it waits until it asks. With
`replies` what comes before the question is a handler of its own, whose reply is the question; it starts the workflow
that waits for the answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import hypercorn
import hypercorn.asyncio
import restate

from benchmarks.contenders.children import Child, free_ports
from benchmarks.contenders.connections import Requests
from benchmarks.contenders.host import Http, arguments, directory, serve, work

ROOT = Path(__file__).resolve().parents[2]
TO_SUSPEND = 2.0
"""Seconds."""
job = restate.Workflow("Job")


@job.main()
async def run(context: restate.WorkflowContext, message: str) -> str:
    """The job."""
    await context.run_typed("first", work, number=1)
    await context.promise("asked").resolve({"type": "question", "prompt": "Go on?"})
    answer = await context.promise("answer").value()
    await context.run_typed("second", work, number=2)
    return str(answer)


@job.handler()
async def asked(context: restate.WorkflowSharedContext) -> object:
    """The question, once it is there."""
    return await context.promise("asked").value()


@job.handler()
async def answer(context: restate.WorkflowSharedContext, value: str) -> None:
    """The answer."""
    await context.promise("answer").resolve(value)


before = restate.VirtualObject("Before")
after = restate.Workflow("After")


@before.handler()
async def begin(context: restate.ObjectContext, message: str) -> object:
    """The job up to the question."""
    await context.run_typed("first", work, number=1)
    context.workflow_send(finish, key=context.key(), arg=message)
    return {"type": "question", "prompt": "Go on?"}


@after.main()
async def finish(context: restate.WorkflowContext, message: str) -> str:
    """The rest of it."""
    said = await context.promise("answer").value()
    await context.run_typed("second", work, number=2)
    return str(said)


@after.handler()
async def resolve(context: restate.WorkflowSharedContext, value: str) -> None:
    """The answer."""
    await context.promise("answer").resolve(value)


def serve_job() -> None:
    """Serve the job on the port that is the first argument."""
    config = hypercorn.Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.h2_max_concurrent_streams = 2**31 - 1
    config.keep_alive_timeout = 2**31 - 1
    config.keep_alive_max_requests = 2**31 - 1
    config.accesslog = None
    asyncio.run(hypercorn.asyncio.serve(restate.app([job, before, after]), config))


class RestateService(Http[str]):
    """A workflow for each job; question and answer are durable promises of it."""

    packages = ("restate-sdk", "hypercorn")

    def __init__(self) -> None:
        # The program itself: what npm puts into `.bin` is a script for node that starts it.
        package = json.loads((Path(sys.prefix) / "node_modules/@restatedev/restate-server/package.json").read_text())
        (program,) = Path(sys.prefix).glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
        self.settings = f"durable: restate-server {package['version']} as it comes, one node; HTTP/2 to the service"
        form, *inactivity = arguments()
        self._replies = {"waits": False, "replies": True}[form]
        self._inactivity = float(inactivity[0]) if inactivity else 60.0
        self.settings += f", inactivity-timeout={self._inactivity:g} s"
        service, ingress, admin, node = free_ports(4)
        serve_service = f"from {__spec__.name} import serve_job; serve_job()"
        self._children = [
            Child([sys.executable, "-c", serve_service, str(service)], directory(), PYTHONPATH=str(ROOT)),
            Child(
                [program, "--base-dir", directory() / "restate", "--node-name", "node", "--no-logo"],
                directory(),
                RESTATE_INGRESS__BIND_ADDRESS=f"127.0.0.1:{ingress}",
                RESTATE_ADMIN__BIND_ADDRESS=f"127.0.0.1:{admin}",
                RESTATE_BIND_ADDRESS=f"127.0.0.1:{node}",
                RESTATE_LISTEN_MODE="tcp",
                RESTATE_DISABLE_TELEMETRY="true",
                RESTATE_LOG_FILTER="error",
                RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT=f"{self._inactivity:g}s",
            ),
        ]
        self._children[0].wait_for(service)
        self._children[1].wait_for(admin, "/health")
        self._children[1].wait_for(ingress, "/restate/health")
        request = urllib.request.Request(
            f"http://127.0.0.1:{admin}/deployments",
            json.dumps({"uri": f"http://127.0.0.1:{service}"}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as registered:
            registered.read()
        self.url = f"http://127.0.0.1:{ingress}"

    def ask(self, session: None) -> Requests[str]:
        key = str(uuid.uuid4())
        if self._replies:
            yield "POST", f"/Before/{key}/begin", "go"
        else:
            yield "POST", f"/Job/{key}/run/send", "go"
            yield "POST", f"/Job/{key}/asked", None
        return key

    def answer(self, asked: str) -> Requests[str]:
        workflow, handler = ("After", "resolve") if self._replies else ("Job", "answer")
        yield "POST", f"/{workflow}/{asked}/{handler}", "done"
        said: str = yield "GET", f"/restate/workflow/{workflow}/{asked}/attach", None
        return said

    def settle(self) -> None:
        """Until what waits has left memory, where that is to be soon: nothing tells."""
        if self._inactivity <= TO_SUSPEND:
            time.sleep(2 * TO_SUSPEND)

    def close(self) -> None:
        for child in reversed(self._children):
            child.stop()


if __name__ == "__main__":
    serve(RestateService)
