"""A contender's process. It is told what to do by lines of JSON on its standard input, and answers each with one line.

The job is the same for all of them: a message, one journaled step, a question, the wait for a person, the answer, one
more step, done. The session exists before (`open`); the message is sent in `ask`, which ends when the question is there
for a person to see; the answer is given in `answer`, which ends when the reply is there.

Needs nothing but Python, for it runs in every contender's own environment.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.contenders.connections import Connection, Requests, drive, drive_all
from benchmarks.processes import adopt_orphans

Asked = TypeVar("Asked")
DONE = "done"
"""What the agent says at the end."""
LEAST_PAIRS = 3
"""However long one takes."""


class Times:
    """Milliseconds of each job: from the message to the question, and from the answer to the reply."""

    def __init__(self) -> None:
        self.ask: list[float] = []
        self.answer: list[float] = []

    def add(self, started: float, asked: float, answered: float) -> None:
        self.ask.append(1e3 * (asked - started))
        self.answer.append(1e3 * (time.perf_counter() - answered))


class Contender(ABC, Generic[Asked]):
    """What a contender is. `settings` names what was chosen for it, its durability first."""

    settings: str
    packages: tuple[str, ...] = ()
    """Whose versions are told."""
    in_process = True
    """Whether the contender is this process; else it is what this process started, and this is its client."""

    def settle(self) -> None:
        """Return once what was paused has come to rest."""

    def close(self) -> None:
        """End what was started."""

    @abstractmethod
    def one(self, pairs: int, seconds: float) -> Times:
        """The job again and again, until there are `pairs` of them or `seconds` are over."""

    @abstractmethod
    def many(self, clients: int, seconds: float) -> Times:
        """The same by `clients` at once, each with its own session, for `seconds`; what is begun is ended."""

    @abstractmethod
    def pause(self, sessions: int, clients: int) -> None:
        """Leave that many new sessions waiting for a person."""


class Blocking(Contender[Asked]):
    """Called in threads."""

    def open(self) -> Any:
        """A session."""

    @abstractmethod
    def ask(self, session: Any) -> Asked:
        """From the message to the question."""

    @abstractmethod
    def answer(self, asked: Asked) -> str:
        """From the answer to the reply."""

    def one(self, pairs: int, seconds: float) -> Times:
        return self._until(pairs, time.perf_counter() + seconds)

    def many(self, clients: int, seconds: float) -> Times:
        deadline, all_times = time.perf_counter() + seconds, Times()

        def client() -> None:
            times = self._until(None, deadline)
            all_times.ask.extend(times.ask)
            all_times.answer.extend(times.answer)

        _in_threads(clients, client)
        return all_times

    def pause(self, sessions: int, clients: int) -> None:
        numbers = iter(range(sessions))

        def client() -> None:
            for _ in numbers:  # `next` of a range's iterator is atomic
                self.ask(self.open())

        _in_threads(min(clients, sessions), client)

    def _until(self, pairs: int | None, deadline: float) -> Times:
        times, session = Times(), self.open()
        while _more(times, pairs, deadline):
            started = time.perf_counter()
            asked = self.ask(session)
            waiting = answered = time.perf_counter()
            check(self.answer(asked))
            times.add(started, waiting, answered)
        return times


class Asynchronous(Contender[Asked]):
    """Called on one event loop, which is `runner`'s."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    async def open(self) -> Any:
        """A session."""

    @abstractmethod
    async def ask(self, session: Any) -> Asked:
        """From the message to the question."""

    @abstractmethod
    async def answer(self, asked: Asked) -> str:
        """From the answer to the reply."""

    def close(self) -> None:
        self.runner.close()

    def one(self, pairs: int, seconds: float) -> Times:
        times = Times()
        self.runner.run(self._until(times, pairs, time.perf_counter() + seconds))
        return times

    def many(self, clients: int, seconds: float) -> Times:
        times, deadline = Times(), time.perf_counter() + seconds

        async def all_clients() -> None:
            await asyncio.gather(*(self._until(times, None, deadline) for _ in range(clients)))

        self.runner.run(all_clients())
        return times

    def pause(self, sessions: int, clients: int) -> None:
        numbers = iter(range(sessions))

        async def client() -> None:
            for _ in numbers:
                await self.ask(await self.open())

        async def all_clients() -> None:
            await asyncio.gather(*(client() for _ in range(min(clients, sessions))))

        self.runner.run(all_clients())

    async def _until(self, times: Times, pairs: int | None, deadline: float) -> None:
        session = await self.open()
        while _more(times if pairs is not None else None, pairs, deadline):
            started = time.perf_counter()
            asked = await self.ask(session)
            waiting = answered = time.perf_counter()
            check(await self.answer(asked))
            times.add(started, waiting, answered)


