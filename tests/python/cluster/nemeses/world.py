"""Servers on one database that everything befalls, each with a way of its own to it, and the reckoning at the end."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.processes import children
from tests.python.cluster.proxy import Proxy
from tests.python.faults.world import AGENT, Client, Sessions, check_journals
from tests.python.support import postgres
from tests.python.support.served import Program, Served, named, plain, unfit
from tests.python.support.waiting import eventually

SPEED = int(os.environ.get("HITL_TEST_CLUSTER_SPEED", "5"))
"""How much faster than usual servers beat, take others for dead and give up. What ends for it on a busy machine is
started again, as it would be elsewhere. Much faster, a worker whose server is stopped may begin its first step after
another server has finished that, which no ledger tells from a finished step that ran again."""

BURIED = "another server has taken the place of this one"
CUT_OFF = "not reached for too long"


def scaled(seconds: float) -> float:
    """As long as so many seconds are for servers at their usual speed."""
    return seconds / SPEED


class Front(Served):
    """One as `hitl serve` starts it, but without a command line, which takes long to import."""

    @staticmethod
    def command(agent: str, options: Mapping[str, Any]) -> list[str]:
        return [sys.executable, "-m", "tests.python.support.served", named(agent), json.dumps(plain(options))]


class Back(Front):
    """The same of `hitl work`."""

    started = True

    @staticmethod
    def command(agent: str, options: Mapping[str, Any]) -> list[str]:
        return [*Front.command(agent, options), "work"]

    @staticmethod
    def quick_program(agent: str, options: Mapping[str, Any]) -> Program | None:
        return None


class Node:
    """A place for a server. Where one has ended, whatever the reason, the next one is started."""

    def __init__(self, kind: type[Front], proxy: Proxy, database: str, speed: int, options: Mapping[str, Any]) -> None:
        self.kind = kind
        self.proxy = proxy
        self._options = {**options, "store": f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(database).path}"}
        self._environment = {} if speed == 1 else {"HITL_CLUSTER_SPEED": str(speed)}
        if mutation := os.environ.get("HITL_MUTATION"):
            self._environment["HITL_MUTATION"] = mutation
        self._servers: list[Served] = []
        self._failed: list[str] = []
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    @property
    def server(self) -> Served:
        return self._servers[-1]

    @property
    def address(self) -> str:
        return urlsplit(self.server.url).netloc

    @property
    def starts(self) -> int:
        return len(self._servers)

    def start(self) -> None:
        """The first one, and all that come after it."""
        self._start()
        assert self._servers, self._failed
        self._keeper.start()

    def stop(self) -> None:
        """The last one, as by SIGTERM."""
        self._over.set()
        if self._keeper.is_alive():
            self._keeper.join()
        if self._servers:
            self.server.stop()

    def is_ready(self) -> bool:
        return self.ask("/readyz") == 200

    def ask(self, path: str) -> int | None:
        """The status that it answers with; none where it does not answer."""
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=60)) as connection:
            try:
                connection.request("GET", path)
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return None

    def figure(self, name: str) -> int:
        """What `/metrics` says."""
        lines = self.server.api.get("/metrics").text.splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def zygote(self) -> list[int]:
        """The process that forks workers; none where it is gone."""
        return children(self.server.pid)

    def workers(self) -> list[int]:
        return [worker for zygote in self.zygote() for worker in children(zygote)]

    def said(self, what: str) -> int:
        """In how many lines its servers have said that."""
        return sum(what in line for server in self._servers for line in server.lines)

    def describe(self) -> str:
        lines = [f"{server.pid}: {line}" for server in self._servers for line in server.lines]
        return "\n".join([*self._failed, *lines[-60:]])

    def signal(self, number: int) -> None:
        """Nothing where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.server.signal(number)

    def _start(self) -> None:
        try:
            server = self.kind(environment=self._environment, checked=False, **self._options)
        except AssertionError as error:
            # Its database is away.
            self._failed.append(str(error))
            return
        self._servers.append(server)

    def _keep(self) -> None:
        while not self._over.wait(0.02):
            if not self.server.is_running:
                self.server.kill()  # what is left of it
                self._start()


