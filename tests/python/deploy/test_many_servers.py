"""`deploy/many-servers`: servers that take requests, and servers that run turns, on one PostgreSQL."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx2
import pytest
import yaml
from compose_spec import PyCompose

from tests.python.deploy.deployed import (
    AGENT,
    CONNECTIONS_OF_A_SERVER,
    DEPLOY,
    KEY,
    LISTENS,
    VERSIONS,
    WORKS,
    Deployed,
    Site,
    answers,
    assert_all_that_is_named_is_there,
    assert_room_for_connections,
    assert_time_to_end,
    assert_time_to_start,
    caddy,
    fill,
    is_healthy,
    manifest,
    place_of_mount,
    probe,
    run_once,
    seconds,
    secrets_of_pod,
    site,
    time_before_the_end,
    validate,
    variables,
    variables_of_container,
)
from tests.python.support.api import Api, Json, ok, problem
from tests.python.support.waiting import eventually

MANY = DEPLOY / "many-servers"
COMPOSE: Json = manifest("many-servers/compose.yaml")
SERVICES: dict[str, Json] = COMPOSE["services"]
HTTP, WORK = ["http-1", "http-2"], ["work-1", "work-2"]
SERVERS = [*HTTP, *WORK]


def documents(name: str) -> list[Json]:
    return list(yaml.safe_load_all((MANY / "kubernetes" / name).read_text()))


DEPLOYMENTS: dict[str, Json] = {kind: documents(f"{kind}.yaml")[0] for kind in ("http", "work")}
PODS: dict[str, Json] = {kind: it["spec"]["template"]["spec"] for kind, it in DEPLOYMENTS.items()}
(OPTIONS,) = documents("options.yaml")
(SCALING,) = documents("scaling.yaml")


def container(kind: str) -> Json:
    (only,) = PODS[kind]["containers"]
    found: Json = only
    return found


class TestCompose:
    def test_it_is_what_the_specification_of_compose_allows(self) -> None:
        PyCompose.from_json(json.dumps(COMPOSE))

    def test_what_services_name_is_there(self) -> None:
        assert_all_that_is_named_is_there(COMPOSE, MANY, "../secrets/")

    def test_clients_reach_caddy_alone_and_caddy_those_that_take_requests(self) -> None:
        assert [name for name, service in SERVICES.items() if "ports" in service] == ["caddy"]
        assert {name for name, service in SERVICES.items() if "front" in service["networks"]} == {*HTTP, "caddy"}
        assert COMPOSE["networks"]["database"] == {"internal": True}

    def test_the_database_has_room_for_what_servers_take(self) -> None:
        assert_room_for_connections(COMPOSE, CONNECTIONS_OF_A_SERVER * (len(SERVERS) + 2))

    def test_all_servers_have_the_same_agent_and_time_to_end(self) -> None:
        assert len({SERVICES[name]["environment"]["HITL_AGENT"] for name in SERVERS}) == 1
        for name in SERVERS:
            assert_time_to_end(SERVICES[name])

    def test_the_schema_is_there_before_the_policy_and_the_policy_before_any_server(self) -> None:
        done = {"condition": "service_completed_successfully"}
        assert SERVICES["policy"]["depends_on"] == {"migrate": done}
        for name in SERVERS:
            assert SERVICES[name]["depends_on"] == {"policy": done}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Site]:
    """Where the containers find their secrets and configurations."""
    with site(tmp_path) as machine:
        store = SERVICES["migrate"]["environment"]["HITL_STORE"]
        fill(machine, COMPOSE, MANY, SERVICES["policy"], store)
        yield machine


def server(name: str, machine: Site) -> Deployed:
    return Deployed(SERVICES[name]["command"], machine.environment(variables(SERVICES[name])))


def test_compose_runs_turns_at_servers_of_one_kind_and_takes_requests_at_those_of_the_other(
    machine: Site, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for name in ("migrate", "policy"):
            run_once(SERVICES[name], machine)
        servers = {name: stack.enter_context(server(name, machine)) for name in SERVERS}
        for name in SERVERS:
            servers[name].wait_for_line(LISTENS if name in HTTP else WORKS)
            assert is_healthy(SERVICES[name], servers[name])
            assert answers(servers[name].url)
        url = stack.enter_context(caddy(COMPOSE, {name: servers[name] for name in HTTP}, tmp_path, MANY))
        api = Api(url, api_key=KEY)
        stack.callback(api.close)

        # Figures are for who has the key, and nothing else is there.
        work = servers["work-1"]
        assert httpx2.get(f"{work.url}/metrics", trust_env=False, verify=False).status_code == 401
        assert "hitl_ready_age_seconds 0" in work.api.get("/metrics").text.splitlines()
        assert problem(work.api.get("/sessions"), 404)["code"] == "takes_no_requests"

        session_id = api.create()
        assert api.send(session_id, "delete the old logs file").status_code == 202
        (interrupt,) = api.wait(session_id)["interrupts"]
        # Asked since the rules of the database say so.
        assert ok(api.get("/health"))["policy"]["rules"] == 1
        file = machine.place("/data/files/old_logs.txt")
        assert file.exists()

        # One of each kind ends; the others go on.
        for name in ("work-1", "http-1"):
            servers[name].signal(signal.SIGTERM)
            assert servers[name].wait(seconds(SERVICES[name]["stop_grace_period"])) == 0
            assert not is_healthy(SERVICES[name], servers[name])
        ok(api.resume(session_id, interrupt["interrupt_id"], {"approved": True}))
        assert api.wait(session_id)["status"] == "idle"
        assert not file.exists()
        for one in servers.values():
            assert KEY not in "\n".join(one.lines)


class TestKubernetes:
    @pytest.mark.parametrize("file", sorted((MANY / "kubernetes").iterdir()), ids=lambda file: file.name)
    @pytest.mark.parametrize("version", VERSIONS)
    def test_each_is_what_the_schema_allows(self, file: Path, version: str) -> None:
        validate(file, version)

    def test_the_service_leads_to_those_that_take_requests(self) -> None:
        (service,) = documents("service.yaml")
        assert service["spec"]["selector"] == DEPLOYMENTS["http"]["spec"]["template"]["metadata"]["labels"]
        (port,) = service["spec"]["ports"]
        assert port["targetPort"] in [port["name"] for port in container("http")["ports"]]
        assert all(PODS[kind]["enableServiceLinks"] is False for kind in PODS)

    def test_one_of_each_kind_can_be_moved_and_others_stay(self) -> None:
        budgets = documents("disruption.yaml")
        of = [DEPLOYMENTS[kind]["spec"]["template"]["metadata"]["labels"] for kind in ("http", "work")]
        assert [budget["spec"]["selector"]["matchLabels"] for budget in budgets] == of
        assert [DEPLOYMENTS[kind]["spec"]["selector"]["matchLabels"] for kind in DEPLOYMENTS] == of
        least = [DEPLOYMENTS["http"]["spec"]["replicas"], SCALING["spec"]["minReplicas"]]
        for budget, replicas in zip(budgets, least, strict=True):
            assert 0 < budget["spec"]["maxUnavailable"] < replicas
            # Those that are not ready, as without a database, keep no node.
            assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"

    def test_those_that_run_turns_are_as_many_as_there_is_work_for(self) -> None:
        target = SCALING["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("Deployment", DEPLOYMENTS["work"]["metadata"]["name"])
        # What the autoscaler says is not taken back by whoever applies the files.
        assert "replicas" not in DEPLOYMENTS["work"]["spec"]

    @pytest.mark.parametrize("kind", PODS)
    def test_there_is_time_to_start_and_to_end(self, kind: str) -> None:
        takes = time_before_the_end(container(kind)) + float(OPTIONS["data"]["HITL_SHUTDOWN_TIMEOUT"])
        assert PODS[kind]["terminationGracePeriodSeconds"] > takes
        assert_time_to_start(container(kind))

    def test_those_that_take_requests_do_until_whoever_leads_to_them_has_heard_that_they_end(self) -> None:
        assert time_before_the_end(container("http")) >= 5

    @pytest.mark.parametrize("kind", PODS)
    def test_the_one_variable_from_the_secret_is_the_address_of_the_store(self, kind: str) -> None:
        named = [variable["name"] for variable in container(kind)["env"] if "valueFrom" in variable]
        assert named == ["HITL_STORE"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """Where pods find what is mounted."""
    with site(tmp_path) as cluster:
        cluster.write("/my_agent.py", AGENT)
        for kind, pod in PODS.items():
            place = place_of_mount(container(kind), "secrets", cluster)
            place.mkdir(parents=True, exist_ok=True)
            for name, text in secrets_of_pod(pod, cluster).items():
                (place / name).write_text(text)
        yield cluster


def test_pods_of_both_kinds_are_ready_and_one_that_runs_turns_goes_on_with_what_another_leaves(cluster: Site) -> None:
    with ExitStack() as pods:

        def start(kind: str) -> Deployed:
            environment = cluster.environment(variables_of_container(container(kind), OPTIONS))
            pod = pods.enter_context(Deployed(container(kind)["args"], environment))
            pod.wait_for_line(LISTENS if kind == "http" else WORKS)
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                eventually(partial(probe, container(kind), name, pod, OPTIONS["data"]["HITL_PORT"]), 200)
            return pod

        http, work = start("http"), start("work")
        ok(http.api.http.get("/sessions", headers={"host": "hitl"}))
        session_id = http.api.create()
        interrupt = http.api.settled(session_id, "begin", 1)["interrupts"][0]["interrupt_id"]
        metric = SCALING["spec"]["metrics"][0]["external"]["metric"]["name"]
        for pod in (http, work):
            assert f"{metric} 0" in pod.api.get("/metrics").text.splitlines()

        work.signal(signal.SIGTERM)
        assert work.wait(PODS["work"]["terminationGracePeriodSeconds"]) == 0
        ok(http.api.resume(session_id, interrupt, "yes"))
        start("work")
        assert http.api.wait(session_id)["response"]["content"] == "said yes"
