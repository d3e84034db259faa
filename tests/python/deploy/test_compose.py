"""`deploy/compose.yaml`: two servers, Caddy in front of them, and PostgreSQL."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from compose_spec import PyCompose

from tests.python.deploy.deployed import (
    CONNECTIONS_OF_A_SERVER,
    DEPLOY,
    KEY,
    LISTENS,
    Deployed,
    Site,
    answers,
    assert_all_that_is_named_is_there,
    assert_room_for_connections,
    assert_time_to_end,
    caddy,
    fill,
    is_healthy,
    manifest,
    run_once,
    seconds,
    site,
    variables,
)
from tests.python.support.api import Api, Json, ok, problem

COMPOSE: Json = manifest("compose.yaml")
SERVICES: dict[str, Json] = COMPOSE["services"]
SERVERS = ["hitl-1", "hitl-2"]


class TestFile:
    def test_it_is_what_the_specification_of_compose_allows(self) -> None:
        PyCompose.from_json(json.dumps(COMPOSE))

    def test_an_unknown_word_would_be_told(self) -> None:
        with pytest.raises(ValueError, match="stop_grace_perid"):
            PyCompose.from_json(json.dumps({"services": {"hitl": {"image": "hitl", "stop_grace_perid": "30s"}}}))

    def test_what_services_name_is_there(self) -> None:
        assert_all_that_is_named_is_there(COMPOSE, DEPLOY, "./secrets/")

    def test_the_database_is_reached_by_the_servers_alone(self) -> None:
        assert COMPOSE["networks"]["database"] == {"internal": True}
        there = {name for name, service in SERVICES.items() if "database" in service["networks"]}
        assert there == {*SERVERS, "migrate", "postgres"}
        assert SERVICES["postgres"]["networks"] == ["database"]

    def test_no_server_is_reached_but_through_caddy(self) -> None:
        assert [name for name, service in SERVICES.items() if "ports" in service] == ["caddy"]

    def test_the_database_has_room_for_what_servers_take(self) -> None:
        assert_room_for_connections(COMPOSE, CONNECTIONS_OF_A_SERVER * (len(SERVERS) + 1))

    def test_the_schema_is_there_before_any_server(self) -> None:
        """Servers of a new release would start again and again on that of the one before."""
        assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert "restart" not in SERVICES["migrate"]
        for name in SERVERS:
            assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}

    @pytest.mark.parametrize("name", SERVERS)
    def test_a_server_has_time_to_end_before_it_is_killed(self, name: str) -> None:
        assert_time_to_end(SERVICES[name])


def server(name: str, site: Site) -> Deployed:
    return Deployed(SERVICES[name]["command"], site.environment(variables(SERVICES[name])))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Site]:
    """Where the containers find their secrets and configurations."""
    with site(tmp_path) as machine:
        service = SERVICES["hitl-1"]
        assert service["secrets"] == ["pgpass", "api_key"]
        store = service["environment"]["HITL_STORE"]
        assert parse_qs(urlsplit(store).query)["passfile"] == ["/run/secrets/pgpass"]
        fill(machine, COMPOSE, DEPLOY, service, store)
        yield machine


def test_a_question_is_answered_at_one_address_whichever_server_is_there(machine: Site, tmp_path: Path) -> None:
    run_once(SERVICES["migrate"], machine)
    with ExitStack() as stack:
        first = stack.enter_context(server("hitl-1", machine))
        first.wait_for_line(LISTENS)
        second = stack.enter_context(server("hitl-2", machine))
        url = stack.enter_context(caddy(COMPOSE, dict(zip(SERVERS, (first, second), strict=True)), tmp_path))
        second.wait_for_line(LISTENS)
        assert [is_healthy(SERVICES["hitl-1"], first), is_healthy(SERVICES["hitl-2"], second)] == [True, True]
        assert [answers(server.url) for server in (first, second)] == [True, True]

        api = Api(url, api_key=KEY)
        stack.callback(api.close)
        problem(httpx2.get(f"{url}/sessions", trust_env=False, verify=False), 401)
        assert ok(api.get("/health"))["policy"]["rules"] == 1
        session_id = api.create()
        assert api.send(session_id, "delete the old logs file").status_code == 202
        (interrupt,) = api.wait(session_id)["interrupts"]
        file = machine.place("/data/files/old_logs.txt")
        assert file.exists()

        first.signal(signal.SIGTERM)
        assert first.wait(seconds(SERVICES["hitl-1"]["stop_grace_period"])) == 0
        # Caddy keeps it where it has not seen yet that one is gone.
        ok(api.resume(session_id, interrupt["interrupt_id"], {"approved": True}))
        assert api.wait(session_id)["status"] == "idle"
        assert not file.exists()
        assert not is_healthy(SERVICES["hitl-1"], first)
        assert KEY not in "\n".join([*first.lines, *second.lines])
