"""What the command line says to somebody who mistyped: what is wrong, and what would be right."""

from __future__ import annotations

import socketserver
from threading import Thread

import pytest

from hitl.cli import exit_codes
from tests.python.cli.conftest import Run
from tests.python.client.fake_server import NOBODY, Answer, FakeServer, problem


def words_of(text: str) -> str:
    """What stands in a box, on one line."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HITL_PORT", "tcp://10.0.0.1:80", "'tcp://10.0.0.1:80' is no whole number. Kubernetes sets such a variable"),
        ("HITL_RATE_LIMIT", "x", "'x' is no number."),
    ],
)
def test_what_is_no_number_is_shown(hitl: Run, variable: str, value: str, said: str) -> None:
    refused = hitl("serve", "m:a", **{variable: value})
    assert refused.returncode == exit_codes.USAGE
    assert f"(env var: '{variable}'): {said}" in words_of(refused.stderr)


def test_a_reason_that_is_given_as_an_argument_is_told_to_be_an_option(hitl: Run) -> None:
    refused = hitl("interrupts", "reject", "i-1", "not now")
    assert refused.returncode == exit_codes.USAGE
    assert "(not now). A reason is an option: --reason 'not now'" in words_of(refused.stderr)


def test_an_argument_that_is_missing_is_shown_by_an_example(hitl: Run) -> None:
    refused = hitl("serve")
    assert refused.returncode == exit_codes.USAGE
    words = " ".join(refused.stderr.replace("│", " ").split())
    assert "Missing argument 'MODULE:ATTR'. Such as app:agent, which is `agent` of app.py" in words
    assert "hitl demo" in words


def test_a_word_that_is_none_of_a_list_is_named_with_the_list(hitl: Run) -> None:
    refused = hitl("demo", "nope")
    assert refused.returncode == exit_codes.USAGE
    words = " ".join(refused.stderr.replace("│", " ").split())
    assert "'nope' is not one of 'files', 'shop', 'colors'." in words
    assert "Value error" not in words


def test_an_address_with_a_path_is_told_that_a_server_has_none(hitl: Run, server: FakeServer) -> None:
    nowhere = problem(404, "Nothing is here; /openapi.json lists what is", "not_found")
    server.override("POST", "/inbox/sessions", nowhere)
    refused = hitl("sessions", "create", HITL_URL=f"{server.url}/inbox")
    assert refused.returncode == exit_codes.NOT_FOUND
    assert (
        f"error: {server.url}/inbox is no address of a server: Nothing is here; /openapi.json lists" in refused.stderr
    )
    assert "is that the address of the server itself, without a path? as http://127.0.0.1:8000" in refused.stderr


class Plain(socketserver.BaseRequestHandler):
    """What servers without TLS answer to the beginning of it."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")


def test_a_server_without_tls_is_asked_by_http(hitl: Run) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Plain) as server:
        Thread(target=server.serve_forever).start()
        try:
            refused = hitl("sessions", "list", HITL_URL=f"https://127.0.0.1:{server.server_address[1]}")
        finally:
            server.shutdown()
    assert refused.returncode == exit_codes.RUNTIME
    assert "what answers there speaks no TLS: say http:// in place of https://" in refused.stderr


@pytest.mark.parametrize("arguments", [("chat", "hello"), ("sessions", "list")])
def test_whoever_has_no_key_is_told_which_server_wants_one(
    hitl: Run, server: FakeServer, arguments: tuple[str, ...]
) -> None:
    for path in ("/me", "/sessions"):
        refusal = problem(401, "send it as Authorization: Bearer <key>", "missing_key")
        for method in ("GET", "POST"):
            server.override(method, path, refusal)
    refused = hitl(*arguments, HITL_URL=server.url)
    assert f"{server.url} wants a key" in refused.stderr


