"""What an agent does to its own process hurts its own turn only."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hitl
from tests.python.support import agents
from tests.python.support.api import Api, ok, problem, result, tool_results
from tests.python.support.gate import Gate
from tests.python.support.served import Served
from tests.python.support.waiting import eventually
from tests.python.unit import worker_agents

if TYPE_CHECKING:
    from tests.python.http.conftest import Serve, SharedServers

DIED = "Worker process exited unexpectedly"
ONE_PROCESSOR = (
    sys.executable,
    "-c",
    "import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); os.execvp(sys.argv[1], sys.argv[1:])",
)
"""Before a command: with one processor all tasks share one worker."""
SECRETS = {
    "HITL_API_KEY": "key-5f0c41b2d3e9a7",
    "HITL_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}


def test_a_turn_that_fails_is_one_line_of_the_log_whatever_it_raised(serve: Serve) -> None:
    server = serve(log_level="error")
    session_id = server.api.create()
    assert server.api.run(session_id, "fail", "card 4111")["error_code"] == "agent_error"
    line = server.wait_for_line("a turn has failed")
    told = json.loads(line)
    assert (told["level"], told["fields"]["session"], told["fields"]["code"]) == ("ERROR", session_id, "agent_error")
    assert not any("4111" in line for line in server.lines)


class TestCrashes:
    @pytest.mark.parametrize("how", ["segmentation fault", "os._exit", "SIGKILL"])
    def test_end_that_turn_with_an_error(self, api: Api, gate: Gate, how: str) -> None:
        neighbour = api.create()
        api.play(neighbour, "hold", gate.port)
        gate.wait_for_arrival()
        session_id = api.create()
        api.run(session_id, "echo", 1)
        session = api.run(session_id, "crash", how)
        assert (session["status"], session["error"]) == ("error", DIED)
        assert len(ok(api.get(f"/sessions/{session_id}/messages"))) == 2
        gate.release()
        assert result(api.wait(neighbour)) == "go"
        assert result(api.run(session_id, "echo", "alive")) == "alive"

    @pytest.mark.parametrize("how", ["segmentation fault", "os._exit", "SIGKILL"])
    def test_with_tasks_the_pool_recovers(self, serve: Serve, how: str) -> None:
        api = serve(isolation="task").api
        session = api.run(api.create(), "crash", how)
        assert (session["status"], session["error"]) == ("error", DIED)
        for number in range(4):
            assert result(api.run(api.create(), "echo", number)) == number

    @pytest.mark.skipif(sys.platform != "linux", reason="processors are given to a process on Linux")
    def test_with_tasks_a_turn_that_ends_its_worker_each_time_is_the_only_one_that_fails(
        self, serve: Serve, gate: Gate
    ) -> None:
        api = serve(isolation="task", max_recoveries=1, prefix=ONE_PROCESSOR).api
        neighbours = [api.create() for _ in range(3)]
        for session_id in neighbours:
            api.play(session_id, "hold", gate.port)
        for _ in neighbours:
            gate.wait_for_arrival()
        assert api.run(api.create(), "crash", "os._exit")["error"] == DIED
        for _ in neighbours:
            gate.wait_until_gone()
        for _ in neighbours:
            gate.wait_for_arrival()
        for _ in neighbours:
            gate.release()
        assert [result(api.wait(session_id)) for session_id in neighbours] == ["go"] * 3
        assert result(api.run(api.create(), "echo", "alive")) == "alive"

    def test_sys_exit_is_an_error_of_the_turn(self, either_api: Api) -> None:
        session = either_api.run(either_api.create(), "crash", "SystemExit")
        assert session["status"] == "error"
        assert session["error"] == "SystemExit: 4"
        assert result(either_api.run(session["session_id"], "echo", 1)) == 1

    def test_many_crashes_in_a_row_wear_nothing_out(self, serve: Serve) -> None:
        api = serve(workers=2, max_recoveries=0).api
        for _ in range(20):
            assert api.run(api.create(), "crash", "os._exit")["error"] == DIED
        eventually(lambda: ok(api.get("/health"))["running_workers"], 0)
        assert result(api.run(api.create(), "echo", 1)) == 1


class TestSideBySide:
    @pytest.mark.parametrize("isolation", ["process", "task"])
    def test_turns_that_await_a_reply_do_not_wait_for_each_other(
        self, serve: Serve, gate: Gate, isolation: str
    ) -> None:
        api = serve(isolation=isolation).api
        sessions = [api.create() for _ in range(16)]
        for session_id in sessions:
            api.play(session_id, "hold", gate.port)
        for _ in sessions:
            gate.wait_for_arrival()
        health = ok(api.get("/health"))
        assert (health["running_workers"], health["queued"]) == (16, 0)
        for _ in sessions:
            gate.release()
        assert [result(api.wait(session_id)) for session_id in sessions] == ["go"] * 16


class TestProcesses:
    def test_a_turn_has_a_process_of_its_own(self, api: Api) -> None:
        session_id = api.create()
        pids = [result(api.run(session_id, "process")) for _ in range(5)]
        assert len(set(pids)) == 5

    def test_none_of_them_is_the_server(self, either_server: Served) -> None:
        api = either_server.api
        assert result(api.run(api.create(), "process")) != either_server.pid

    def test_a_finished_turns_process_is_gone(self, api: Api) -> None:
        pid = result(api.run(api.create(), "process"))
        eventually(Path(f"/proc/{pid}").exists, False)

    def test_workers_end_with_their_server(self, serve: Serve, gate: Gate, isolation: str) -> None:
        server = serve(isolation=isolation, started=True)
        server.api.play(server.api.create(), "hold", gate.port)
        gate.wait_for_arrival()
        server.kill()
        gate.wait_until_gone()


class TestEnvironment:
    @pytest.fixture(params=["process", "task"])
    def guarded(self, request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> Served:
        environment = SECRETS | {"HITL_STORE": f"sqlite:{tmp_path / 'address-of-the-store.db'}", "HARMLESS": "kept"}
        # `store` and `api_key` come from the environment, as in a deployment.
        server: Served = serve("puppet", environment=environment, store=None, isolation=request.param)
        server.api.http.headers["authorization"] = f"Bearer {SECRETS['HITL_API_KEY']}"
        return server

    def test_a_tool_does_not_find_keys_secrets_or_the_store(self, guarded: Served, tmp_path: Path) -> None:
        (environment,) = tool_results(guarded.api.call_tools([{"name": "environment_of_tool"}]))
        assert (tmp_path / "address-of-the-store.db").exists()
        assert environment["HARMLESS"] == "kept"
        text = json.dumps(environment)
        for secret in (*SECRETS.values(), "address-of-the-store", "HITL_API_KEY", "HITL_WEBHOOK_SECRET", "HITL_STORE"):
            assert secret not in text

    def test_nor_in_what_the_kernel_shows_of_a_worker(self, shared_servers: SharedServers, serve: Serve) -> None:
        server = serve(environment=SECRETS)
        server.api.http.headers["authorization"] = f"Bearer {SECRETS['HITL_API_KEY']}"
        # An agent may read /proc/self/environ: that shows what the process was started with, not os.environ.
        api = server.api
        pid = None
        with Gate() as gate:
            session_id = api.create()
            api.play(session_id, "hold", gate.port)
            gate.wait_for_arrival()
            for process in Path("/proc").iterdir():
                if process.name.isdigit() and _is_descendant(int(process.name), server.pid):
                    try:
                        shown = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                    except (FileNotFoundError, ProcessLookupError):  # it ends just now
                        continue
                    pid = process.name
                    for secret in SECRETS.values():
                        assert secret.encode() not in shown
            gate.release()
        assert pid is not None


# Root reads everything, unless it gives up what it does so by.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


@pytest.mark.parametrize("file", ["environ", "mem", "maps", "fd/0", "auxv"])
def test_a_program_of_the_same_user_does_not_read_the_server(serve: Serve, gate: Gate, file: str) -> None:
    server = serve(environment=SECRETS, prefix=UNPRIVILEGED)
    server.api.http.headers["authorization"] = f"Bearer {SECRETS['HITL_API_KEY']}"

    # A worker of its shows that it is the server's doing.
    server.api.play(server.api.create(), "hold", gate.port)
    gate.wait_for_arrival()
    worker = next(int(each.name) for each in Path("/proc").iterdir() if _is_of(each, server.pid))

    def can_read(pid: int) -> bool:
        command = [*UNPRIVILEGED, "sh", "-c", f"exec 9< /proc/{pid}/{file}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    # What a system allows of any other program: Ubuntu's (kernel.yama.ptrace_scope) no look into memory but a child's.
    with subprocess.Popen([*UNPRIVILEGED, "sleep", "infinity"]) as ordinary:
        eventually(lambda: Path(f"/proc/{ordinary.pid}/comm").read_text(), "sleep\n")
        is_allowed = can_read(ordinary.pid)
        ordinary.kill()
    assert is_allowed or file == "mem"
    assert can_read(worker) is is_allowed
    assert not can_read(server.pid)
    gate.release()


def _is_of(process: Path, server: int) -> bool:
    return process.name.isdigit() and _is_descendant(int(process.name), server)


def _is_descendant(pid: int, ancestor: int) -> bool:
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
        if pid == ancestor:
            return True
    return False


class TestQueue:
    def test_unanswered_people_do_not_stop_a_server(self, serve: Serve, isolation: str) -> None:
        """The failure of the peer: each of them held one of its two workers for ever."""
        api = serve(workers=2, isolation=isolation).api
        waiting = [api.ask({"type": "question", "n": number}) for number in range(6)]
        assert result(api.run(api.create(), "echo", "served")) == "served"
        for session_id, interrupt_id in waiting:
            ok(api.resume(session_id, interrupt_id, "late"))
            assert result(api.wait(session_id)) == "late"

    def test_more_turns_than_workers_wait_their_turn(self, serve: Serve, gate: Gate, isolation: str) -> None:
        api = serve(workers=2, isolation=isolation).api
        sessions = [api.create() for _ in range(5)]
        for session_id in sessions:
            api.play(session_id, "hold", gate.port)
        for _ in range(2):
            gate.wait_for_arrival()
        assert ok(api.get("/health"))["running_workers"] == 2
        assert {api.session(session_id)["status"] for session_id in sessions} == {"running"}
        for _ in range(3):
            gate.release()
            gate.wait_for_arrival()
        gate.release()
        gate.release()
        assert [result(api.wait(session_id)) for session_id in sessions] == ["go"] * 5

    def test_a_full_queue_says_so_and_starts_nothing(self, serve: Serve, gate: Gate) -> None:
        api = serve(workers=1, queue=2).api
        sessions = [api.create() for _ in range(4)]
        api.play(sessions[0], "hold", gate.port)
        gate.wait_for_arrival()
        api.play(sessions[1], "echo", 1)
        api.play(sessions[2], "echo", 2)
        response = api.send(sessions[3], "echo 3")
        problem(response, 503)
        assert int(response.headers["retry-after"]) >= 1
        assert api.session(sessions[3])["status"] == "idle"
        assert ok(api.get(f"/sessions/{sessions[3]}/messages")) == []
        gate.release()
        assert [result(api.wait(session_id)) for session_id in sessions[:3]] == ["go", 1, 2]
        assert result(api.run(sessions[3], "echo", 3)) == 3

    def test_answers_go_past_a_full_queue(self, serve: Serve, gate: Gate) -> None:
        api = serve(workers=1, queue=1).api
        waiting, interrupt_id = api.ask({"type": "question"})
        sessions = [api.create() for _ in range(2)]
        api.play(sessions[0], "hold", gate.port)
        gate.wait_for_arrival()
        api.play(sessions[1], "echo", 1)
        ok(api.resume(waiting, interrupt_id, "first"))
        assert result(api.wait(waiting)) == "first"
        assert api.session(sessions[1])["status"] == "running"
        gate.release()
        assert result(api.wait(sessions[1])) == 1

    def test_a_turn_that_waits_in_the_queue_can_be_cancelled_and_deleted(self, serve: Serve, gate: Gate) -> None:
        api = serve(workers=1).api
        sessions = [api.create() for _ in range(3)]
        api.play(sessions[0], "hold", gate.port)
        gate.wait_for_arrival()
        api.play(sessions[1], "echo", 1)
        api.play(sessions[2], "echo", 2)
        ok(api.post(f"/sessions/{sessions[1]}/cancel"))
        assert api.session(sessions[1])["error"] == "Turn cancelled"
        assert api.delete(sessions[2]).status_code == 204
        gate.release()
        assert result(api.wait(sessions[0])) == "go"
        eventually(lambda: ok(api.get("/health"))["running_workers"], 0)

    def test_many_turns_at_once_all_end(self, either_api: Api) -> None:
        sessions = [either_api.create() for _ in range(40)]
        with ThreadPoolExecutor(16) as threads:
            outcomes = list(threads.map(lambda pair: either_api.run(pair[1], "echo", pair[0]), enumerate(sessions)))
        assert [result(session) for session in outcomes] == list(range(40))


class TestOutput:
    def test_goes_to_the_servers_log_with_its_session(self, either_server: Served) -> None:
        api = either_server.api
        session_id = api.create()
        word = f"word-of-{session_id}"
        assert result(api.run(session_id, "say", word)) == word
        for stream in ("stdout", "stderr"):
            line = either_server.wait_for_line(f"{word} on {stream}")
            assert session_id in line.replace(word, "")

    def test_what_is_logged_has_its_session_too(self, serve: Serve, isolation: str) -> None:
        """By a handler that an import has made, before there was anything to tell turns by."""
        server = serve("tests.python.support.logging_agent:agent", isolation=isolation)
        session_id = server.api.create()
        server.api.run(session_id, "echo", "a word")
        assert session_id in server.wait_for_line("INFO:my_agent:begun: echo")

    def test_of_turns_side_by_side_is_told_apart(self, either_server: Served) -> None:
        api = either_server.api
        sessions = [api.create() for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda session_id: api.run(session_id, "say", f"by-{session_id}"), sessions))
        for session_id in sessions:
            line = either_server.wait_for_line(f"by-{session_id} on stdout")
            assert set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", line)) >= {session_id}
            assert not [other for other in sessions if other != session_id and other in line]

    def test_arguments_and_answers_are_in_no_log(self, serve: Serve, tmp_path: Path) -> None:
        server = serve("puppet")
        secret = str(tmp_path / "ledger-of-secrets")
        session = server.api.call_tools([{"name": "charge", "args": {"ledger": secret, "cents": 1}}])
        interrupt_id = session["interrupts"][0]["interrupt_id"]
        answer = {"approved": False, "reason": "because-of-confidential-things"}
        ok(server.api.resume(session["session_id"], interrupt_id, answer))
        server.api.wait(session["session_id"])
        server.signal(signal.SIGTERM)
        server.wait()
        assert not [line for line in server.lines if "ledger-of-secrets" in line or "confidential" in line]


@pytest.mark.parametrize(
    ("what", "starts"),
    [
        ("none", "TypeError: Agent must return a (response, state) tuple, got NoneType"),
        ("text", "TypeError: Agent must return a (response, state) tuple, got str"),
        ("one", "TypeError: Agent must return a (response, state) tuple, got "),
        ("three", "TypeError: Agent must return a (response, state) tuple, got "),
        ("response", "TypeError: "),
        ("state", "TypeError: "),
        ("entry", "TypeError: "),
    ],
)
def test_a_wrong_result_is_an_error_that_says_what_came(shared_servers: Any, what: str, starts: str) -> None:
    api = shared_servers.get("wrong_result").api
    session_id = api.create()
    assert api.send(session_id, what).status_code == 202
    session = api.wait(session_id)
    assert session["status"] == "error"
    assert session["error"].startswith(starts)


@pytest.mark.parametrize("where", ["process", "task", "live"])
def test_a_wrong_tool_call_ends_its_turn_and_no_other(shared_servers: SharedServers, where: str) -> None:
    with ExitStack() as stack:
        if where == "live":
            server = stack.enter_context(hitl.Server(agents.wrong_result, port=0, store="memory"))
            api = Api(server.url)
            stack.callback(api.close)
        else:
            api = shared_servers.get("wrong_result", where).api
        waiting = api.create()
        api.send(waiting, "ask")
        (asked,) = api.wait(waiting)["interrupts"]
        wrong = "ChatMessage.tool_calls[0].function.arguments must be a str of JSON, got dict"
        for what, named in (("call", "its response"), ("call in the state", "its state, at 1")):
            session_id = api.create()
            api.send(session_id, what)
            session = api.wait(session_id)
            assert (
                session["error"] == f"TypeError: Agent must return a ChatMessage that can be sent as {named}: {wrong}"
            )
            assert session["status"] == "error"
        ok(api.resume(waiting, asked["interrupt_id"], "right"))
        assert api.wait(waiting)["response"]["content"] == "right"


def test_a_synchronous_agent_asks_from_its_thread(shared_servers: SharedServers, isolation: str) -> None:
    api = shared_servers.get("synchronous", isolation).api
    session_id = api.create()
    api.send(session_id, "what?")
    session = api.wait(session_id)
    assert session["interrupts"][0]["payload"] == {"type": "question", "prompt": "what?"}
    ok(api.resume(session_id, session["interrupts"][0]["interrupt_id"], None))
    assert result(api.wait(session_id)) is None


def test_a_program_whose_agent_can_run_no_more_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    said = ""

    def is_told() -> bool:
        nonlocal said
        said += "".join(capfd.readouterr())
        return "the thread that runs the agent's turns is gone" in said

    with hitl.Server(worker_agents.echo, port=0, store="memory") as server:
        assert server._worker is not None
        assert not is_told()
        # As the server ends it, when it does not take what it is sent: the other end is closed.
        server._worker.stop()
        eventually(is_told, True)
