"""`deploy/many-servers`: servers that take requests, and servers that run turns, on one PostgreSQL."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import kubernetes_validate
import pytest
import yaml
from compose_spec import PyCompose

from tests.python.deploy.deployed import (
    DEPLOY,
    KEY,
    LISTENS,
    WORKS,
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
from tests.python.deploy.test_kubernetes import AGENT, SECRET, VERSIONS
from tests.python.support.api import Api, Json, ok, problem
from tests.python.support.served import ROOT, clean_environment
from tests.python.support.waiting import eventually

MANY = DEPLOY / "many-servers"
COMPOSE: Json = manifest("many-servers/compose.yaml")
SERVICES: dict[str, Json] = COMPOSE["services"]
HTTP, WORK = ["http-1", "http-2"], ["work-1", "work-2"]
SERVERS = [*HTTP, *WORK]
PASSFILE_LINE = "postgres:5432:hitl:hitl:x"


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
        for service in SERVICES.values():
            for kind in ("networks", "secrets", "configs"):
                named = [one["source"] if isinstance(one, dict) else one for one in service.get(kind, [])]
                assert set(named) <= COMPOSE[kind].keys()
            assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= COMPOSE["volumes"].keys()
            assert set(service.get("depends_on", {})) <= SERVICES.keys()
            if "build" in service:
                context = (MANY / service["build"]["context"]).resolve()
                assert (context, (context / service["build"]["dockerfile"]).exists()) == (ROOT, True)
        for kind in ("configs", "secrets"):
            for one in COMPOSE[kind].values():
                # Secrets are made by whoever deploys it.
                assert (MANY / one["file"]).exists() or one["file"].startswith("../secrets/")

    def test_clients_reach_caddy_alone_and_caddy_those_that_take_requests(self) -> None:
        assert [name for name, service in SERVICES.items() if "ports" in service] == ["caddy"]
        assert {name for name, service in SERVICES.items() if "front" in service["networks"]} == {*HTTP, "caddy"}
        assert COMPOSE["networks"]["database"] == {"internal": True}

    def test_the_database_has_room_for_what_servers_take(self) -> None:
        words = SERVICES["postgres"]["command"]
        most = int(words[words.index("-c") + 1].removeprefix("max_connections="))
        # Three are kept for its superuser.
        assert most - 3 >= 10 * (len(SERVERS) + 2)

    def test_all_servers_have_the_same_agent_and_time_to_end(self) -> None:
        assert len({SERVICES[name]["environment"]["HITL_AGENT"] for name in SERVERS}) == 1
        for name in SERVERS:
            service = SERVICES[name]
            assert seconds(service["stop_grace_period"]) > float(service["environment"]["HITL_SHUTDOWN_TIMEOUT"])

    def test_the_schema_is_there_before_the_policy_and_the_policy_before_any_server(self) -> None:
        done = {"condition": "service_completed_successfully"}
        assert SERVICES["policy"]["depends_on"] == {"migrate": done}
        for name in SERVERS:
            assert SERVICES[name]["depends_on"] == {"policy": done}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Site]:
    """Where the containers find their secrets and configurations."""
    with site(tmp_path) as machine:
        (policy,) = SERVICES["policy"]["configs"]
        machine.write(policy["target"], (MANY / COMPOSE["configs"][policy["source"]]["file"]).read_text())
        store = SERVICES["migrate"]["environment"]["HITL_STORE"]
        machine.write("/run/secrets/api_key", f"{KEY}\n")
        machine.write("/run/secrets/pgpass", machine.passfile(PASSFILE_LINE, store))
        machine.place("/data").mkdir()
        yield machine


def run_once(name: str, machine: Site) -> None:
    """A service that ends by itself, and well."""
    words = [machine.moved(word) for word in SERVICES[name]["command"]]
    environment = clean_environment() | machine.environment(variables(SERVICES[name]))
    command = [sys.executable, "-m", "hitl", *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr


def server(name: str, machine: Site) -> Deployed:
    return Deployed(SERVICES[name]["command"], machine.environment(variables(SERVICES[name])))


def test_compose_runs_turns_at_servers_of_one_kind_and_takes_requests_at_those_of_the_other(
    machine: Site, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for name in ("migrate", "policy"):
            run_once(name, machine)
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
        for document in yaml.safe_load_all(file.read_text()):
            kubernetes_validate.validate(document, version, strict=True)

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

    def test_those_that_run_turns_are_as_many_as_there_is_work_for(self) -> None:
        target = SCALING["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("Deployment", DEPLOYMENTS["work"]["metadata"]["name"])
        # What the autoscaler says is not taken back by whoever applies the files.
        assert "replicas" not in DEPLOYMENTS["work"]["spec"]

    @pytest.mark.parametrize("kind", PODS)
    def test_there_is_time_to_start_and_to_end(self, kind: str) -> None:
        assert PODS[kind]["terminationGracePeriodSeconds"] > float(OPTIONS["data"]["HITL_SHUTDOWN_TIMEOUT"])
        startup = container(kind)["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] > 120

    @pytest.mark.parametrize("kind", PODS)
    def test_the_one_variable_from_the_secret_is_the_address_of_the_store(self, kind: str) -> None:
        named = [variable["name"] for variable in container(kind)["env"] if "valueFrom" in variable]
        assert named == ["HITL_STORE"]


def environment(kind: str, cluster: Site) -> dict[str, str]:
    """The variables of a container."""
    given: dict[str, Any] = {}
    for source in container(kind)["envFrom"]:
        assert source["configMapRef"]["name"] == OPTIONS["metadata"]["name"]
        given |= OPTIONS["data"]
    for variable in container(kind)["env"]:
        if "value" in variable:
            given[variable["name"]] = variable["value"]
        else:
            named = variable["valueFrom"]["secretKeyRef"]
            assert named["name"] == SECRET["metadata"]["name"]
            given[variable["name"]] = SECRET["stringData"][named["key"]]
    return cluster.environment(given)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """Where pods find what is mounted."""
    with site(tmp_path) as cluster:
        cluster.write("/my_agent.py", AGENT)
        filled = SECRET["stringData"] | {"api_key": KEY}
        filled["pgpass"] = cluster.passfile(filled["pgpass"], filled["store"])
        for kind, pod in PODS.items():
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            mounts = {mount["name"]: mount["mountPath"] for mount in container(kind)["volumeMounts"]}
            assert volumes.keys() == mounts.keys()
            secret = volumes["secrets"]["secret"]
            assert secret["secretName"] == SECRET["metadata"]["name"]
            for item in secret["items"]:
                cluster.write(f"{mounts['secrets']}/{item['path']}", filled[item["key"]])
        yield cluster


def probe(kind: str, server: Deployed, name: str) -> int | None:
    """What a probe gets: a status, or nothing."""
    asked = container(kind)[name]
    (port,) = [port for port in container(kind)["ports"] if port["name"] == asked["httpGet"]["port"]]
    assert str(port["containerPort"]) == OPTIONS["data"]["HITL_PORT"]
    try:
        with httpx2.Client(timeout=asked["timeoutSeconds"], trust_env=False, verify=False) as client:
            return client.get(server.url + asked["httpGet"]["path"]).status_code
    except httpx2.TransportError:
        return None


def test_pods_of_both_kinds_are_ready_and_one_that_runs_turns_goes_on_with_what_another_leaves(cluster: Site) -> None:
    with ExitStack() as pods:

        def start(kind: str) -> Deployed:
            pod = pods.enter_context(Deployed(container(kind)["args"], environment(kind, cluster)))
            pod.wait_for_line(LISTENS if kind == "http" else WORKS)
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                eventually(partial(probe, kind, pod, name), 200)
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
