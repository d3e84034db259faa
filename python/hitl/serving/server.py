"""An agent behind HTTP: inside a program (`Server`), or until a signal comes (`serve`, which `hitl serve` calls)."""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from hitl.errors import HitlError
from hitl.pythons import require_tested
from hitl.serving import standard_error
from hitl.serving.options import ServeOptions, ServerOptions, options_of
from hitl.worker import isolation
from hitl.worker.isolation import INSTRUMENT

if TYPE_CHECKING:
    from types import FrameType

    from hitl import _core
    from hitl.driver.requests import ContextFrom as ContextFrom
    from hitl.driver.shapes import Agent as Agent
    from hitl.worker.inprocess import InProcessWorker

_GIVEN_ON = re.compile(
    r"HITL_(MODEL|FILES|AGENT_.+|ALLOW_UNTESTED_PYTHON|FAILPOINT|MUTATION|SPARE_SILENT|WORKER_FAILPOINT(_MARK)?)",
    re.DOTALL,
)
"""What agents read: the model, the folder of the examples, and whatever they call `HITL_AGENT_...`. What holds for
`hitl.run` in a worker as it does in the server: whether its Python may run turns. Besides, the places where tests make
hitl fail. An option of the server is none of an agent's business, and most of them are secrets."""
_SECRET = re.compile(r".*(API_KEY|STATE_KEY|SECRET|TOKEN)(_FILE)?", re.DOTALL)

_PYTHON_ONLY = ("agent", "log_level", "log_format", "otel")
"""Options that the core has no use for, or in another form."""

_EXIT_CODES = {"usage": 2, "agent": 3}
_RUNTIME_ERROR = 1
_INTERRUPTED = 130

_WORKER_ENDS = 8.0
"""Seconds that the thread of a live agent's turns has to end: longer than a cancelled agent may clean up, and than it
takes to close what is open."""

_ONE_PRESS = 0.5
"""Seconds within which signals are one: `uv run` may pass on the Ctrl-C that the terminal has sent to all."""


def worker_environment() -> dict[str, str]:
    """This process's environment without what is the server's: every `HITL_...` that no agent reads.

    What an agent's tools can read, they can use against the person who is asked.
    """
    return {name: value for name, value in os.environ.items() if not _is_withheld(name.upper())}


def _is_withheld(name: str) -> bool:
    return name.startswith("HITL_") and (not _GIVEN_ON.fullmatch(name) or _SECRET.fullmatch(name) is not None)


def _told_environment(*, has_workers: bool) -> dict[str, str]:
    """The same without what the core cannot take: a variable may be anything, and an agent may well do without such a
    one, but not without a server. Whoever ``has_workers`` is told of it."""
    environment = worker_environment()
    odd = [name for name, value in environment.items() if not (_is_utf8(name) and _is_utf8(value))]
    for name in odd:
        del environment[name]
    if odd and has_workers:
        names = ", ".join(ascii(name) for name in sorted(odd))
        standard_error.say(f"hitl serve: workers do not get what is not UTF-8 in the environment: {names}")
    return environment


def _told_place(what: str, path: str, *, has_workers: bool) -> str:
    if _is_utf8(path):
        return path
    if has_workers:
        raise ServeError(
            f"{what}, {path!a}, is not UTF-8: no worker can be started there",
            "usage",
            "start it from a directory with another name",
        )
    return ascii(path)  # nothing is started there


