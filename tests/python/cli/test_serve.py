"""`hitl serve`: what it refuses before anything is created, and --reload."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx2
import pexpect  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner

from hitl.cli.app import program
from hitl.cli.reload import snapshot
from hitl.serving.options import InvalidOption, ServeOptions, default_workers, is_loopback
from tests.python.cli.conftest import Run
from tests.python.cli.terminal import end, environment
from tests.python.support.api import Api, result
from tests.python.support.served import ROOT

WRONG: dict[str, tuple[list[str], str, str]] = {
    "no attribute": (["my_agent"], "'my_agent' does not name an agent", "my_agent:agent"),
    "empty attribute": (["my_agent:"], "'my_agent:' does not name an agent", "my_agent:agent"),
    "a file": (["examples/my_agent.py:agent"], "does not name an agent", "examples.my_agent:agent"),
    "no workers": (["m:a", "--workers", "0"], "--workers: 0 workers run no turn", "at least 1"),
    "port too large": (["m:a", "--port", "70000"], "--port: 70000 is no port", "65535"),
    "open to all": (["m:a", "--host", "0.0.0.0"], "can be reached from other machines", "--insecure"),
    "open to a name": (["m:a", "--host", "example.org"], "can be reached from other machines", "--api-key"),
    "open by a name": (
        ["m:a", "--allowed-host", "localhost:3000", "--allowed-host", "agents.example.com"],
        "--allowed-host: agents.example.com is a name for other machines",
        "--api-key",
    ),
    "open by an address": (["m:a", "--allowed-host", "10.0.0.7:80"], "10.0.0.7:80 is a name for other", "--api-key"),
    "a URL for a name": (["m:a", "--allowed-host", "https://a.example"], "'https://a.example' is no host", "https://"),
    "a name in other letters": (["m:a", "--allowed-host", "münchen.example"], "is no host", "punycode (xn--...)"),
    "a pattern": (["m:a", "--allowed-host", "*.corp.example"], "'*.corp.example' is no host", "no *"),
    "a path": (["m:a", "--allowed-host", "a.example/inbox"], "'a.example/inbox' is no host", "agents.example.com"),
    "no address for a name": (["m:a", "--allowed-host", "999.1.1.1:80"], "'999.1.1.1:80' is no host", "a name"),
    "no address": (["m:a", "--host", "999.1.1.1"], "--host: 999.1.1.1 is no address", "127.0.0.1"),
    "no address of IPv6": (["m:a", "--host", "::zz"], "--host: ::zz is no address", "127.0.0.1"),
    "empty host": (["m:a", "--host", ""], "--host: is empty", "127.0.0.1"),
    "no such store": (["m:a", "--store", "mysql://x"], "no mysql store", "sqlite:"),
    "memory in large letters": (["m:a", "--store", "Memory"], "--store: Memory would be a file", "write memory"),
    "store without a path": (["m:a", "--store", "sqlite:"], "--store: names no file", "sqlite:"),
    "negative duration": (["m:a", "--ttl", "-1"], "--ttl: -1.0 is no duration", "seconds"),
    "endless duration": (["m:a", "--timeout", "inf"], "--timeout: inf is no duration", "seconds"),
    "not a number": (["m:a", "--interrupt-ttl", "nan"], "--interrupt-ttl: nan is no duration", "seconds"),
    "negative queue": (["m:a", "--queue", "-1"], "--queue: -1 is too small", "at least 0"),
    "hasty worker timeout": (["m:a", "--worker-timeout", "0.5"], "--worker-timeout: 0.5 is too short", "at least 1"),
    "no URL": (["m:a", "--webhook", "hooks.test/a,idle"], "--webhook: 'hooks.test/a' is no URL", "https://"),
    "no secret of webhooks": (["m:a", "--webhook-secret", "foo"], "--webhook-secret: must be `whsec_`", "openssl rand"),
    "empty key": (["m:a", "--api-key", ""], "--api-key: must be printable", "openssl"),
    "short key": (["m:a", "--api-key", "fifteen letters"], "--api-key: 15 characters can be guessed", "openssl"),
    "key file missing": (
        ["m:a", "--api-key-file", "nowhere"],
        "--api-key-file: No such file or directory",
        "holds the key",
    ),
    "state key missing": (
        ["m:a", "--state-key", "nowhere"],
        "--state-key: No such file or directory",
        "a file of text",
    ),
    "two keys": (["m:a", "--api-key", "k", "--api-key-file", "f"], "are both given", "one of them"),
}


@pytest.mark.parametrize(("arguments", "message", "hint"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_option_is_refused_and_nothing_is_created(
    hitl: Run, tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    finished = hitl("serve", *arguments)
    assert finished.returncode == 2
    first, *_, last = finished.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert last.startswith("hint: ")
    assert hint in last
    assert list(tmp_path.iterdir()) == []


def test_two_keys_are_named_as_they_were_given(hitl: Run) -> None:
    refused = hitl("serve", "m:a", "--api-key-file", "f", HITL_API_KEY="of a client in this shell")
    assert refused.stderr.startswith("error: HITL_API_KEY and --api-key-file are both given")
    assert "hint: give one of them: unset HITL_API_KEY" in refused.stderr


@pytest.mark.parametrize("option", ["--state-key", "--api-key-file"])
@pytest.mark.parametrize("way", ["the key itself", "an empty file", "no text"])
def test_what_may_be_the_key_itself_is_not_repeated(hitl: Run, tmp_path: Path, option: str, way: str) -> None:
    given = "kept-by-nobody-else"
    if way != "the key itself":
        (tmp_path / given).write_bytes(b"" if way == "an empty file" else b"\xff")
    finished = hitl("serve", "m:a", option, given)
    assert finished.returncode == 2
    assert f"error: {option}: " in finished.stderr
    assert given not in finished.stderr + finished.stdout


def test_options_come_from_the_environment_too(hitl: Run) -> None:
    finished = hitl("serve", HITL_AGENT="m:a", HITL_WORKERS="0")
    assert (finished.returncode, finished.stderr.splitlines()[0]) == (2, "error: --workers: 0 workers run no turn")


def test_defaults_are_those_of_the_contract() -> None:
    options = ServeOptions(agent="m:a")
    assert (options.host, options.port, options.store) == ("127.0.0.1", 8000, "sqlite:.hitl/hitl.db")
    assert (options.queue, options.max_payload, options.max_value) == (1000, 16_384, 1_048_576)
    assert (options.interrupt_ttl, options.shutdown_timeout, options.isolation) == (0.0, 10.0, "process")
    assert (options.park_after, options.max_warm) == (60.0, 64)
    assert (options.worker_timeout, options.max_recoveries, options.keep_journal) == (30.0, 3, 7 * 24 * 3600.0)
    assert options.workers == default_workers("process") >= 16


def test_a_turn_that_awaits_its_model_keeps_no_processor_from_another() -> None:
    assert ServeOptions(agent="m:a", isolation="task").workers == 8 * default_workers("process")
    assert ServeOptions(agent=object()).workers == default_workers("task")  # its turns are tasks of this process
    assert ServeOptions(agent="m:a", workers=1).workers == 1


@pytest.mark.parametrize(("files", "turns"), [(1024, 16), (2048, 128), (-1, 128)])
def test_a_default_takes_no_more_files_than_the_process_may_open(
    monkeypatch: pytest.MonkeyPatch, files: int, turns: int
) -> None:
    # A server with 128 processes at work, and as many that wait, did not start where it may open 1024 files.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert default_workers("process") == turns
    assert default_workers("task") == 1024


def another(name: str) -> Any:
    """A value of an option that is not its default."""
    words = {"isolation": "task", "log_level": "debug", "log_format": "json", "api_key": "sixteen letters."}
    words["state_key"] = "a key of the tests"
    words["store"] = "postgresql://hitl@db.test/hitl"  # the only kind that takes each of them
    words["webhook_secret"] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    if name == "webhooks":
        return ("https://a.test/", "https://b.test/,idle")
    default = getattr(ServeOptions(agent="m:a"), name)
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 7
    return (f"{name}.test", "b.test") if isinstance(default, tuple) else words.get(name, f"{name}.test")


def test_every_option_of_a_server_is_one_of_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = {field.name: another(field.name) for field in fields(ServeOptions) if field.name != "agent"}
    key = tmp_path / "key"
    key.write_text(wanted["state_key"])
    # Named otherwise: what can be repeated, what is on by default, what is a file.
    named = {"allowed_hosts": "allowed_host", "webhooks": "webhook", "ui": "no_ui"}
    arguments = ["serve", "m:a"]
    for name, value in wanted.items():
        flag = "--" + named.get(name, name).replace("_", "-")
        for each in value if isinstance(value, tuple) else [key if name == "state_key" else value]:
            arguments += [flag] if isinstance(each, bool) else [flag, str(each)]
    served: list[ServeOptions] = []
    monkeypatch.setattr("hitl.cli.serve._serve", lambda options: served.append(options) or 0)
    finished = CliRunner().invoke(program(), arguments)
    assert finished.exit_code == 0, finished.output
    assert [{field.name: getattr(options, field.name) for field in fields(options)} for options in served] == [
        {"agent": "m:a", **wanted}
    ]


def test_an_option_that_is_repeated_is_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServeOptions] = []
    monkeypatch.setattr("hitl.cli.serve._serve", lambda options: served.append(options) or 0)
    given = {"HITL_ALLOWED_HOST": "a.localhost b.localhost:80", "HITL_WEBHOOK": "https://a.test/,idle https://b.test/"}
    assert CliRunner().invoke(program(), ["serve", "m:a"], env=given).exit_code == 0
    assert [(options.allowed_hosts, options.webhooks) for options in served] == [
        (("a.localhost", "b.localhost:80"), ("https://a.test/,idle", "https://b.test/"))
    ]


def test_defaults_of_the_command_line_are_those_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServeOptions] = []
    monkeypatch.setattr("hitl.cli.serve._serve", lambda options: served.append(options) or 0)
    assert CliRunner().invoke(program(), ["serve", "m:a"]).exit_code == 0
    assert served == [ServeOptions(agent="m:a")]


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0", "api_key": "sixteen letters."},
        {"host": "0.0.0.0", "insecure": True},
        {"host": "::1"},
        {"allowed_hosts": ["localhost", "LOCALHOST:3000", "inbox.localhost", "127.0.0.2:80", "[::1]:80", "localhost."]},
        {"allowed_hosts": ["agents.example.com", "[2001:db8::7]:443"], "api_key": "sixteen letters."},
        {"allowed_hosts": ["agents.example.com"], "insecure": True},
        {"allowed_hosts": ["agents.example.com"], "store": "postgresql://hitl@db.test/hitl"},  # which may have keys
        {"host": "localhost"},
        {"agent": "a.b.c:d.e"},
        {"agent": object()},
        {"store": "memory"},
        {"store": "some/where.db"},
        {"port": 0},
        {"queue": 0},
        {"park_after": 0.0, "max_warm": 0, "max_recoveries": 0, "keep_journal": 0.0},
    ],
)
def test_what_can_be_served(options: dict[str, Any]) -> None:
    ServeOptions(**{"agent": "m:a", **options})


@pytest.mark.parametrize("options", [{"isolation": "thread"}, {"log_level": "loud"}, {"log_format": "xml"}])
def test_unknown_words_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="is unknown"):
        ServeOptions(agent="m:a", **options)


def test_only_addresses_of_this_machine_are_loopback() -> None:
    assert [host for host in ("127.0.0.1", "127.8.8.8", "[::1]", "LOCALHOST") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org") if is_loopback(host)] == []


def test_only_sources_of_the_project_are_watched(tmp_path: Path) -> None:
    for path in ("agent.py", "pkg/tools.py", "notes.txt", ".git/x.py", "env/pyvenv.cfg", "env/lib/y.py", "target/z.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).parent.joinpath(Path(path).name).touch()
    assert {os.path.relpath(path, tmp_path) for path in snapshot(tmp_path)} == {"agent.py", "pkg/tools.py"}


def test_the_module_and_the_working_directory(tmp_path: Path) -> None:
    """`python -m hitl` from any directory, as a process of its own."""
    code = "import sys; sys.argv = ['hitl', 'health', '--help']; from hitl.cli import main; main()"
    python_path = os.pathsep.join(path for path in sys.path if path)
    for command in (["-m", "hitl", "health", "--help"], ["-P", "-c", code]):
        finished = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(PYTHONPATH=python_path),
            timeout=200,
            check=False,
        )
        assert (finished.returncode, finished.stderr) == (0, "")
        assert "Ask a server how it is" in finished.stdout


AGENT = "async def agent(message, state):\n    return message, state\n"


@pytest.mark.parametrize(
    ("agent", "code", "message"),
    [
        ("no_module:agent", 3, "there is no module 'no_module'"),
        ("my_agent:nothing", 3, "my_agent has no attribute 'nothing'"),
        ("my_agent:__name__", 3, "not an agent"),
    ],
)
def test_an_agent_that_cannot_be_served_exits_with_3(tmp_path: Path, agent: str, code: int, message: str) -> None:
    finished = serve_to_the_end(tmp_path, agent, "--store", "hitl.db")
    assert finished.returncode == code
    assert finished.stderr.startswith("error: ")
    assert message in finished.stderr
    assert "\nhint: " in finished.stderr
    assert not (tmp_path / "hitl.db").exists()


@pytest.mark.parametrize("imported_by", ["hitl.worker.zygote", "hitl.worker.plain"])
def test_an_agent_whose_import_ends_the_process_exits_with_3(tmp_path: Path, imported_by: str) -> None:
    # With its thread it cannot be forked: each worker imports it.
    thread = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    dies = f"import os, sys\nif {imported_by!r} in sys.orig_argv:\n    os._exit(4)\n"
    (tmp_path / "dies.py").write_text(thread + dies + AGENT)
    finished = serve_to_the_end(tmp_path, "dies:agent", "--store", "hitl.db")
    assert finished.returncode == 3
    assert "error: importing dies:agent ended the worker process: exit code 4" in finished.stderr
    assert not (tmp_path / "hitl.db").exists()


def test_a_port_in_use_is_told_and_nothing_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finished = serve_to_the_end(
            tmp_path, "my_agent:agent", "--port", str(taken.getsockname()[1]), "--store", "hitl.db"
        )
    assert (finished.returncode, finished.stderr.count("hint: ")) == (1, 1)
    assert not (tmp_path / "hitl.db").exists()


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    finished = serve_to_the_end(tmp_path, "my_agent:agent", "--store", "notes.txt")
    assert finished.returncode == 2
    assert "is not a database" in finished.stderr
    assert (tmp_path / "notes.txt").read_text() == "hello\n"


def serve_to_the_end(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (directory / "my_agent.py").write_text(AGENT)
    return subprocess.run(
        [sys.executable, "-m", "hitl", "serve", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **variables),
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_key_of_a_person_does_not_become_that_of_the_server(hitl: Run, tmp_path: Path, *, is_revoked: bool) -> None:
    for name in ("root", "ada"):
        made = hitl("keys", "create", name, "--scope", "admin", "--store", "sqlite:hitl.db")
    person = json.loads(made.stdout)["key"]
    if is_revoked:
        hitl("keys", "revoke", "ada", "--store", "sqlite:hitl.db")
    refused = serve_to_the_end(tmp_path, "my_agent:agent", "--store", "sqlite:hitl.db", HITL_API_KEY=person)
    assert refused.returncode == 2
    assert refused.stderr.startswith('error: --api-key: that is the key "ada" of the store')
    assert "hint: HITL_API_KEY is what clients read as well: unset it here" in refused.stderr
    assert person not in refused.stderr


# A stand-in for `hitl.serving.server`, so that reloading is tested by itself: "serves" by printing what the agent says.
SERVING = """
import importlib, signal, sys
def serve(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    print("serving", importlib.import_module(options.agent.split(":")[0]).says, flush=True)
    signal.pause()
"""


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "my_agent.py").write_text("says = 'one'\n")
    stand_in = tmp_path / ".stand_in"
    stand_in.mkdir()
    (stand_in / "start.py").write_text("")
    (stand_in / "sitecustomize.py").write_text(
        f"import sys, types\nmodule = types.ModuleType('hitl.serving.server')\nexec({SERVING!r}, module.__dict__)\n"
        "sys.modules['hitl.serving.server'] = module\n"
    )
    path = os.pathsep.join([str(stand_in), *(entry for entry in sys.path if entry)])
    child = pexpect.spawn(
        sys.executable,
        ["-m", "hitl", "serve", "my_agent:agent", "--reload"],
        cwd=str(tmp_path),
        env=environment(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1"),
        encoding="utf-8",
        timeout=100,
    )
    yield child
    end(child)


def test_a_changed_file_starts_the_server_again(reloading: Any, tmp_path: Path) -> None:
    reloading.expect("serving one")
    (tmp_path / "my_agent.py").write_text("says = 'number two'\n")
    reloading.expect("my_agent.py changed, starting again")
    reloading.expect("serving number two")
    reloading.kill(signal.SIGTERM)
    reloading.expect(pexpect.EOF)
    reloading.close()
    assert reloading.exitstatus == 0


def test_a_server_that_fails_is_tried_again_after_a_change(reloading: Any, tmp_path: Path) -> None:
    reloading.expect("serving one")
    (tmp_path / "my_agent.py").write_text("says = \n")
    reloading.expect("waiting for a file to change")
    (tmp_path / "my_agent.py").write_text("says = 'three'\n")
    reloading.expect("serving three")
    reloading.sendintr()
    reloading.expect(pexpect.EOF)
    reloading.close()
    assert reloading.exitstatus == 130


# Stops itself while the server is started for the given time, as somebody may; the file changes after the first.
STOPPED_WHILE_STARTING = """
import os, signal, subprocess, sys
from pathlib import Path
from hitl.cli import reload

started = 0

def start():
    global started
    started += 1
    server = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
    if started == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGTERM)
    Path("my_agent.py").write_text("says = 'more'")
    return server

