"""The chat without a terminal: JSON lines out, nothing asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hitl.cli import exit_codes
from hitl.cli.output import print_json_line
from hitl.client import Client

if TYPE_CHECKING:
    from hitl.client import Session


def run_headless(url: str, api_key: str | None, session_id: str | None, message: str | None) -> int:
    """One turn for `message`, or one for each line of standard input; stops at the first that does not end well.

    With neither a message nor a line, and a session that exists, its turn is seen to its end, and tells the exit code.
    """
    messages = iter([message]) if message is not None else _lines()
    with Client(url, api_key=api_key) as client:
        session = client.create_session() if session_id is None else client.wait(session_id)
        _report(session)
        code = _exit_code(session)
        if code == exit_codes.NEEDS_PERSON:
            return code
        for text in messages:  # the first one also where the last turn did not end well: something else is said
            accepted = client.send_message(session.session_id, text)
            _emit("status", session_id=accepted.session_id, status=accepted.status)
            session = client.wait(session.session_id)
            _report(session)
            code = _exit_code(session)
            if code != exit_codes.OK:
                break
    return code


def _lines() -> Iterator[str]:
    for line in sys.stdin:
        text = line.strip()
        if text:
            yield text


def _report(session: Session) -> None:
    _emit(
        "status",
        session_id=session.session_id,
        status=session.status,
        **({} if session.error is None else {"error": session.error, "error_code": session.error_code}),
    )
    for interrupt in session.interrupts:
        _emit("interrupt", **{"session_id": session.session_id, **interrupt.raw})
    if session.response is not None:
        _emit("response", session_id=session.session_id, response=session.response.to_dict())


def _exit_code(session: Session) -> int:
    codes = {"idle": exit_codes.OK, "interrupted": exit_codes.NEEDS_PERSON}
    return codes.get(session.status, exit_codes.RUNTIME)


def _emit(event: str, **members: Any) -> None:
    print_json_line({"event": event, **members})