def _is_utf8(text: str) -> bool:
    """Of the system, Python takes any bytes; those that are not UTF-8 are surrogates then."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class ServeError(HitlError):
    """A server that could not start.

    kind: `usage` (an option), `agent` (it cannot be imported) or `runtime`; hint: what to do, or None. code:
    `start_timeout` where importing the agent took longer than that option allows, `start_stopped` where `stop()` came
    first, else `serve_failed`.
    """

    code = "serve_failed"

    def __init__(
        self, message: str, kind: str = "runtime", hint: str | None = None, code: str = "serve_failed"
    ) -> None:
        super().__init__(message, kind, hint, code)
        self.code = code
        self.message = message
        self.kind = kind
        self.hint = hint
        self._say_hint(hint)

    def __str__(self) -> str:
        return self.message


class Server:
    """An agent behind the session API, in this program.

    agent: `MODULE:ATTR`, whose turns run in worker processes; or a live agent, whose turns run in a thread of this
    process. options: those of `hitl serve`, with underscores (`port=0`, `store="memory"`, `api_key=...`). Where that
    takes `--state-key FILE` this takes the key itself; and `ui=False`, `webhooks=[...]`, `allowed_hosts=[...]` are its
    `--no-ui`, `--webhook`, `--allowed-host`.

    resources, context_from: of a live agent, in the place of what it declares (`hitl.resources`, `hitl.TurnRequest`).
    resources may be an object that is open already, and stays so. A `TypeError` beside `MODULE:ATTR`: what is not
    declared there, no worker process would know.

    Usable as `with` and `async with`, or by `start()` and `stop()`. Raises `InvalidOption` when it is made, and
    `ServeError`, `AgentLoadError` or `PythonUntested` when it cannot start; then nothing is left behind, and neither is
    when a start is interrupted by Ctrl-C or cancelled.

    Example:
        with Server(agent, port=0, store="memory") as server, Client(server.url) as client:
            session = client.ask(client.create_session().session_id, "hello")
    """

    def __init__(
        self,
        agent: Agent | str,
        *,
        resources: Any = None,
        context_from: ContextFrom | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        if isinstance(agent, str) and (resources is not None or context_from is not None):
            raise TypeError(
                "Server(resources=, context_from=) is for a live agent: processes that import it know nothing of this "
                f"one\n\nhint: declare them with the agent in {agent}, @hitl.agent(resources=..., context_from=...)"
            )
        self._set_up(options_of("Server()", agent, options), (resources, context_from))

    @classmethod
    def _of(cls, options: ServeOptions) -> Self:
        """One with options that are made."""
        server = cls.__new__(cls)
        server._set_up(options, (None, None))
        return server

    def _set_up(self, options: ServeOptions, given: tuple[Any, ContextFrom | None]) -> None:
        self._given = given
        self.options = options
        self._core: _core.Server | None = None
        self._worker: InProcessWorker | None = None
        self._begun = threading.Event()
        """There is something that `stop()` ends, or there will not be."""

    @property
    def url(self) -> str:
        """Where it listens, for example `http://127.0.0.1:8000`; RuntimeError when it does not."""
        if self._core is None:
            raise RuntimeError("the server is not running; call start() first")
        return self._core.url

    def start(self) -> Self:
        """Return once it listens. `stop()` from another thread ends it, with a `ServeError`."""
        with self._starting() as core:
            _interruptibly(core.start)
        return self

    def stop(self, timeout: float | None = None) -> None:
        """Park what waits, let turns at work finish for at most `timeout` seconds (default: `shutdown_timeout`), close.

        What is still at work then goes on when a server is started on the same store. A live agent that blocks its
        event loop is not waited for: its thread goes on until the program ends, and standard error says so. Less than 0
        is 0: the deadline that it was counted from has passed. `TypeError` or `ValueError` for what is no time, and the
        server goes on.
        """
        patience = self._patience(timeout)
        core, self._core = self._core, None
        try:
            if core is not None:
                core.stop(patience)
        finally:
            self._end_worker()

    def _stop_even_if_starting(self) -> None:
        """`stop()`, for one that `start()` has been or is being called of in another thread."""
        self._begun.wait()
        self.stop()

    def wait(self) -> None:
        """Block until the server is over: by `stop()` from another thread, by `hitl servers drain`, or as it failed
        (`ServeError`).
        """
        core = self._core
        if core is not None:
            _interruptibly(core.wait)

    @property
    def is_drained(self) -> bool:
        """Whether it has ended because `hitl servers drain` asked it to."""
        return self._core is not None and self._core.is_drained

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        # Late: whoever awaits this has it already, and `hitl serve` starts without.
        from asyncio import wrap_future

        with self._starting() as core:
            await wrap_future(_in_thread(core.start, daemon=False))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await _to_its_end(self.stop)

    @contextmanager
    def _starting(self) -> Iterator[_core.Server]:
        try:
            core = self._prepare()
        finally:
            self._begun.set()
        try:
            yield core
        except BaseException:
            self._core = None
            try:
                core.stop(0.0)  # whoever was interrupted has left it starting
            finally:
                self._end_worker()
            raise

    def _prepare(self) -> _core.Server:
        require_tested()
        # Late: the command line says what is wrong with an option before it imports what serves.
        from hitl import _core

        if self._core is not None:
            raise RuntimeError("the server is running already")
        options = self.options
        standard_error.start_log(options.log_level, options.log_format)
        settings = {field.name: getattr(options, field.name) for field in fields(options)}
        for name in _PYTHON_ONLY:
            del settings[name]
        settings["takes_requests"] = options.takes_requests
        has_workers = isinstance(options.agent, str)
        settings["python"] = _told_place("the path of Python", sys.executable, has_workers=has_workers)
        settings["working_dir"] = _told_place("the working directory", str(Path.cwd()), has_workers=has_workers)
        environment = _told_environment(has_workers=has_workers)
        settings["environment"] = environment | ({INSTRUMENT: "1"} if options.otel else {})
        if isinstance(options.agent, str):
            settings["agent"] = options.agent
            core = _core.Server(settings)
        else:
            # Only here: who serves an agent by its name starts at once, without what runs turns, asyncio above all.
            from hitl.driver.shapes import as_agent
            from hitl.worker.inprocess import InProcessWorker

            if options.otel:
                # By name: the room is above this one, and few programs trace.
                import_module("hitl.ext.otel").instrument_for_option()
            loaded = as_agent(options.agent).given("Server()", *self._given)
            settings["agent"] = loaded.name
            core = _core.Server(settings)
            self._worker = InProcessWorker(loaded, core.open_channel()).start()
        self._core = core
        return core

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop(_WORKER_ENDS)

    def _patience(self, timeout: float | None) -> float:
        if timeout is None:
            return self.options.shutdown_timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            raise TypeError(f"stop(): timeout is a number of seconds or None, got {timeout!r}")
        if math.isnan(timeout):
            raise ValueError("stop(): timeout is a number of seconds or None, got nan")
        return max(0.0, float(timeout))


@overload
def serve(agent: Agent | str, **options: Unpack[ServerOptions]) -> int: ...
@overload
def serve(agent: ServeOptions) -> int: ...
def serve(agent: Any, **options: Any) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP, as `hitl serve` does; the exit code. A second signal ends it at once.

    agent, options: those of `Server`, or one `ServeOptions` with everything. Only for the main thread, which hears the
    signals. Prints one line with the URL on standard output once it listens, and errors with a hint on standard error.
    Raises `InvalidOption`.

    Example:
        if __name__ == "__main__":
            sys.exit(hitl.serve("my_agent:agent", port=8000, store="sqlite:hitl.db"))
    """
    made = replace(agent, **options) if isinstance(agent, ServeOptions) else options_of("serve()", agent, options)
    if made.takes_requests:
        return serve_saying(lambda url: f"{made.agent} is served on {url}", made)
    return serve_saying(lambda url: f"turns of {made.agent} are run; probes and metrics on {url}", made)


