"""A start that is interrupted, that takes too long or that fails leaves nothing behind, whatever it failed of."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import hitl
from tests.python.support.api import Api
from tests.python.support.served import clean_environment
from tests.python.support.waiting import eventually

GOOD = "async def agent(message, state):\n    return 'done', state\n"

SAY_PID = "import os, pathlib\npathlib.Path('importing').write_text(str(os.getpid()))\n"
HANG = SAY_PID + "import time\nwhile True:\n    time.sleep(1)\n"
HANGS = HANG + GOOD

THREADED = "import sys, threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
"""Cannot be forked: each worker imports it."""
IN_WORKER = "if 'hitl.worker.plain' in sys.orig_argv:\n    "
HANGING = {"once": HANGS, "in each worker": f"{THREADED}{IN_WORKER}{textwrap.indent(HANG, '    ').lstrip()}{GOOD}"}

LIMIT = 100.0
"""Seconds after which a process of a test has hung."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that servers of this test run in, with an agent that works."""
    (tmp_path / "good.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def running(directory: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A Python of its own, with a group of its own as in a terminal."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=directory,
        env=clean_environment() | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background has Ctrl-C ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # takes no lock
    )
    # Whoever reads what a process says that hangs reads its end.
    watch = threading.Timer(LIMIT, process.kill)
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def importing(directory: Path) -> int:
    """A process that imports what hangs, once it does."""
    told = directory / "importing"
    eventually(lambda: told.exists() and told.read_text() != "", expected=True)
    return int(told.read_text())


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("hangs", HANGING)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_start_whose_import_hangs(project: Path, number: signal.Signals, code: int, hangs: str) -> None:
    (project / "hangs.py").write_text(HANGING[hangs])
    command = ["-m", "hitl", "serve", "hangs:agent", "--port", "0", "--store", "hitl.db", "--start-timeout", "0"]
    with running(project, *command, "--log-level", "error") as process:
        worker = importing(project)
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (code, "", "")
        assert not is_there(worker)
    assert not (project / "hitl.db").exists()


def test_an_import_that_takes_too_long_is_told_with_what_to_do(project: Path) -> None:
    (project / "hangs.py").write_text(HANGS)
    command = ["-m", "hitl", "serve", "hangs:agent", "--port", "0", "--store", "hitl.db", "--start-timeout"]
    # On a busy machine the first may be over before the import has begun.
    for limit in ("1.5", "15", "60"):
        with running(project, *command, limit) as process:
            _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 3
        assert err.startswith(f"error: importing hangs:agent took longer than {limit} s\n\nhint: ")
        assert "--start-timeout" in err
        if (project / "importing").exists():
            break
    assert not is_there(importing(project))


PROGRAM = """
import os, pathlib, signal, sys
from hitl.serving.server import Server
try:
    Server("hangs:agent", port=0, store="hitl.db", start_timeout=0).start()
except KeyboardInterrupt:
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    print("interrupted", repr(children), flush=True)
with Server("good:agent", port=0, store="hitl.db") as server:
    try:
        print("serving", flush=True)
        server.wait()
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_ctrl_c_in_a_program_of_ones_own_interrupts_a_start_and_a_wait(project: Path) -> None:
    (project / "hangs.py").write_text(HANGS)
    (project / "program.py").write_text(PROGRAM)
    with running(project, "program.py") as process:
        assert process.stdout is not None
        zygote = importing(project)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted ''\n"
        assert not is_there(zygote)
        assert process.stdout.readline() == "serving\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(LIMIT) == 0


TESTS = """
def test_that_never_begins(hitl_server):
    hitl_server("hangs:agent", start_timeout=0)
