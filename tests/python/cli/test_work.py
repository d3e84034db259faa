"""`hitl work`: what it can be told, and what it refuses before anything is created."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hitl.cli.app import program
from hitl.cli.work import OF_REQUESTS
from hitl.serving.options import ServeOptions, WorkOptions
from tests.python.cli.conftest import Run
from tests.python.cli.test_serve import another

DATABASE = "postgresql://hitl@db.test/hitl"


@pytest.mark.parametrize("store", [(), ("--store", "memory"), ("--store", "sqlite:some.db")])
def test_a_store_that_one_server_has_for_itself_is_refused(hitl: Run, tmp_path: Path, store: tuple[str, ...]) -> None:
    finished = hitl("work", "m:a", *store)
    assert finished.returncode == 2
    first, *_, last = finished.stderr.splitlines()
    assert first.startswith("error: --store: no other server can take requests for this store")
    assert last == "hint: name a database that servers share: --store postgresql://USER@HOST/DATABASE"
    assert list(tmp_path.iterdir()) == []


def test_what_is_about_requests_is_no_option(hitl: Run) -> None:
    finished = hitl("work", "m:a", "--queue", "5")
    assert finished.returncode == 2
    assert "No such option" in finished.stderr


def test_other_options_are_those_of_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    # Those that can be repeated are named otherwise.
    repeated = {"allowed_hosts": "allowed_host", "webhooks": "webhook"}
    left_out = OF_REQUESTS | {"agent", "ui"}
    wanted = {it.name: another(it.name) for it in fields(ServeOptions) if it.name not in left_out}
    arguments = ["work", "m:a"]
    for name, value in wanted.items():
        flag = "--" + repeated.get(name, name).replace("_", "-")
        for each in value if isinstance(value, tuple) else [value]:
            arguments += [flag] if isinstance(each, bool) else [flag, str(each)]
    given: list[ServeOptions] = []
    monkeypatch.setattr("hitl.cli.work._work", lambda options: given.append(options) or 0)
    finished = CliRunner().invoke(program(), arguments)
    assert finished.exit_code == 0, finished.output
    assert given == [WorkOptions(agent="m:a", **wanted)]


def test_it_may_be_reached_from_other_machines_without_a_key() -> None:
    assert WorkOptions(agent="m:a", store=DATABASE, host="0.0.0.0").host == "0.0.0.0"
