"""`hitl replay-check`, and `hitl sessions list --store`: reading a store's file beside the server that owns it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from hitl import Server
from hitl.client import Client, Conflict, Session
from tests.python.cli.terminal import Terminal, environment
from tests.python.support.served import zygotes_python

SHOP = """
import hitl
from hitl import ChatMessage, interrupt, step

async def quote(item): return 42
async def charge(cents): return f"charged {cents}"

async def agent(message, state):
    print("between the steps")
    price = await step(quote, message.content)
    answer = await interrupt({"type": "confirm", "price": price})
    reply = ChatMessage.assistant_message(content=f"{answer} {await step(charge, price)}")
    return reply, [*state, message, reply]

@hitl.agent(replay=False)
async def fragile(message, state):
    return await agent(message, state)

@hitl.agent(pin=True, version="1")
async def pinned(message, state):
    return await agent(message, state)
"""

CLERK = """
from typing import Annotated
import hitl
from hitl import ReActAgent, interrupt, tool
from hitl.testing import ScriptedChatClient

@hitl.resources
async def desk():
    yield "a desk"

async def sender(request):
    return request.user_params

@tool
async def ask_back(about: str, desk: Annotated[str, hitl.Resource]) -> str:
    '''Ask.'''
    return await interrupt({"type": "back", "about": about})

script = [{"tool_calls": [{"name": "ask_back", "args": {"about": "hats"}}]}, {"content": "Done."}]
agent = ReActAgent(client=ScriptedChatClient(script), model_name="m", system_prompt="Be kind.", tools=[ask_back])
agent = hitl.agent(resources=desk, context_from=sender)(agent)
"""

STORE = "sqlite:shop.db"
PYTHON = sys.executable


@dataclass(frozen=True)
class Checked:
    """How the command ended, and its JSON where it printed any."""

    code: int
    report: dict[str, Any]
    errors: str

    @property
    def verdicts(self) -> list[str]:
        return [turn["verdict"] for turn in self.report["turns"]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with two agents, where commands are started."""
    monkeypatch.setattr(sys, "executable", zygotes_python())
    monkeypatch.chdir(tmp_path)
    write("shop", SHOP)
    write("clerk", CLERK)
    return tmp_path


def write(module: str, source: str) -> None:
    Path(f"{module}.py").write_text(source)
    # Python takes cached bytecode for a source of the same second and size.
    shutil.rmtree("__pycache__", ignore_errors=True)


def edit(module: str, *edits: tuple[str, str]) -> None:
    source = Path(f"{module}.py").read_text()
    for before, after in edits:
        assert before in source
        source = source.replace(before, after)
    write(module, source)


def check(*arguments: str, agent: str = "shop:agent", **variables: str) -> Checked:
    command = [PYTHON, "-m", "hitl", "replay-check", agent, "--store", STORE, *arguments]
    done = subprocess.run(command, check=False, env=environment(**variables), capture_output=True, text=True)
    return Checked(done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr)


def serve(agent: str = "shop:agent", **options: Any) -> Server:
    return Server(agent, port=0, store=STORE, workers=1, park_after=0, **options)


def leave_asking(count: int = 1, agent: str = "shop:agent") -> list[Session]:
    """Sessions of a server that has stopped since, each with one question open."""
    with serve(agent) as server, Client(server.url) as client:
        sessions = [client.ask(client.create_session().session_id, f"hat {number}") for number in range(count)]
    assert {session.status for session in sessions} == {"interrupted"}
    return sessions


# --- what it says ---


def test_beside_the_server_every_turn_goes_on_and_nothing_is_changed() -> None:
    with serve() as server, Client(server.url) as client:
        session = client.ask(client.create_session().session_id, "a hat")
        checked = check()
        assert (checked.code, checked.verdicts) == (0, ["goes on"])
        assert (checked.report["checked"], checked.report["broken"]) == (1, 0)
        (turn,) = checked.report["turns"]
        assert (turn["session_id"], turn["turn_id"]) == (session.session_id, session.interrupts[0].turn_id)
        client.answer(session.interrupts[0].interrupt_id, "yes")
        assert client.wait(session.session_id).response.content == "yes charged 42"  # type: ignore[union-attr]


def test_what_the_agent_prints_is_not_the_report() -> None:
    leave_asking()
    assert "between the steps" in check().errors