class Http(Contender[Asked]):
    """Spoken to by requests, which `open`, `ask` and `answer` yield; what they return is what they say.

    One client is a blocking socket, many are sockets of one thread, so that the client costs little and the same for
    every contender.
    """

    in_process = False
    url: str

    def open(self) -> Requests[Any]:
        """A session."""
        yield from ()

    @abstractmethod
    def ask(self, session: Any) -> Requests[Asked]:
        """From the message to the question."""

    @abstractmethod
    def answer(self, asked: Asked) -> Requests[str]:
        """From the answer to the reply."""

    def one(self, pairs: int, seconds: float) -> Times:
        times = Times()
        drive(Connection(self.url), self._until(times, pairs, seconds))
        return times

    def many(self, clients: int, seconds: float) -> Times:
        times = Times()
        drive_all(self.url, [self._until(times, None, seconds) for _ in range(clients)])
        return times

    def pause(self, sessions: int, clients: int) -> None:
        numbers = iter(range(sessions))

        def client() -> Requests[None]:
            for _ in numbers:
                yield from self.ask((yield from self.open()))

        drive_all(self.url, [client() for _ in range(min(clients, sessions))])

    def _until(self, times: Times, pairs: int | None, seconds: float) -> Requests[None]:
        session = yield from self.open()
        deadline = time.perf_counter() + seconds
        while _more(times if pairs is not None else None, pairs, deadline):
            started = time.perf_counter()
            asked = yield from self.ask(session)
            waiting = answered = time.perf_counter()
            check((yield from self.answer(asked)))
            times.add(started, waiting, answered)


def _more(times: Times | None, pairs: int | None, deadline: float) -> bool:
    """Whether another job is to be begun."""
    have = 0 if times is None else len(times.answer)
    if pairs is not None and have < min(pairs, LEAST_PAIRS):
        return True
    return time.perf_counter() < deadline and (pairs is None or have < pairs)


def _in_threads(count: int, work: Any) -> None:
    """`count` threads; what one raises is raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised below
            failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check(said: str) -> None:
    """The agent came to its end."""
    if said != DONE:
        raise RuntimeError(f"the agent said {said!r} instead of {DONE!r}")


def work(number: int) -> int:
    """What a step of the job does."""
    return number


def directory() -> Path:
    """Where the contender keeps what it keeps: fresh, on the disk that is measured."""
    return Path(sys.argv[1])


def arguments() -> list[str]:
    """What the table of contenders says besides."""
    return sys.argv[2:]


def serve(make: type[Contender[Any]]) -> None:
    """Make the contender, then do what is asked for until the input ends."""
    adopt_orphans()
    # What libraries print goes to the log; the answers have a descriptor of their own.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    contender = make()
    try:
        versions = {name: importlib.metadata.version(name) for name in contender.packages}
        _reply(replies, settings=contender.settings, in_process=contender.in_process, versions=versions)
        for line in sys.stdin:
            command = json.loads(line)
            what = command.pop("do")
            started = time.perf_counter()
            if what == "pause":
                contender.pause(**command)
                _reply(replies)
            elif what == "settle":
                contender.settle()
                _reply(replies)
            else:
                times = {"one": contender.one, "many": contender.many}[what](**command)
                took = time.perf_counter() - started
                _reply(replies, ask=times.ask, answer=times.answer, seconds=took)
    finally:
        contender.close()


def _reply(replies: Any, **members: Any) -> None:
    replies.write(json.dumps(members) + "\n")
