"""From what went wrong to what the command line says about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hitl.cli import exit_codes
from hitl.cli.output import Failure
from hitl.cli.text import one_line
from hitl.client import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)

_OTHER_KEY = (
    "it is that of --api-key, or of HITL_API_KEY; on the server's machine `hitl keys list --store STORE` names those "
    "that count"
)

_SESSION = "SESSION_ID"
_ITSELF = "is that the address of the server itself, without a path? as http://127.0.0.1:8000"

_EXIT_CODES: tuple[tuple[type[ClientError], int], ...] = (
    (NotFound, exit_codes.NOT_FOUND),
    (Conflict, exit_codes.CONFLICT),
    (Gone, exit_codes.CONFLICT),
    (Invalid, exit_codes.USAGE),
    (BadRequest, exit_codes.USAGE),
    (TooLarge, exit_codes.USAGE),
)


def failure_of(
    error: ClientError, server: str | None = None, *, has_key: bool = False, session: str | None = None
) -> Failure:
    """A `Failure` with the server's words, a hint and the exit code for that kind of error.

    server: which was asked, where that is known; has_key: whether with a key; session: about which one.
    """
    exit_code = next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), exit_codes.RUNTIME)
    if server is not None and isinstance(error, Unauthorized):
        if has_key:
            return Failure(f"{server} does not know this key, or it was revoked", _OTHER_KEY, exit_code)
        return Failure(f"{server} wants a key", _hint(error), exit_code)
    if server is not None and isinstance(error, NotFound):
        said = describe(error)
        if error.code == "not_found":  # about an address, in words that end with no thing to be found there
            return Failure(f"{server} is no address of a server: {said}", _hint(error), exit_code)
        if session is not None and error.code == "session_not_found":
            said = f"session {one_line(session)} not found"
        return Failure(f"{said} at {server}", _hint(error, f" --url {shlex.quote(server)}"), exit_code)
    hint = _hint(error)
    if session is not None:
        hint = hint.replace(_SESSION, shlex.quote(one_line(session)))
    return Failure(describe(error), hint, exit_code)


def without_keys(error: Forbidden) -> Failure:
    """A call that is for some, on a server that cannot tell who anybody is."""
    return Failure(
        f"{describe(error)}; this server has no keys, so nobody can", first_keys(_approvers_in(error.detail))
    )


def _approvers_in(detail: str) -> list[str]:
    """Those that the server's words name last."""
    _, found, named = detail.partition("with a key of theirs: ")
    return named.split(", ") if found else []


def first_keys(approvers: Sequence[str]) -> str:
    """How a server gets the keys that `approvers` need: one that can make others comes first."""
    groups = [one.removeprefix("group:") for one in approvers if one.startswith("group:")]
    named = "NAME" if groups or not approvers else shlex.quote(one_line(approvers[0]))
    in_group = shlex.quote(one_line(groups[0])) if groups else "GROUP"
    group = "" if approvers and not groups else f" --group {in_group}"
    return (
        "make one that can make others, hitl keys create ADMIN --scope admin, and with it (HITL_API_KEY) theirs: "
        f"hitl keys create {named} --scope read --scope answer{group}"
    )


def describe(error: ClientError) -> str:
    """The error in words, for a 422 with each thing that is wrong, for a lost race with who won."""
    if isinstance(error, Invalid) and error.errors:
        return "\n".join([*_heading(error), *(f"  {wrong}" for wrong in wrong_values(error))])
    text = one_line(error.detail)
    if isinstance(error, Conflict):
        if error.resolved_by:
            text += f" by {who(error.resolved_by)}"
        if error.resolved_at is not None:
            text += f" at {error.resolved_at.astimezone():%H:%M:%S on %Y-%m-%d}"
    return text


def wrong_values(error: Invalid) -> list[str]:
    """What is wrong, each with its place in what the person wrote: the request around that is none of theirs."""
    around = ["body", "value"] if error.code == "invalid_answer" else ["body"]
    return [f"{_where(entry.get('loc'), around)}{one_line(str(entry.get('msg')))}" for entry in error.errors]


def who(resolved_by: str | None) -> str:
    """A name for whoever answered; the server knows one only where it authenticates people."""
    return one_line(resolved_by) if resolved_by else "somebody else"