@pytest.mark.parametrize("command", [("health",), ("chat", "hello")])
@pytest.mark.parametrize("key", ["", "sesame\n"])
def test_a_key_with_the_line_end_of_its_file_is_told_and_not_shown(
    hitl: Run, command: tuple[str, ...], key: str
) -> None:
    refused = hitl(*command, "--api-key", key, HITL_URL="http://127.0.0.1:1")
    assert refused.returncode == exit_codes.USAGE
    assert (
        "error: the API key is empty, or not printable ASCII, or has a space or a line end around it" in refused.stderr
    )
    assert '--api-key "$(cat FILE)"' in refused.stderr
    assert "sesame" not in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (("sessions", "send", "s", "\udcff"), b""),
        (("sessions", "send", "s", "-"), b"\xff"),
        (("sessions", "list", "--search", "\udcff"), b""),
        (("interrupts", "answer", "i", "1", "--as", "\udcff"), b""),
        (("chat",), b"\xff\n"),
    ],
)
def test_what_is_no_utf_8_is_told(hitl: Run, server: FakeServer, arguments: tuple[str, ...], stdin: bytes) -> None:
    refused = hitl(*arguments, stdin=stdin, HITL_URL=server.url)
    assert refused.returncode == exit_codes.USAGE
    assert "error: what was given is not UTF-8, and cannot be sent" in refused.stderr


def test_a_hint_about_a_session_names_it(hitl: Run, server: FakeServer) -> None:
    refusal = problem(409, "Session is interrupted", "session_interrupted")
    server.override("POST", "/sessions/s-1/messages", refusal)
    refused = hitl("sessions", "send", "s-1", "hello", HITL_URL=server.url)
    assert refused.returncode == exit_codes.CONFLICT
    assert "the session waits for a person: hitl interrupts list --session s-1" in refused.stderr


def test_a_session_of_another_agent_is_told_where_it_goes_on(hitl: Run, server: FakeServer) -> None:
    refusal = problem(409, "Session belongs to agent old:agent, which this server does not run", "other_agent")
    server.override("POST", "/sessions/s-1/messages", refusal)
    refused = hitl("sessions", "send", "s-1", "hello", HITL_URL=server.url)
    assert refused.returncode == exit_codes.CONFLICT
    assert (
        "is served from the same store: hitl serve old:agent --store STORE; an agent that was renamed" in refused.stderr
    )


@pytest.mark.parametrize("command", ["approve", "claim"])
@pytest.mark.parametrize("has_keys", [False, True])
def test_what_only_some_may_answer_nobody_can_on_a_server_without_keys(
    hitl: Run, server: FakeServer, command: str, has_keys: bool
) -> None:
    refusal = problem(403, "Only these may answer, with a key of theirs: group:ops", "not_an_approver")
    server.override("POST", f"/interrupts/i-1/{'claim' if command == 'claim' else 'resume'}", refusal)
    server.override("GET", "/me", Answer(200, {**NOBODY, "authentication": has_keys}))
    said = hitl("interrupts", command, "i-1", HITL_URL=server.url).stderr
    if has_keys:
        assert "hint: leave it to one of them" in said
    else:
        assert "group:ops; this server has no keys, so nobody can" in said
        assert "hitl keys create ADMIN --scope admin" in said
        assert "hitl keys create NAME --scope read --scope answer --group ops" in said


def test_arguments_that_are_no_json_are_told_that_they_are_an_object(hitl: Run) -> None:
    refused = hitl("interrupts", "edit", "some-id", "{bad")
    assert refused.returncode == exit_codes.USAGE
    assert """arguments are an object: '{"name": "value"}'""" in refused.stderr


def test_the_help_of_commands_in_groups_is_filled_as_that_of_the_others(hitl: Run) -> None:
    shown = hitl("store", "check", "--help", COLUMNS="200").stdout
    assert "Exit code 1 tells" in " ".join(shown.split())
    assert not any(line.strip().endswith("Exit") for line in shown.splitlines())
    assert "[env var: HITL_AS]" in hitl("interrupts", "approve", "--help", COLUMNS="200").stdout


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("sessions", "delete", ""), "SESSION_ID: ''"),
        (("sessions", "get", ".."), "SESSION_ID: '..'"),
        (("sessions", "revoke", "s", ""), "GRANT: ''"),
        (("sessions", "create", "--id", ""), "--id: ''"),
        (("interrupts", "approve", ""), "INTERRUPT_ID: ''"),
        (("webhooks", "retry", "n", ""), "NOTICE_ID: ''"),
        (("chat", "--session", "", "hello"), "--session: ''"),
    ],
)
def test_an_id_that_is_none_is_told_with_its_name(
    hitl: Run, server: FakeServer, command: tuple[str, ...], name: str
) -> None:
    """As that of a variable that is not set."""
    refused = hitl(*command, HITL_URL=server.url)
    assert refused.returncode == exit_codes.USAGE
    assert refused.stderr.startswith(f"error: {name} is the id of nothing\n")
    assert "variable that is not set" in refused.stderr
    assert server.requests == []