def test_a_changed_argument_would_break_the_turn() -> None:
    leave_asking(2)
    edit("shop", ("step(quote, message.content)", "step(quote, message.content.upper())"))
    checked = check()
    assert (checked.code, checked.verdicts) == (1, ["breaks", "breaks"])
    (turn, _) = checked.report["turns"]
    assert turn["error_code"] == "replay_mismatch"
    assert "recorded:" in turn["error"]
    assert "attempted:" in turn["error"]
    assert "quote" in turn["error"]
    # Nothing was written: under the code that recorded it, it still goes on.
    write("shop", SHOP)
    assert check().code == 0


def test_a_step_that_is_added_after_the_question_is_none_of_its_business() -> None:
    leave_asking()
    edit("shop", ('content=f"{answer}', 'content=f"{await step(charge, 1)} {answer}'))
    assert check().code == 0


def test_an_edited_prompt_is_a_warning_and_the_insides_of_a_tool_are_left_out() -> None:
    leave_asking(agent="clerk:agent")
    edit("clerk", ("Be kind.", "Be brief."))
    checked = check(agent="clerk:agent")
    assert checked.code == 0
    (turn,) = checked.report["turns"]
    assert len(turn["warnings"]) == 1
    assert turn["unchecked"] == ["tool ask_back"]


def test_a_turn_whose_tool_was_not_looked_into_is_not_said_to_go_on() -> None:
    leave_asking(agent="clerk:agent")
    checked = check(agent="clerk:agent")
    assert (checked.code, checked.verdicts) == (0, ["unchecked"])
    assert (checked.report["checked"], checked.report["broken"], checked.report["unchecked"]) == (1, 0, 1)
    assert check("--strict", agent="clerk:agent").code == 1


def test_a_turn_that_has_failed_inside_of_its_tool_is_said_to_have_failed() -> None:
    (session,) = leave_asking(agent="clerk:agent")
    edit("clerk", ("return await interrupt({", 'await hitl.step(str.upper, "hats")\n    return await interrupt({'))
    with serve("clerk:agent") as server, Client(server.url) as client:
        client.answer(session.interrupts[0].interrupt_id, "yes")
        assert client.wait(session.session_id).error_code == "replay_mismatch"
    checked = check(agent="clerk:agent")
    assert checked.verdicts == ["unchecked"]
    assert checked.report["turns"][0]["has_failed"] is True
    window = Terminal("replay-check", "clerk:agent", "--store", STORE)
    assert window.finish() == 0
    assert "failed: before, with what `hitl sessions get` says" in window.seen
    assert "1 open turn checked: 1 not checked inside tool ask_back." in window.seen


TELLER = """
import hitl
from hitl import ReActAgent, tool
from hitl.testing import ScriptedChatClient

class Named:
    def before_model(self, state, runtime):
        state["user"] = runtime.context["user"]  # between the steps

@tool(requires_approval=True)
async def pay(cents: int) -> str:
    return f"paid {cents}"

client = ScriptedChatClient([{"tool_calls": [{"name": "pay", "args": {"cents": 5}}]}, {"content": "Done."}])
agent = ReActAgent(client, "m", tools=[pay], middleware=[Named()])
if __name__ == "__main__":
    print(hitl.run_sync(agent, "go", context={"user": "ada"}).state.to_string(key="k" * 32))
"""


def test_a_run_that_was_taken_in_is_checked_with_the_context_that_it_came_with() -> None:
    write("teller", TELLER)
    made = subprocess.run([PYTHON, "teller.py"], check=True, env=environment(), capture_output=True, text=True)
    with serve("teller:agent", allow_import=True, state_key="k" * 32) as server, Client(server.url) as client:
        taken = httpx.post(f"{server.url}/sessions", json={"run_state": json.loads(made.stdout)})
        assert client.wait(taken.json()["session_id"]).status == "interrupted", taken.text
    checked = check(agent="teller:agent")
    assert (checked.code, checked.verdicts) == (0, ["goes on"]), checked.report