def _heading(error: Invalid) -> list[str]:
    """The server's words up to where they begin to say what `wrong_values` says."""
    first = error.errors[0]
    starts = [error.detail.find(said) for said in (_where(first.get("loc"), []), str(first.get("msg"))) if said]
    heading = error.detail[: min((start for start in starts if start >= 0), default=None)].rstrip(": ")
    return [one_line(heading)] if heading else []


def _where(location: object, around: list[str]) -> str:
    parts = [str(part) for part in location] if isinstance(location, list | tuple) else []
    if parts[: len(around)] == around:
        parts = parts[len(around) :]
    return one_line(".".join(parts)) + ": " if parts else ""


def _hint(error: ClientError, where: str = "") -> str:
    match error:
        case ConnectionFailed() if "WRONG_VERSION_NUMBER" in error.detail:
            return "what answers there speaks no TLS: say http:// in place of https://"
        case ConnectionFailed():
            return (
                "is the server running? start it with: hitl serve MODULE:ATTR; elsewhere? say where with --url or "
                "HITL_URL, in a chat also as argument"
            )
        case UnexpectedResponse():
            return "is that the address of a hitl server? name it with --url, or HITL_URL"
        case Unauthorized():
            return "give the server's key with --api-key, or in HITL_API_KEY"
        case Forbidden() if error.code == "missing_scope":
            return "use a key with that scope; whoever runs the server makes one: `hitl keys create NAME --scope SCOPE`"
        case Forbidden() if error.code == "self_approval":
            return "somebody with another key has to answer"
        case Forbidden() if error.code == "not_an_approver":
            return "leave it to one of them; `hitl interrupts show ID` names them, `hitl keys list` their groups"
        case Forbidden():
            return "the server takes requests only under its own host name"
        case NotFound() if error.code == "unknown_notice":
            return f"`hitl webhooks list{where}` shows what there is; a notice is forgotten seven days after it is over"
        case NotFound() if error.code == "not_found":
            return _ITSELF
        case NotFound():
            return f"`hitl sessions list{where}` and `hitl interrupts list{where}` show what there is"
        case Gone():
            return "the interrupt expired before this answer; `hitl interrupts show ID` says when"
        case Conflict():
            return _conflict_hint(error)
        case MethodNotAllowed() if error.code == "custom_ids_disabled":
            return "start the server with --allow-custom-ids to choose session ids"
        case MethodNotAllowed():
            return _ITSELF
        case Invalid() if any(wrong.get("type") == "other_type" for wrong in error.errors):
            return "it is a question, and answered with: hitl interrupts answer ID JSON"
        case Invalid():
            return "nothing was changed; correct the value and try again"
        case TooLarge():
            return "send less, or start the server with a larger --max-body or --max-value"
        case RateLimited() | Unavailable():
            return _later_hint(error)
        case ApiError() if error.status is not None and error.status >= 500:
            return "the server's log says more"
        case _:
            return "`hitl COMMAND --help` shows what is expected"


def _conflict_hint(error: Conflict) -> str:
    if error.code == "interrupt_claimed":
        return (
            f"wait, or ask {who(error.claimed_by)}; an admin can give it up: hitl interrupts release ID"
            "; on a server without keys say who you are with --as"
        )
    if error.code == "already_resolved":
        return "it holds what was answered first: `hitl interrupts show ID` has the answer"
    if error.code == "other_agent" and (named := re.search(r"belongs to agent (\S+), which", error.detail)):
        agent = one_line(named[1])
        return (
            f"it goes on where that agent is served from the same store: hitl serve {shlex.quote(agent)} --store STORE"
            "; an agent that was renamed or moved has to be found by its old name too"
        )
    if error.code == "key_exists":
        return "choose another name, or revoke that key: hitl keys revoke NAME"
    if error.code == "notice_not_failed":
        return "a pending notice is tried again by itself, and a delivered one never: hitl webhooks list"
    if "interrupted" in error.detail:
        return f"the session waits for a person: hitl interrupts list --session {_SESSION}"
    if "running" in error.detail:
        return f"wait for the turn to end: hitl sessions get --wait {_SESSION}"
    return "`hitl sessions get` and `hitl interrupts show` tell the state it is in now"


def _later_hint(error: RateLimited | Unavailable) -> str:
    seconds = error.retry_after
    return "try again later" if seconds is None else f"try again in {seconds:g} seconds"