reload._start = start
reload.INTERVAL = 0.01
code = reload.run_reloading(Path.cwd())
assert started == int(sys.argv[1])
sys.exit(code)
"""


@pytest.mark.parametrize("time", ["1", "2"])
def test_a_signal_is_for_the_server_that_is_being_started(tmp_path: Path, time: str) -> None:
    command = [sys.executable, "-c", STOPPED_WHILE_STARTING, time]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE) as program:  # what is left over ends with that
        try:
            assert program.wait(100) == 0
        finally:
            program.kill()


def test_a_terminal_that_is_closed_ends_the_server_in_good_order(tmp_path: Path) -> None:
    """What it says then goes nowhere, and must not keep it from the end."""
    store = tmp_path / "hitl.db"
    server = pexpect.spawn(
        sys.executable,
        ["-m", "hitl", "serve", "hitl.examples.color_picker:agent", "--port", "0", "--store", str(store)],
        cwd=str(tmp_path),
        env=environment(),
        encoding="utf-8",
        timeout=100,
        ignore_sighup=False,
    )
    server.expect("is served on")
    server.ptyproc.fileobj.close()  # as a window does; the process is told by a SIGHUP
    server.ptyproc.delayafterterminate = 0
    _, status = os.waitpid(server.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("module", ["agents", "threaded_agents"])
def test_a_program_that_asks_at_the_terminal_is_told_that_there_is_none(module: str) -> None:
    """It stopped the worker, which has no place in the foreground, with all that ran in it."""
    arguments = [f"tests.python.support.{module}:playbook", "--port", "0", "--store", "memory"]
    server = pexpect.spawn(
        sys.executable, ["-m", "hitl", "serve", *arguments], cwd=str(ROOT), env=environment(), encoding="utf-8"
    )
    try:
        server.expect(r"is served on (http://\S+)", timeout=100)
        with closing(Api(server.match.group(1))) as api:
            assert result(api.run(api.create(), "ask_at_the_terminal")) is False
    finally:
        end(server)


SERVE = [sys.executable, "-m", "hitl", "serve"]


def test_a_variable_that_is_not_utf_8_is_left_out_and_told() -> None:
    arguments = ["tests.python.support.agents:playbook", "--port", "0", "--store", "memory"]
    given = {os.fsencode(name): os.fsencode(text) for name, text in environment().items()} | {b"ODD": b"\xff"}
    with subprocess.Popen(
        [*SERVE, *arguments], cwd=ROOT, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            with closing(Api(server.stdout.readline().rpartition(" ")[2].strip())) as api:
                seen = result(api.run(api.create(), "environment"))
            assert "ODD" not in seen
            assert "PATH" in seen
        finally:
            server.terminate()
        told = "hitl serve: workers do not get what is not UTF-8 in the environment: 'ODD'\n"
        assert server.stderr.read().startswith(told)


@pytest.mark.skipif(sys.platform == "darwin", reason="every name of a file is UTF-8 there")
def test_a_directory_whose_name_is_not_utf_8_is_refused_by_that(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    command = [*SERVE, "hitl.examples.color_picker:agent", "--port", "0"]
    done = subprocess.run(command, cwd=odd, env=environment(), capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the working directory, '")
    assert "is not UTF-8: no worker can be started there\n\nhint: start it from a directory" in done.stderr
    assert not list(odd.iterdir())


HANDLES_ANOTHER_SIGNAL = """
import os, signal, sys
import hitl

signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"handled\\n"))
sys.exit(hitl.serve("hitl.examples.color_picker:agent", port=0, store="memory"))
"""


def test_a_signal_that_the_program_handles_itself_ends_no_server(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANDLES_ANOTHER_SIGNAL]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            url = program.stdout.readline().rpartition(" ")[2].strip()
            for _ in range(3):
                program.send_signal(signal.SIGUSR1)
                assert program.stdout.readline() == "handled\n"
                assert httpx2.get(f"{url}/healthz", trust_env=False, timeout=100).status_code == 200
            program.terminate()
            assert program.wait(100) == 0
        finally:
            program.kill()


def test_hangups_that_are_ignored_stay_so(tmp_path: Path) -> None:
    program = (
        "import signal\nfrom hitl.serving.server import ends\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nassert signal.SIGHUP not in ends()\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\nassert signal.SIGHUP in ends()\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True)