def test_what_an_agent_raises_in_a_replay_is_told() -> None:
    leave_asking()
    edit("shop", ("price = await step(quote, message.content)", "price = message.cents"))
    checked = check()
    assert checked.code == 1
    [turn] = checked.report["turns"]
    assert turn["error_code"] == "replay_mismatch"
    assert turn["error"].endswith("the agent raised AttributeError: 'ChatMessage' object has no attribute 'cents'")
    assert "never retrieved" not in checked.errors


def test_a_failed_turn_is_checked_as_a_retry_would_find_it() -> None:
    (session,) = leave_asking()
    edit("shop", ("async def quote", "async def price"), ("step(quote,", "step(price,"))
    with serve() as server, Client(server.url) as client:
        # It is parked, so that only the answer brings it to the code that does not fit.
        client.answer(session.interrupts[0].interrupt_id, "yes")
        failed = client.wait(session.session_id)
        assert (failed.status, failed.error_code, failed.can_be_retried) == ("error", "replay_mismatch", True)
        assert check().verdicts == ["breaks"]
        write("shop", SHOP)
        assert check().verdicts == ["goes on"]
        # The server still has the code that does not fit.
        assert client.retry(session.session_id).status == "running"
        assert client.wait(session.session_id).error_code == "replay_mismatch"
    with serve() as server, Client(server.url) as client:
        # Other code: it is retried by itself.
        assert client.wait(session.session_id).response.content == "yes charged 42"  # type: ignore[union-attr]
        with pytest.raises(Conflict) as refused:
            client.retry(session.session_id)
        assert refused.value.code == "nothing_to_retry"


def test_an_agent_that_opts_out_of_replays_would_lose_its_turns() -> None:
    with serve("shop:fragile") as server, Client(server.url) as client:
        client.ask(client.create_session().session_id, "a hat")
        checked = check(agent="shop:fragile")
        assert checked.code == 1
        assert checked.report["turns"][0]["error_code"] == "not_replayable"


def test_a_turn_of_an_unknown_python_is_refused_before_anything_runs() -> None:
    leave_asking()
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    with closing(sqlite3.connect("shop.db")) as file, file:
        unknown = f"""UPDATE journal SET body = replace(body, '"{minor}"', '"3.99"') WHERE entry = 'start'"""
        assert file.execute(unknown).rowcount == 1
    checked = check()
    assert (checked.code, checked.report["turns"][0]["error_code"]) == (1, "python_unsupported")
    assert "3.99" in checked.report["turns"][0]["error"]
    assert "between the steps" not in checked.errors


def test_a_pinned_agent_does_not_go_on_with_what_other_code_recorded() -> None:
    leave_asking(agent="shop:pinned")
    assert check(agent="shop:pinned").verdicts == ["goes on"]
    edit("shop", ('version="1"', 'version="2"'))
    checked = check(agent="shop:pinned")
    assert (checked.code, checked.report["turns"][0]["error_code"]) == (1, "code_pinned")
    assert "recorded by code 1" in checked.report["turns"][0]["error"]
    assert "between the steps" not in checked.errors


def test_a_journal_that_cannot_be_read_is_its_turns_trouble_alone() -> None:
    leave_asking(2)
    with closing(sqlite3.connect("shop.db")) as file, file:
        assert file.execute("UPDATE journal SET entry = 'hologram' WHERE idx = 1 AND turn = 1").rowcount == 1
    checked = check()
    assert (checked.code, checked.verdicts) == (1, ["breaks", "goes on"])
    assert checked.report["turns"][0]["error_code"] == "journal_unreadable"


def test_turns_of_other_agents_are_counted_and_not_run() -> None:
    leave_asking(2)
    checked = check(agent="clerk:agent")
    assert (checked.code, checked.report["turns"]) == (0, [])
    assert checked.report["other_agents"] == {"shop:agent": 2}


def test_strictly_turns_of_other_agents_are_too_many() -> None:
    leave_asking()
    assert check("--strict").code == 0
    assert check("--strict", agent="clerk:agent").code == 1


def test_turns_that_have_ended_are_not_looked_at() -> None:
    with serve() as server, Client(server.url) as client:
        session = client.ask(client.create_session().session_id, "a hat")
        client.answer(session.interrupts[0].interrupt_id, "yes")
        assert client.wait(session.session_id).status == "idle"
        assert check().report["checked"] == 0


def test_a_limit_stops_it_early() -> None:
    leave_asking(3)
    assert check("--limit", "2").report["checked"] == 2