"""


def test_ctrl_c_in_pytest_ends_a_test_whose_agent_hangs(project: Path) -> None:
    (project / "hangs.py").write_text(HANGS)
    (project / "test_it.py").write_text(TESTS)
    with running(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py") as process:
        zygote = importing(project)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)
        assert (process.returncode, "KeyboardInterrupt" in out) == (pytest.ExitCode.INTERRUPTED, True)
        assert not is_there(zygote)


@pytest.mark.parametrize("hangs", HANGING)
def test_stop_ends_a_start_in_another_thread(project: Path, hangs: str) -> None:
    (project / "hangs.py").write_text(HANGING[hangs])
    server = hitl.Server("hangs:agent", port=0, store="hitl.db", start_timeout=0)
    failed: list[hitl.ServeError] = []

    def start() -> None:
        with pytest.raises(hitl.ServeError) as caught:
            server.start()
        failed.append(caught.value)

    starting = threading.Thread(target=start)
    with nothing_left():
        starting.start()
        importing(project)
        server.stop()
        starting.join(LIMIT)
    assert [error.code for error in failed] == ["start_stopped"]


@pytest.mark.parametrize("hangs", HANGING)
def test_a_cancelled_start_leaves_nothing(project: Path, hangs: str) -> None:
    (project / "hangs.py").write_text(HANGING[hangs])

    async def start() -> None:
        async with hitl.Server("hangs:agent", port=0, store="hitl.db", start_timeout=0):
            pass

    async def cancel() -> None:
        starting = asyncio.create_task(start())
        await asyncio.to_thread(importing, project)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    with nothing_left():
        asyncio.run(cancel())
    assert_serves(project)


def test_an_end_that_is_cancelled_is_an_end_all_the_same(project: Path) -> None:
    begun, finish, urls = threading.Event(), threading.Event(), list[str]()

    async def agent(_message: Any, state: Any) -> Any:
        begun.set()
        await asyncio.to_thread(finish.wait, LIMIT)
        return "done", state

    def send() -> None:
        with closing(Api(urls[0])) as api:
            api.send(api.create(), "hello")
        begun.wait(LIMIT)

    def is_refused() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", urlsplit(urls[0]).port)) != 0

    async def serve() -> None:
        async with hitl.Server(agent, port=0, store="hitl.db", shutdown_timeout=LIMIT) as server:
            urls.append(server.url)
            await asyncio.to_thread(send)

    async def cancel() -> None:
        serving = asyncio.create_task(serve())
        await asyncio.to_thread(begun.wait, LIMIT)
        await asyncio.to_thread(eventually, is_refused, expected=True)
        serving.cancel()
        asyncio.get_running_loop().call_soon(finish.set)
        with pytest.raises(asyncio.CancelledError):
            await serving

    with nothing_left():
        asyncio.run(cancel())
        assert_serves(project)


def no_policy(directory: Path) -> None:
    (directory / "policy.toml").write_text("[[rules]]\nallow = 7\n")


def broken_store(directory: Path) -> Callable[[], None]:
    (directory / "hitl.db").write_text("no database")
    return (directory / "hitl.db").unlink


def store_without(table: str) -> Callable[[Path], Callable[[], None]]:
    """A store that opens, and of which an engine cannot read all."""

    def rename(database: Path, old: str, new: str) -> None:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")

    def prepare(directory: Path) -> Callable[[], None]:
        keyless_store(directory)
        (directory / "none.toml").write_text('rules = "none"\n')
        rename(directory / "hitl.db", table, "away")
        return lambda: rename(directory / "hitl.db", "away", table)

    return prepare


def keyless_store(_directory: Path) -> None:
    with hitl.Server("good:agent", port=0, store="hitl.db"):
        pass


FAILURES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "an import that raises": ("raise RuntimeError('not today')", {}, None),
    "an import that ends its process": ("import os\nos._exit(4)", {}, None),
    "no such attribute": ("other = 1", {}, None),
    "an import that takes too long": (HANGS, {"start_timeout": 1.0}, None),
    "an import that raises in each worker": (f"{THREADED}{IN_WORKER}raise RuntimeError('not today')\n{GOOD}", {}, None),
    "an import that takes too long in each worker": (
        f"{THREADED}{IN_WORKER}threading.Event().wait()\n{GOOD}",
        {"start_timeout": 3.0},
        None,
    ),
    "shared workers that cannot import it": (
        f"{THREADED}{IN_WORKER}raise RuntimeError('not today')\n{GOOD}",
        {"isolation": "task"},
        None,
    ),
    "an address in use": (GOOD, {"port": "in use"}, None),
    "an address of another machine": (GOOD, {"host": "203.0.113.7", "insecure": True}, None),
    "a public address without a key": (GOOD, {"host": "0.0.0.0"}, keyless_store),
    "nobody has a name": (GOOD, {"prevent_self_approval": True}, None),
    "a policy that is none": (GOOD, {"policy": "policy.toml"}, no_policy),
    "no policy": (GOOD, {"policy": "missing.toml"}, None),
    "a webhook that is none": (GOOD, {"webhooks": ["https://a.test/,nonsense"]}, None),
    "a secret that is none": (GOOD, {"webhook_secret": f"whsec_{'A' * 33}B=="}, None),
    "a store that is none": (GOOD, {}, broken_store),
    "a store without its keys": (GOOD, {}, store_without("keys")),
    "a store without its turns": (GOOD, {"policy": "none.toml"}, store_without("turns")),
}


@pytest.mark.parametrize("way", FAILURES)
def test_whatever_a_start_fails_of_the_next_one_works(project: Path, way: str) -> None:
    source, options, prepare = FAILURES[way]
    (project / "bad.py").write_text(source)
    mend = None if prepare is None else prepare(project)
    with socket.socket() as taken, nothing_left():
        if options.get("port") == "in use":
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            options = options | {"port": taken.getsockname()[1]}
        with pytest.raises((hitl.ServeError, ValueError)) as failed:
            hitl.Server("bad:agent", **{"port": 0, "store": "hitl.db", **options}).start()
        if mend is not None:
            mend()
        if "too long" in way:
            assert getattr(failed.value, "code", None) == "start_timeout"
        # At once: nobody has to wait for what was left.
        assert_serves(project)


def test_a_live_agents_failed_start_leaves_no_thread(project: Path) -> None:
    async def agent(_message: Any, state: Any) -> Any:
        return "done", state

    with nothing_left():
        with pytest.raises(hitl.ServeError):
            hitl.Server(agent, port=0, store="hitl.db", prevent_self_approval=True).start()
        assert_serves(project)


def assert_serves(directory: Path) -> None:
    """The store of this test can be served with an agent that works."""
    with hitl.Server("good:agent", port=0, store=str(directory / "hitl.db")) as server, closing(Api(server.url)) as api:
        assert api.get("/readyz").status_code == 200


def children() -> set[str]:
    """Processes below this one."""
    return set(of_tasks("children").split())


def threads() -> Counter[str]:
    """Threads of this process by their names, but for those of the one runtime and that of the log, which stay."""
    stay = ("tokio", "hitl-log")
    return Counter(name for name in of_tasks("comm").split("\n") if name and not name.startswith(stay))


def of_tasks(file: str) -> str:
    """A file of each thread of this process, one after the other."""
    read = ""
    for task in Path("/proc/self/task").iterdir():
        try:
            read += (task / file).read_text()
        except (FileNotFoundError, ProcessLookupError):  # it ends just now
            continue
    return read


@contextmanager
def nothing_left() -> Iterator[None]:
    """What begins in the block has ended soon after it: processes, and threads of ours."""
    before = (children(), threads())

    def left() -> list[str]:
        return [*(children() - before[0]), *(threads() - before[1])]

    yield
    eventually(lambda: left() == [], expected=True)
