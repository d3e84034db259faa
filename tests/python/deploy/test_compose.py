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
    DEPLOY,
    KEY,
    LISTENS,
    Deployed,
    Site,
    answers,
    caddy,
    is_healthy,
    manifest,
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
        for service in SERVICES.values():
            for kind in ("networks", "secrets", "configs"):
                named = [one["source"] if isinstance(one, dict) else one for one in service.get(kind, [])]
                assert set(named) <= COMPOSE[kind].keys()
            volumes = [volume.split(":")[0] for volume in service.get("volumes", [])]
            assert {volume for volume in volumes if not volume.startswith(".")} <= COMPOSE["volumes"].keys()
            assert set(service.get("depends_on", {})) <= SERVICES.keys()
        for kind in ("configs", "secrets"):
            for one in COMPOSE[kind].values():
                # Secrets are made by whoever deploys it.
                assert (DEPLOY / one["file"]).exists() or one["file"].startswith("./secrets/")

    def test_the_database_is_reached_by_the_servers_alone(self) -> None:
        assert COMPOSE["networks"]["database"] == {"internal": True}
        there = {name for name, service in SERVICES.items() if "database" in service["networks"]}
        assert there == {*SERVERS, "postgres"}
        assert SERVICES["postgres"]["networks"] == ["database"]

    def test_no_server_is_reached_but_through_caddy(self) -> None:
        assert [name for name, service in SERVICES.items() if "ports" in service] == ["caddy"]

    def test_the_database_has_room_for_what_servers_take(self) -> None:
        words = SERVICES["postgres"]["command"]
        most = int(words[words.index("-c") + 1].removeprefix("max_connections="))
        # Three are kept for its superuser.
        assert most - 3 >= 9 * (len(SERVERS) + 1)

    @pytest.mark.parametrize("name", SERVERS)
    def test_a_server_has_time_to_end_before_it_is_killed(self, name: str) -> None:
        service = SERVICES[name]
        assert seconds(service["stop_grace_period"]) > float(service["environment"]["HITL_SHUTDOWN_TIMEOUT"])


def server(name: str, site: Site) -> Deployed:
    return Deployed(SERVICES[name]["command"], site.environment(variables(SERVICES[name])))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Site]:
    """Where the containers find their secrets and configurations."""
    with site(tmp_path) as machine:
        service = SERVICES["hitl-1"]
        (policy,) = service["configs"]
        machine.write(policy["target"], (DEPLOY / COMPOSE["configs"][policy["source"]]["file"]).read_text())
        assert service["secrets"] == ["pgpass", "api_key"]
        store = service["environment"]["HITL_STORE"]
        machine.write("/run/secrets/api_key", f"{KEY}\n")
        machine.write("/run/secrets/pgpass", machine.passfile("postgres:5432:hitl:hitl:x", store))
        assert parse_qs(urlsplit(store).query)["passfile"] == ["/run/secrets/pgpass"]
        machine.place("/data").mkdir()
        yield machine


def test_a_question_is_answered_at_one_address_whichever_server_is_there(machine: Site, tmp_path: Path) -> None:
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