class Cluster(Sessions):
    """Servers that take requests (fronts) and that do not (backs), clients who go to whichever answers, their sessions.

    Of each server is said after how long a turn that waits leaves its memory.
    """

    def __init__(
        self,
        directory: Path,
        database: str,
        *,
        fronts: Sequence[float] = (0, 600),
        backs: Sequence[float] = (0.2,),
        speed: int = SPEED,
        **options: Any,
    ) -> None:
        super().__init__(directory)
        self.database = database
        """Its address, past all proxies."""
        self._stack = ExitStack()
        self._count = itertools.count()
        common = {"agent": AGENT, "workers": 4, "max_recoveries": 20, "queue": 20_000, **options}
        self.nodes: list[Node] = []
        for kind, park_after in [*((Front, it) for it in fronts), *((Back, it) for it in backs)]:
            proxy = self._stack.enter_context(Proxy(postgres.socket_of(database)))
            self.nodes.append(Node(kind, proxy, database, speed, {**common, "park_after": park_after}))

    def __enter__(self) -> Self:
        try:
            # The first one makes the schema.
            for node in self.nodes:
                node.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            print(self.describe())

    @property
    def serving(self) -> list[Node]:
        return [node for node in self.nodes if node.kind is Front]

    def client(self) -> Client:
        return Client(lambda: [node.address for node in self.serving], first=next(self._count))

    def execute(self, sql: str) -> str:
        return postgres.execute(self.database, sql)

    def move_to(self, database: str) -> None:
        """The same database is somewhere else now."""
        self.database = database
        for node in self.nodes:
            node.proxy.socket = postgres.socket_of(database)
            node.proxy.cut()
            node.proxy.release()

    def is_buried(self, server: Served) -> bool:
        """Whether others have taken it for dead."""
        return self.execute(f"SELECT count(*) FROM hitl.servers WHERE pid = {server.pid}") == "0"

    def mend(self) -> None:
        """Nothing is in anybody's way any more. Until all are at work, and nobody else is thought to be."""
        for node in self.nodes:
            node.proxy.release()
            for process in [node.server.pid, *node.zygote(), *node.workers()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
        for node in self.nodes:
            eventually(node.is_ready, True)
        eventually(lambda: self.execute("SELECT count(*) FROM hitl.servers"), str(len(self.nodes)))

    def reckon(self) -> None:
        """End all. Every acknowledged thing is there, at whichever server one asks, and nothing was done twice."""
        self.mend()
        for node in self.serving:
            with contextlib.closing(Client(partial(address_of, node))) as client:
                for session in self.sessions:
                    session.check(client)
        self.stop()
        for node in self.nodes:
            assert node.server.wait() == 0 or node.said(BURIED), node.describe()
        assert unfit(self.database) == []
        assert self.execute("SELECT count(*) FROM hitl.turns WHERE ended_at IS NULL") == "0"
        rows = "json_build_array(turn, entry, path, interrupt) ORDER BY turn, idx"
        check_journals(json.loads(self.execute(f"SELECT coalesce(json_agg({rows}), '[]') FROM hitl.journal")))
        self.check_ledgers()

    def stop(self) -> None:
        """End all servers, once."""
        threads = [threading.Thread(target=node.stop) for node in self.nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._stack.close()

    def describe(self) -> str:
        """What servers have said, for a failure's message."""
        return "\n\n".join(node.describe() for node in self.nodes)


def address_of(node: Node) -> list[str]:
    return [node.address]


def wait_for(seconds: float) -> None:
    """For how long something is in the way; what comes of it is waited for."""
    time.sleep(scaled(seconds))
