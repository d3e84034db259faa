"""Options of a server that programs give: each is of the kind that is documented, or refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from hitl.serving.options import InvalidOption, ServeOptions


def options(**given: Any) -> ServeOptions:
    return ServeOptions(agent="shop:agent", **given)


@pytest.mark.parametrize(
    "name",
    [
        "park_after",
        "shutdown_timeout",
        "timeout",
        "ttl",
        "suspended_ttl",
        "interrupt_ttl",
        "keep_journal",
        "remind_after",
    ],
)
@pytest.mark.parametrize("value", [-1, -1.0, float("nan"), float("inf"), 10**400, "5", True, None])
def test_what_is_no_duration_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**{name: value})
    assert refused.value.option == "--" + name.replace("_", "-")


def test_a_whole_number_of_seconds_is_a_duration() -> None:
    given = options(park_after=0, shutdown_timeout=3)
    assert [(type(value), value) for value in (given.park_after, given.shutdown_timeout)] == [
        (float, 0.0),
        (float, 3.0),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", "4"),
        ("workers", True),
        ("workers", 2.0),
        ("port", "8000"),
        ("max_sessions", None),
        ("insecure", 1),
        ("ui", "no"),
        ("host", 127),
        ("store", None),
        ("policy", 42),
        ("isolation", 1),
        ("webhooks", "https://example.com/hook"),
        ("webhooks", [1]),
        ("allowed_hosts", "example.com"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**{name: value})
    assert refused.value.option == "--" + name.replace("_", "-")
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("name", ["api_key", "state_key", "webhook_secret", "store"])
def test_of_what_may_be_a_secret_the_kind_alone_is_told(name: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**{name: b"kept by nobody else"})
    assert str(refused.value) == f"--{name.replace('_', '-')}: is of type bytes"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("api_key", "openssl rand -hex 32"),
        ("state_key", "openssl rand -hex 32"),
        ("webhook_secret", "echo whsec_$(openssl rand -base64 32)"),
    ],
)
def test_a_secret_that_is_none_is_refused_with_how_one_is_made(name: str, made: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options(**{name: " "})
    assert refused.value.hint == f"for example: {made}"


@pytest.mark.parametrize("key", ["sixteen letters. ", " sixteen letters."])
def test_a_key_that_no_request_can_bring_is_refused(key: str) -> None:
    with pytest.raises(InvalidOption, match="has a space at an end"):
        options(api_key=key)


def test_a_store_that_cannot_be_looked_at_is_for_the_server_to_refuse() -> None:
    """As in a directory of somebody else, where `hitl serve --help` was a traceback. Here its name is too long."""
    path = "n" * 300
    assert options(store=path).store == path
    with pytest.raises(InvalidOption, match="can be reached from other machines"):
        options(store=path, host="0.0.0.0")
