"""`hitl sessions`, `hitl interrupts`, `hitl health`: what they print and what they exit with."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from hitl.cli.chat.command import is_message
from hitl.cli.connection import url_here
from tests.python.cli.conftest import Run
from tests.python.cli.terminal import CTRL_C, CTRL_D, Terminal
from tests.python.client.fake_server import Answer, FakeServer, FakeSession, problem
from tests.python.support.served import ROOT

Open = Callable[..., Terminal]


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def session_id(hitl: Run, server: FakeServer) -> str:
    created = hitl("sessions", "create", HITL_URL=server.url)
    assert created.returncode == 0, created.stderr
    return str(json.loads(created.stdout)["session_id"])


@pytest.fixture
def interrupt_id(hitl: Run, server: FakeServer, session_id: str) -> str:
    sent = hitl("sessions", "send", "--wait", session_id, "ask /tmp/x", HITL_URL=server.url)
    return str(json.loads(sent.stdout)["interrupts"][0]["interrupt_id"])


# --- sessions ---


def test_a_session_from_create_to_delete(hitl: Run, server: FakeServer, session_id: str) -> None:
    def run(*arguments: str) -> Any:
        finished = hitl("sessions", *arguments, "--url", server.url)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    assert run("list") == [{"session_id": session_id, "total_messages": 0, "status": "idle"}]
    assert run("list", "--status", "error") == []
    assert run("send", session_id, "hello")["status"] == "running"
    assert run("get", session_id, "--wait")["response"]["content"] == "HELLO"
    assert [message["content"] for message in run("messages", session_id)] == ["hello", "HELLO"]
    assert run("cancel", session_id)["status"] == "error"
    assert run("delete", session_id) == {"session_id": session_id, "deleted": True}
    assert run("list") == []


def test_a_session_may_start_with_messages(hitl: Run, server: FakeServer) -> None:
    state = [{"role": "system", "content": "Be brief."}]
    created = hitl("sessions", "create", "--state", "-", stdin=json.dumps(state), HITL_URL=server.url)
    assert created.returncode == 0, created.stderr
    assert server.only_session().messages == state


def test_a_message_may_come_from_standard_input(hitl: Run, server: FakeServer, session_id: str) -> None:
    sent = hitl("sessions", "send", session_id, "-", stdin="two\nlines", HITL_URL=server.url)
    assert sent.returncode == 0
    assert server.only_session().messages[0]["content"] == "two\nlines"


def test_waiting_for_a_turn_that_fails_exits_with_1(hitl: Run, server: FakeServer, session_id: str) -> None:
    sent = hitl("sessions", "send", "--wait", session_id, "fail", HITL_URL=server.url)
    assert sent.returncode == 1
    assert json.loads(sent.stdout)["error"] == "ValueError: no such luck"


WAITS = [{"what": "raw I/O", "location": "agent.py:31"}]
FAILED = {
    "session_id": "s",
    "status": "error",
    "error": "ReplayMismatch: the agent asks for something else",
    "error_code": "replay_mismatch",
    "replay": {"pure": False, "impure_at": "agent.py:12", "warnings": ["a prompt differs"], "waits_for": WAITS},
}


def test_a_failed_turn_is_taken_up_again(hitl: Run, server: FakeServer) -> None:
    refusal = problem(409, "Nothing to retry", "nothing_to_retry")
    server.override("POST", "/sessions/s/retry", Answer(202, {"session_id": "s", "status": "running"}), refusal)
    retried = hitl("sessions", "retry", "s", HITL_URL=server.url)
    assert (retried.returncode, json.loads(retried.stdout)["status"]) == (0, "running")
    again = hitl("sessions", "retry", "s", HITL_URL=server.url)
    assert again.returncode == 5
    assert again.stderr.startswith("error: Nothing to retry")


def test_a_session_shows_why_it_failed_and_how_to_go_on(terminal: Open, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", Answer(body=FAILED))
    window = terminal("sessions", "get", "s", HITL_URL=server.url)
    assert window.finish() == 0
    places = ("agent.py:12", "a prompt differs", "raw I/O at agent.py:31")
    for shown in ("replay_mismatch", f"hitl sessions retry s --url {server.url}", *places):
        assert shown in window.seen


FILES = [
    {"media_type": "application/pdf", "data": "JVBERg==", "name": "re\x1b[2Jport.pdf"},
    {"media_type": "image/png", "url": "https://example.com/a.png"},
]


def test_messages_and_a_response_of_files_alone_are_shown_by_their_names(terminal: Open, server: FakeServer) -> None:
    names = ("[attached: re (2Jport.pdf, application/pdf]", "[attached: image/png, at https://example.com/a.png]")
    said = {"role": "user", "attachments": FILES}
    server.override("GET", "/sessions/s/messages", Answer(body=[said, {"role": "user", "content": "and?"}]))
    window = terminal("sessions", "messages", "s", HITL_URL=server.url)
    assert window.finish() == 0
    response = {"role": "assistant", "content": "Here.", "attachments": FILES}
    server.override("GET", "/sessions/s", Answer(body={"session_id": "s", "status": "idle", "response": response}))
    got = terminal("sessions", "get", "s", HITL_URL=server.url)
    assert got.finish() == 0
    for shown in (*names, "and?"):
        assert shown in window.seen
    for shown in (*names, "Here."):
        assert shown in got.seen


def test_a_chat_shows_the_names_of_files(terminal: Open, server: FakeServer) -> None:
    server.sessions["s"] = FakeSession("s")
    server.sessions["s"].messages = [{"role": "assistant", "attachments": FILES[:1]}]
    window = terminal("chat", server.url, "--session", "s")
    window.expect("[attached: re (2Jport.pdf, application/pdf]")
    window.expect(">")
    window.send(CTRL_D)
    assert window.finish() == 0


def test_a_chat_that_comes_back_to_a_failed_turn_says_how_to_go_on(terminal: Open, server: FakeServer) -> None:
    server.sessions["s"] = FakeSession("s")
    server.override("GET", "/sessions/s", Answer(body=FAILED))
    window = terminal("chat", server.url, "--session", "s")
    window.expect("ReplayMismatch: the agent asks for something else")
    window.expect(f"hitl sessions retry s --url {server.url}")
    window.expect(">")
    window.send(CTRL_D)
    assert window.finish() == 0


def test_lists_are_collected_over_pages(hitl: Run, server: FakeServer) -> None:
    pages = [
        Answer(body=[{"session_id": name, "total_messages": 0, "status": "idle"}], headers=headers)
        for name, headers in (("a", {"link": '</sessions?cursor=1>; rel="next"'}), ("b", {}))
    ]
    server.override("GET", "/sessions", *pages)
    found = hitl("sessions", "list", "--limit", "0", HITL_URL=server.url)
    assert [entry["session_id"] for entry in json.loads(found.stdout)] == ["a", "b"]
    assert [request.query.get("cursor") for request in server.requests] == [None, "1"]


# --- interrupts ---


def test_an_interrupt_is_listed_shown_and_approved(hitl: Run, server: FakeServer, interrupt_id: str) -> None:
    def run(*arguments: str) -> Any:
        finished = hitl("interrupts", *arguments, HITL_URL=server.url)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    assert [entry["interrupt_id"] for entry in run("list")] == [interrupt_id]
    assert run("show", interrupt_id)["payload"]["tool_args"] == {"path": "/tmp/x"}
    assert run("approve", interrupt_id)["status"] == "running"
    assert run("approve", interrupt_id)["replayed"] is True
    assert run("list") == []
    assert [entry["value"] for entry in run("list", "--status", "all")] == [{"approved": True}]


DECISION = {"expected_type": "tool_approval"}


@pytest.mark.parametrize(
    ("arguments", "stdin", "sent"),
    [
        (["reject", "ID"], "", {"value": {"approved": False}, **DECISION}),
        (["reject", "ID", "--reason", "no"], "", {"value": {"approved": False, "reason": "no"}, **DECISION}),
        (["answer", "ID", "false"], "", {"value": False}),
        (["answer", "ID", "-"], '{"hex": "#fff"}', {"value": {"hex": "#fff"}}),
    ],
)
def test_answers_are_sent_as_they_are(
    hitl: Run, server: FakeServer, interrupt_id: str, arguments: list[str], stdin: str, sent: Any
) -> None:
    arguments = [interrupt_id if argument == "ID" else argument for argument in arguments]
    finished = hitl("interrupts", *arguments, stdin=stdin, HITL_URL=server.url)
    assert finished.returncode == 0, finished.stderr
    assert server.sent("POST", "/resume")[0].body == sent


@pytest.mark.parametrize("value", ["yes", "NaN", "{"])
def test_an_answer_that_is_no_json_is_not_sent(hitl: Run, server: FakeServer, interrupt_id: str, value: str) -> None:
    finished = hitl("interrupts", "answer", interrupt_id, value, HITL_URL=server.url)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: the answer is not JSON")
    assert server.sent("POST", "/resume") == []


def test_watching_prints_what_waits_and_what_comes(
    terminal: Open, hitl: Run, server: FakeServer, interrupt_id: str
) -> None:
    watching = terminal("interrupts", "watch", "--json", HITL_URL=server.url)
    watching.expect(f'{{"event": "interrupt.created", "interrupt_id": "{interrupt_id}"')
    hitl("interrupts", "approve", interrupt_id, HITL_URL=server.url)
    watching.expect(f'{{"event": "interrupt.resolved", "interrupt_id": "{interrupt_id}"')
    watching.send(CTRL_C)
    assert watching.finish() == 130


def test_watching_goes_on_where_an_interrupt_goes_with_its_session(
    terminal: Open, hitl: Run, server: FakeServer, session_id: str, interrupt_id: str
) -> None:
    """The event only names it, and there is no record left to ask for."""
    watching = terminal("interrupts", "watch", "--json", HITL_URL=server.url)
    watching.expect(f'{{"event": "interrupt.created", "interrupt_id": "{interrupt_id}"')
    hitl("sessions", "delete", session_id, HITL_URL=server.url)
    watching.expect('{"event": "interrupt.cancelled"')
    watching.expect(interrupt_id)
    watching.send(CTRL_C)
    assert watching.finish() == 130


# --- on a terminal ---


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("sessions list", "SESSION"),
        ("sessions get SESSION", "interrupted"),
        ("sessions messages SESSION", "ask /tmp/x"),
        ("sessions cancel SESSION", "Cancelled."),
        ("sessions delete SESSION", "Deleted."),
        ("sessions list --status idle", "No sessions."),
        ("sessions list --json", '"session_id"'),
        ("interrupts list", 'delete_file {"path": "/tmp/x"}'),
        ("interrupts list --status expired", "No interrupts."),
        ("interrupts show INTERRUPT", "tool_args"),
        ("interrupts approve INTERRUPT", "Answered; the session is running."),
        ("health", "max_workers"),
    ],
)
def test_a_terminal_gets_tables(
    terminal: Open, server: FakeServer, session_id: str, interrupt_id: str, command: str, shown: str
) -> None:
    arguments = command.replace("SESSION", session_id).replace("INTERRUPT", interrupt_id).split()
    window = terminal(*arguments, HITL_URL=server.url)
    assert window.finish() == 0
    assert shown in window.seen


def test_a_question_is_listed_by_its_words(terminal: Open, server: FakeServer) -> None:
    record = {"interrupt_id": "i", "type": "confirm", "payload": {"type": "confirm", "prompt": "Publish?"}}
    server.override("GET", "/interrupts", Answer(body=[record]))
    window = terminal("interrupts", "list", HITL_URL=server.url)
    assert window.finish() == 0
    assert "confirm: Publish?" in window.seen
    assert "{" not in window.seen


def test_who_decided_is_not_below_pages_of_what_a_decision_looks_like(terminal: Open, server: FakeServer) -> None:
    call = {"type": "tool_approval", "tool_name": "pay", "tool_args": {}}
    record = {
        "interrupt_id": "i",
        "type": "tool_approval",
        "payload": call,
        "allowed_decisions": ["approve", "reject"],
        "response_schema": {"anyOf": [{"const": "a decision"}]},
        "resolved_by": "bob",
    }
    server.override("GET", "/interrupts/i", Answer(body=record), Answer(body=record))
    window = terminal("interrupts", "show", "i", HITL_URL=server.url)
    assert window.finish() == 0
    assert "bob" in window.seen
    assert "a decision" not in window.seen
    window = terminal("interrupts", "show", "i", "--json", HITL_URL=server.url)
    assert window.finish() == 0
    assert "a decision" in window.seen


def test_a_table_is_safe_from_what_agents_wrote(terminal: Open, server: FakeServer) -> None:
    evil = "\x1b]0;owned\x07\u202e"
    record = {"interrupt_id": f"i{evil}", "type": evil, "payload": {"type": evil, "x": evil}, "message": evil}
    server.override("GET", "/interrupts", Answer(body=[record]))
    server.override("GET", "/interrupts/i", Answer(body=record))
    for arguments in (["list"], ["show", "i"]):
        window = terminal("interrupts", *arguments, HITL_URL=server.url)
        assert window.finish() == 0
        assert "\x1b]0;" not in window.raw
        assert "\u202e" not in window.raw


# --- errors ---


@pytest.mark.parametrize(
    ("refusal", "code", "hint"),
    [
        (problem(401, "Missing API key", "unauthorized"), 1, "--api-key"),
        (problem(404, "Session not found", "session_not_found"), 4, "hitl sessions list"),
        (problem(405, "Custom session IDs are not enabled", "custom_ids_disabled"), 1, "--allow-custom-ids"),
        (problem(405, "Method POST is not allowed here", "method_not_allowed"), 1, "without a path"),
        (problem(409, "Session is running", "session_busy"), 5, "hitl sessions get --wait"),
        (problem(409, "Session is interrupted", "session_busy"), 5, "hitl interrupts list"),
        (problem(404, "Unknown notice_id: n", "unknown_notice"), 4, "hitl webhooks list"),
        (problem(409, "A key has that name", "key_exists"), 5, "another name"),
        (problem(409, "The notice is pending", "notice_not_failed"), 5, "by itself"),
        (problem(410, "Expired", "interrupt_expired"), 5, "hitl interrupts show"),
        (problem(422, "Invalid", "invalid", errors=[{"loc": ["a", 0], "msg": "wrong"}]), 2, "nothing was changed"),
        (problem(500, "Oops", "internal"), 1, "server's log"),
        (problem(503, "Full", "queue_full"), 1, "try again"),
        (Answer(200, "hello"), 1, "is that the address of a hitl server"),
    ],
)
def test_every_refusal_has_its_exit_code_and_a_hint(
    hitl: Run, server: FakeServer, refusal: Answer, code: int, hint: str
) -> None:
    server.override("GET", "/sessions/s", refusal)
    finished = hitl("sessions", "get", "s", HITL_URL=server.url)
    assert finished.returncode == code
    assert finished.stdout == ""
    first, *_, blank, last = finished.stderr.splitlines()
    assert first.startswith("error: ")
    assert blank == ""
    assert last.startswith("hint: ")
    assert hint in last


def test_a_key_that_is_none_is_told_apart_from_no_key(hitl: Run, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", *[problem(401, "A valid API key is required", "unauthorized")] * 2)
    none = hitl("sessions", "get", "s", HITL_URL=server.url).stderr
    assert f"error: {server.url} wants a key" in none
    assert "give the server's key with --api-key" in none
    wrong = hitl("sessions", "get", "s", HITL_URL=server.url, HITL_API_KEY="wrong-key-of-somebody").stderr
    assert f"error: {server.url} does not know this key, or it was revoked" in wrong
    assert "of HITL_API_KEY" in wrong
    assert "wrong-key-of-somebody" not in wrong


def test_what_is_not_there_is_looked_for_at_the_same_server(hitl: Run, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", problem(404, "Session not found", "session_not_found"))
    said = hitl("sessions", "get", "s", "--url", server.url).stderr
    assert f"error: session s not found at {server.url}" in said
    assert f"`hitl sessions list --url {server.url}`" in said


def test_whoever_answers_later_is_told_who_was_first_and_when(hitl: Run, server: FakeServer) -> None:
    first = {"resolved_by": "ada", "resolved_at": "2026-11-28T18:59:07.500Z"}
    server.override(
        "POST", "/interrupts/i/resume", problem(409, "Interrupt already resolved", "already_resolved", **first)
    )
    said = hitl("interrupts", "answer", "i", "1", HITL_URL=server.url, TZ="UTC").stderr
    assert "error: Interrupt already resolved by ada at 18:59:07 on 2026-11-28" in said
    assert "hitl interrupts show" in said


def test_help_is_as_wide_as_the_terminal(hitl: Run) -> None:
    said = hitl("chat", "--help", COLUMNS="300").stdout
    assert "and JSON lines with the events status, interrupt and response come out" in said


def test_each_wrong_value_is_named(hitl: Run, server: FakeServer) -> None:
    wrong = [{"loc": ["body", "value", "approved"], "msg": "must be a boolean", "type": "wrong_type"}]
    detail = "Invalid answer: body.value.approved: must be a boolean"
    server.override("POST", "/interrupts/i/resume", problem(422, detail, "invalid_answer", errors=wrong))
    finished = hitl("interrupts", "answer", "i", "1", HITL_URL=server.url)
    assert finished.stderr.startswith("error: Invalid answer\n  approved: must be a boolean\n")


def test_a_key_without_a_scope_is_told_the_same_as_over_http(hitl: Run, server: FakeServer) -> None:
    server.override("GET", "/sessions/s", problem(403, "This needs a key with the scope read", "missing_scope"))
    said = hitl("sessions", "get", "s", HITL_URL=server.url).stderr.splitlines()[-1].removeprefix("hint: ")
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8").partition("\n## missing_scope\n")[2]
    assert f"\n\n{said[0].upper()}{said[1:]}.\n" in page.partition("\n## ")[0]


def test_without_a_server_the_hint_says_how_to_start_one(hitl: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        finished = hitl("health", "--url", f"127.0.0.1:{unused.getsockname()[1]}")
    assert finished.returncode == 1
    assert "error: cannot connect to http://127.0.0.1:" in finished.stderr
    hint = (
        "is the server running? start it with: hitl serve MODULE:ATTR; elsewhere? say where with --url or "
        "HITL_URL, in a chat also as argument"
    )
    assert finished.stderr.endswith(f"hint: {hint}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["sessions", "get"],
        ["sessions", "list", "--status", "asleep"],
        ["sessions", "list", "--limit", "-1"],
        ["health", "--url", "ftp://x"],
        ["chat", "http://not a url"],
        ["chat", "http://127.0.0.1:1", " "],
        ["sessions", "create", "--state", "missing.json"],
        ["interrupts", "edit", "i"],
    ],
)
def test_a_wrong_command_line_exits_with_2(hitl: Run, arguments: list[str]) -> None:
    assert hitl(*arguments).returncode == 2


def test_every_option_is_also_a_variable(hitl: Run, server: FakeServer) -> None:
    variables = {"HITL_URL": server.url, "HITL_API_KEY": "sesame", "HITL_INTERRUPTS_LIST_TOOL": "delete_file"}
    assert hitl("interrupts", "list", **variables).returncode == 0
    assert server.requests[0].headers["authorization"] == "Bearer sesame"
    assert server.requests[0].query["tool"] == "delete_file"


def test_health_that_is_not_ok_exits_with_1(hitl: Run, server: FakeServer) -> None:
    body = {"status": "degraded", "max_workers": 1, "running_workers": 0, "total_sessions": 0}
    server.override("GET", "/health", Answer(body=body))
    finished = hitl("health", HITL_URL=server.url)
    assert (finished.returncode, json.loads(finished.stdout)) == (1, body)


def test_a_version_that_an_image_has_is_no_question_for_ours(hitl: Run, server: FakeServer) -> None:
    finished = hitl("health", HITL_URL=server.url, HITL_VERSION="2.4.1")
    assert (finished.returncode, json.loads(finished.stdout)["status"]) == (0, "ok")


# --- chat without a terminal ---


def test_a_chat_in_a_pipe_speaks_json_lines(hitl: Run, server: FakeServer) -> None:
    finished = hitl("chat", server.url, stdin="one\n\ntwo\n")
    assert finished.returncode == 0, finished.stderr
    spoken = lines(finished.stdout)
    assert [entry["event"] for entry in spoken] == ["status", *["status", "status", "response"] * 2]
    assert [entry["response"]["content"] for entry in spoken if entry["event"] == "response"] == ["ONE", "TWO"]
    assert len({entry["session_id"] for entry in spoken}) == 1


def test_a_chat_in_a_pipe_leaves_questions_to_people(hitl: Run, server: FakeServer) -> None:
    finished = hitl("chat", server.url, "ask /tmp/x")
    assert finished.returncode == 6
    last = lines(finished.stdout)[-1]
    assert (last["event"], last["payload"]["tool_args"]) == ("interrupt", {"path": "/tmp/x"})
    assert last["session_id"] == server.only_session().id

    # Nobody has answered yet; then somebody does, and the same session goes on.
    again = hitl("chat", server.url, "--session", last["session_id"])
    assert again.returncode == 6
    assert hitl("interrupts", "approve", last["interrupt_id"], HITL_URL=server.url).returncode == 0
    after = hitl("chat", server.url, "--session", last["session_id"], stdin="and now\n")
    assert after.returncode == 0
    assert [entry["response"]["content"] for entry in lines(after.stdout) if entry["event"] == "response"] == [
        "answer: {'approved': True}",
        "AND NOW",
    ]


def test_a_chat_in_a_pipe_stops_at_the_first_turn_that_fails(hitl: Run, server: FakeServer) -> None:
    finished = hitl("chat", server.url, stdin="fail\nnever said\n")
    assert finished.returncode == 1
    assert lines(finished.stdout)[-1]["error"] == "ValueError: no such luck"
    assert len(server.sent("POST", "/messages")) == 1


def test_a_chat_in_a_pipe_that_comes_back_exits_as_the_turn_ended_until_something_is_said(
    hitl: Run, server: FakeServer, session_id: str
) -> None:
    assert hitl("sessions", "send", session_id, "fail", "--url", server.url).returncode == 0
    seen = hitl("chat", server.url, "--session", session_id)
    assert (lines(seen.stdout)[-1]["status"], seen.returncode) == ("error", 1)
    after = hitl("chat", server.url, "--session", session_id, stdin="hello\n")
    assert (lines(after.stdout)[-1]["response"]["content"], after.returncode) == ("HELLO", 0)


def test_a_chat_with_the_url_in_the_environment_takes_its_argument_as_the_message(
    hitl: Run, server: FakeServer
) -> None:
    for variables in ({"HITL_URL": server.url}, {"HITL_PORT": server.url.rpartition(":")[2]}):
        finished = hitl("chat", "hello", **variables)
        assert lines(finished.stdout)[-1]["response"]["content"] == "HELLO"


@pytest.mark.parametrize(
    ("argument", "message"),
    [("hello to you", True), ("localhost:8000", False), ("hello", False), ("http://a/ b", False)],
)
def test_what_has_a_space_is_no_address(monkeypatch: pytest.MonkeyPatch, argument: str, message: bool) -> None:
    for name in ("HITL_URL", "HITL_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert is_message(argument) is message


@pytest.mark.parametrize("command", [["health"], ["keys", "list"], ["sessions", "list"], ["chat"]])
def test_without_a_url_a_server_is_where_serve_would_listen(hitl: Run, server: FakeServer, command: list[str]) -> None:
    server.override("GET", "/keys", Answer(body=[]), Answer(body=[]))
    finished = hitl(*command, HITL_PORT=server.url.rpartition(":")[2])
    assert finished.returncode == 0, finished.stderr
    elsewhere = hitl(*command, HITL_PORT="1", HITL_URL=server.url)
    assert elsewhere.returncode == 0, elsewhere.stderr


@pytest.mark.parametrize("port", ["0", "tcp://10.0.0.1:8000"])
def test_a_port_that_leads_nowhere_is_told(hitl: Run, port: str) -> None:
    finished = hitl("health", HITL_PORT=port)
    assert finished.returncode == 2
    assert finished.stderr.startswith(f"error: HITL_PORT={port} does not say where the server is")
    assert "HITL_URL" in finished.stderr


@pytest.mark.parametrize(
    ("host", "url"), [("0.0.0.0", "http://127.0.0.1:9"), ("::", "http://[::1]:9"), ("10.0.0.1", "http://10.0.0.1:9")]
)
def test_every_address_of_a_machine_is_loopback_to_itself(host: str, url: str) -> None:
    assert url_here({"HITL_HOST": host, "HITL_PORT": "9"}) == url


def test_a_chat_with_an_unknown_session_exits_with_4(hitl: Run, server: FakeServer) -> None:
    assert hitl("chat", server.url, "--session", "nobody", stdin="x").returncode == 4
