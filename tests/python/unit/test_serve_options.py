"""Options of a server that programs give: each is of the kind that is documented, or refused by its name."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from hitl.serving.options import InvalidOption, ServeOptions, options_of


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


@pytest.mark.parametrize("name", ["api_key", "state_key"])
def test_a_key_that_can_be_guessed_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="15 characters can be guessed; 16 at least") as refused:
        options(**{name: "fifteen letters"})
    assert refused.value.option == "--" + name.replace("_", "-")
    options(**{name: "sixteen letters."})


@pytest.mark.parametrize("name", ["api_key", "state_key", "webhook_secret"])
def test_a_file_in_the_place_of_what_is_in_it_is_refused(name: str, tmp_path: Path) -> None:
    """Whoever knows the path could sign with it."""
    file = tmp_path / "a file with a key in it"
    file.write_text("k" * 32)
    with pytest.raises(InvalidOption, match="is the name of a file, not what is in it") as refused:
        options(**{name: str(file)})
    assert f"{name}=Path(...).read_text().strip()" in refused.value.hint
    assert str(file) not in f"{refused.value} {refused.value.hint}"
    is_any_text = name != "webhook_secret"
    with nullcontext() if is_any_text else pytest.raises(InvalidOption, match="must be `whsec_`"):
        options(**{name: "k" * 5000})  # longer than any name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("no_ui", "did you mean ui=False?"),
        ("api_key_file", "did you mean api_key, which is the key itself?"),
        ("webhook", "did you mean webhooks, a list?"),
        ("allowed_host", "did you mean allowed_hosts, a list?"),
        ("park_afer", "did you mean park_after?"),
    ],
)
def test_an_option_that_there_is_not_is_named_with_what_is_meant(name: str, hint: str) -> None:
    with pytest.raises(TypeError, match=rf"Server\(\) has no option '{name}'") as refused:
        options_of("Server()", "m:a", {name: "x"})
    assert str(refused.value).endswith(f"hint: {hint}")


@pytest.mark.parametrize("given", [{"isolation": "process"}, {"start_timeout": 5}, {"worker_timeout": 30.0}], ids=str)
def test_what_is_about_processes_is_refused_for_a_live_agent(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(InvalidOption, match="a live agent runs its turns in this one") as refused:
        options_of("Server()", object(), given)
    assert refused.value.option == "--" + name.replace("_", "-")
    assert options_of("Server()", "m:a", given) == ServeOptions(agent="m:a", **given)


def test_turns_of_a_live_agent_are_tasks_which_may_be_said() -> None:
    assert options_of("Server()", object(), {"isolation": "task"}).isolation == "task"


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