def serve_saying(words: Callable[[str], str], options: ServeOptions) -> int:
    """`serve`, which prints what `words` makes of the URL once it listens."""
    server = Server._of(options)
    require_tested()
    isolation.hide()
    with _Signals() as signals:
        started = signals.tell_when(server.start)
        while not started.done() and not signals.received:
            signals.wait()
        if not signals.received:
            try:
                started.result()
            except ServeError as error:
                hint = f"\n\nhint: {error.hint}" if error.hint else ""
                standard_error.say(f"error: {error}{hint}")
                return _EXIT_CODES.get(error.kind, _RUNTIME_ERROR)
            standard_error.flush()  # what the start has logged stands above
            print(words(server.url), flush=True)
            over = signals.tell_when(server.wait)
            while not over.done() and not signals.received:  # a program may handle other signals than ours
                signals.wait()
            if over.done():
                if server.is_drained:
                    server.stop()
                    standard_error.say("ended, as it was asked to by `hitl servers drain`")
                    return 0
                standard_error.say("error: the server ended by itself; its log says why")
                return _RUNTIME_ERROR
        stopped = signals.tell_when(server._stop_even_if_starting)
        signals.wait()
        while not stopped.done():
            if signals.received > 1:
                # Asked twice: workers die with this process, and what is committed is committed.
                standard_error.say("stopped at once; turns at work go on with the next start")
                standard_error.flush()
                os._exit(_INTERRUPTED)
            signals.wait()
        if (failed := stopped.exception()) is not None:
            standard_error.say(f"error: {failed}")
            return _RUNTIME_ERROR
        return _INTERRUPTED if signals.first == signal.SIGINT else 0


def ends() -> list[int]:
    """The signals that a server ends by. A terminal that is closed says SIGHUP; `nohup` has it ignored."""
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hangup]


class _Signals:
    """What ends a server, and ends of threads, as one thing to wait for without polling."""

    def __init__(self) -> None:
        self.received = 0
        self.first: int | None = None
        self._since = 0.0

    def __enter__(self) -> Self:
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._handlers = {number: signal.signal(number, self._receive) for number in ends()}
        self._wakeup_fd = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *exc_info: object) -> None:
        signal.set_wakeup_fd(self._wakeup_fd)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        # The sockets stay open for a thread that is still to tell; the collector closes them.

    def wait(self) -> None:
        """Return after the next signal or end of a thread."""
        self._woken.recv(1)

    def tell_when(self, work: Callable[[], object]) -> Future[None]:
        """Run `work` in a thread; a wait returns when the future is done."""
        future = _in_thread(work)
        future.add_done_callback(lambda _: self._waker.send(b"\0"))
        return future

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self._since = number, now
        elif now - self._since < _ONE_PRESS:
            return
        self.received += 1


def _interruptibly(work: Callable[[], object]) -> None:
    """Run `work`, which holds up its thread without running Python, so that a signal is heard meanwhile.

    Handlers of signals run in the main thread alone. What one raises (KeyboardInterrupt) leaves `work` to itself.
    """
    if threading.current_thread() is threading.main_thread():
        _in_thread(work).result()
    else:
        work()


async def _to_its_end(work: Callable[[], object]) -> None:
    """Run `work` in a thread. Whoever is cancelled meanwhile hears of it once `work` is done."""
    import asyncio  # late, as in `__aenter__`

    running = asyncio.wrap_future(_in_thread(work, daemon=False))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        running.result()
    finally:
        if cancelled is not None:
            raise cancelled


def _in_thread(work: Callable[[], object], *, daemon: bool = True) -> Future[None]:
    """Run `work` in a thread of its own: those of a loop's executor may all be taken by what waits for `work`.

    daemon: whether the interpreter may exit meanwhile. A thread that comes back from the core to one that does so takes
    the process down with it.
    """
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # whoever does not wait any more cannot keep it from being settled

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (the waiting thread's to handle, whatever it is)
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="hitl serve", daemon=daemon).start()
    return future