def test_an_agent_that_does_not_come_to_where_it_stood_is_given_up() -> None:
    leave_asking()
    waiting = "import asyncio, threading; await asyncio.to_thread(threading.Event().wait)"
    edit("shop", ('print("between the steps")', waiting))
    checked = check("--patience", "0.5")
    assert (checked.code, checked.report["turns"][0]["error_code"]) == (1, "replay_timeout")


# --- a person reads it ---


def test_a_terminal_gets_a_table_and_what_differs() -> None:
    (session,) = leave_asking()
    edit("shop", ("async def quote", "async def price"), ("step(quote,", "step(price,"))
    window = Terminal("replay-check", "shop:agent", "--store", STORE)
    assert window.finish() == 1
    for shown in ("SESSION", session.session_id, "breaks", "replay_mismatch: ", "hint: ", "1 open turn checked: 1"):
        assert shown in window.seen


def test_a_terminal_is_told_of_other_agents() -> None:
    leave_asking()
    window = Terminal("replay-check", "clerk:agent", "--store", STORE)
    assert window.finish() == 0
    assert "No turn of clerk:agent is open." in window.seen
    assert "Not checked: 1 open turn of shop:agent." in window.seen


# --- what it refuses ---


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE things (a)")


def newer(path: Path) -> None:
    leave_asking()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 999")


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (lambda path: None, "there is no store at", "check the path"),
        (lambda path: path.write_text("hello" * 1000), "is not a database", "name another file"),
        (lambda path: path.mkdir(), "is a directory", "name a file inside it"),
        (other_program, "is a database of another program", "name another file"),
        (newer, "has schema version 999", "upgrade hitl"),
    ],
    ids=["missing", "no database", "directory", "other program", "newer"],
)
@pytest.mark.parametrize("command", [["replay-check", "shop:agent"], ["sessions", "list"]], ids=["check", "list"])
def test_a_file_that_cannot_be_read_is_refused_with_a_hint(
    project: Path, make: Callable[[Path], Any], message: str, hint: str, command: list[str]
) -> None:
    make(project / "shop.db")
    before = files(project)
    done = subprocess.run(
        [PYTHON, "-m", "hitl", *command, "--store", STORE],
        check=False,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert hint in done.stderr.splitlines()[-1]
    assert files(project) == before


def files(project: Path) -> list[str]:
    """What is there, without what SQLite needs to look into a file that has a write-ahead log."""
    return sorted(path.name for path in project.iterdir() if not path.name.endswith(("-wal", "-shm", "__pycache__")))


def test_an_agent_that_cannot_be_imported_exits_with_3() -> None:
    leave_asking()
    checked = check(agent="shop:agnet")
    assert checked.code == 3
    assert checked.errors.splitlines()[-1] == "hint: did you mean agent?"


def test_a_name_that_is_no_agents_exits_with_2() -> None:
    assert check(agent="shop").code == 2


def test_the_agent_does_not_see_the_servers_secrets() -> None:
    edit("shop", ('print("between the steps")', "import os; print(sorted(n for n in os.environ if 'HITL_' in n))"))
    leave_asking()
    assert "[]" in check(HITL_API_KEY="sesame").errors.splitlines()


# --- sessions list --store ---


def test_sessions_are_listed_from_the_file_as_from_the_server() -> None:
    def listed(*arguments: str) -> Any:
        command = [PYTHON, "-m", "hitl", "sessions", "list", *arguments]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    with serve() as server, Client(server.url) as client:
        for _ in range(2):
            client.create_session()
        client.ask(client.create_session().session_id, "a hat")
        for filters in ([], ["--status", "interrupted"], ["--limit", "2"], ["--search", "A HAT", "--limit", "0"]):
            assert listed("--store", STORE, *filters) == listed("--url", server.url, *filters)
    assert len(listed("--store", STORE)) == 3
    assert [one["title"] for one in listed("--store", STORE, "--search", "hat")] == ["a hat"]
    assert listed("--store", STORE, "--search", "a coat") == []


def test_a_terminal_gets_the_same_columns() -> None:
    leave_asking()
    window = Terminal("sessions", "list", "--store", STORE)
    assert window.finish() == 0
    assert "MESSAGES" in window.seen
    assert "interrupted" in window.seen
