"""After which failures a turn can be retried: said in Rust, and again for clients, for the inbox, in the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hitl.client.models import RETRIABLE_ERRORS

ROOT = Path(__file__).resolve().parents[3]


def quoted(path: str, declared: str) -> set[str]:
    """The texts in double quotes between ``declared`` and the bracket that closes the list after it."""
    listed = re.search(rf"{re.escape(declared)}[^=]*=[^\[]*\[([^\]]*)\]", (ROOT / path).read_text())
    assert listed, f"{path} declares no {declared}"
    codes = re.findall(r'"([a-z_]+)"', listed[1])
    assert codes
    return set(codes)


MENDED_BY_CODE = quoted("src/domain/session.rs", "const MENDED_BY_CODE")
PASSING = quoted("src/domain/session.rs", "const PASSING")


def documented() -> dict[str, str]:
    """What docs/http.md says of each code: when it is retried."""
    page = (ROOT / "docs" / "http.md").read_text()
    table = page.split("| `error_code` | what happened | retried |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()[2:]]
    when = ""
    says = {}
    for codes, _, retried in rows:
        when = when if retried.rstrip(" |") == "the same" else retried.rstrip(" |")
        says.update(dict.fromkeys(re.findall(r"`([a-z_]+)`", codes), when))
    return says


def test_a_client_knows_what_can_be_retried() -> None:
    assert RETRIABLE_ERRORS == MENDED_BY_CODE | PASSING


def test_the_inbox_offers_a_retry_for_the_same() -> None:
    assert quoted("ui/src/sessions/session.tsx", "const retried") == MENDED_BY_CODE | PASSING


def test_the_request_that_retries_says_for_which() -> None:
    """Its text in the OpenAPI document."""
    text = (ROOT / "src/server/sessions.rs").read_text()
    said = re.search(r"/// For an `error` whose journal was kept: (.*?)\. The turn goes on", text, re.DOTALL)
    assert said
    codes = re.findall(r"`([a-z_]+)`", said[1])
    assert set(codes) == MENDED_BY_CODE | PASSING
    # "For the first six the same happens by itself".
    assert set(codes[:6]) == MENDED_BY_CODE


@pytest.mark.parametrize("code", sorted(MENDED_BY_CODE | PASSING))
def test_the_documents_say_when(code: str) -> None:
    expected = "by a request" + (", and when a server starts with other code" if code in MENDED_BY_CODE else "")
    assert documented()[code] == expected


def test_the_documents_promise_no_other_retry() -> None:
    retried = {code for code, when in documented().items() if when != "no"}
    assert retried == MENDED_BY_CODE | PASSING
