"""`deploy/kubernetes`: two servers, one of which is ready."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import kubernetes_validate
import pytest

from hitl.serving.options import InvalidOption, ServeOptions
from tests.python.deploy.deployed import (
    AGENT,
    DEPLOY,
    LISTENS,
    SECRET,
    VERSIONS,
    Deployed,
    Site,
    assert_time_to_start,
    manifest,
    place_of_mount,
    probe,
    secrets_of_pod,
    site,
    time_before_the_end,
    validate,
    variables_of_container,
)
from tests.python.support.api import Json, ok, problem
from tests.python.support.waiting import eventually

FILES = sorted((DEPLOY / "kubernetes").iterdir())
DEPLOYMENT: Json = manifest("kubernetes/deployment.yaml")
POD: Json = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PASSFILE = "/run/secrets/hitl/pgpass"


def environment(site: Site) -> dict[str, str]:
    return site.environment(variables_of_container(CONTAINER))


def mount(site: Site, name: str) -> Path:
    return place_of_mount(CONTAINER, name, site)


def update(directory: Path, files: dict[str, str], generation: int) -> None:
    """As a kubelet does: a new directory beside the old one, and a link that is moved from one to the other."""
    content = directory / f"..{generation}"
    content.mkdir(parents=True)
    for name, text in files.items():
        (content / name).write_text(text)
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..data_tmp").symlink_to(content.name)
    (directory / "..data_tmp").rename(directory / "..data")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """Where pods find what is mounted."""
    with site(tmp_path) as cluster:
        cluster.write("/my_agent.py", AGENT)
        assert f"passfile={PASSFILE}" in SECRET["stringData"]["store"]
        update(mount(cluster, "secrets"), secrets_of_pod(POD, cluster), 1)
        policy = manifest("kubernetes/policy.yaml")
        (named,) = [volume["configMap"]["name"] for volume in POD["volumes"] if volume["name"] == "policy"]
        assert named == policy["metadata"]["name"]
        update(mount(cluster, "policy"), policy["data"], 1)
        yield cluster


def probed(server: Deployed, name: str) -> int | None:
    (port,) = [variable["value"] for variable in CONTAINER["env"] if variable["name"] == "HITL_PORT"]
    return probe(CONTAINER, name, server, port)


class TestFiles:
    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
    @pytest.mark.parametrize("version", VERSIONS)
    def test_each_is_what_the_schema_allows(self, file: Path, version: str) -> None:
        validate(file, version)

    def test_an_unknown_word_would_be_told(self) -> None:
        wrong = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replica": 2}}
        with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
            kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)

    def test_service_and_budget_are_about_the_pods_of_the_deployment(self) -> None:
        labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
        service, budget = manifest("kubernetes/service.yaml"), manifest("kubernetes/disruption.yaml")
        assert service["spec"]["selector"] == labels
        assert budget["spec"]["selector"]["matchLabels"] == labels
        assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
        (port,) = service["spec"]["ports"]
        assert port["targetPort"] in [port["name"] for port in CONTAINER["ports"]]

    def test_a_rollout_takes_no_server_away_before_a_new_one_is_ready(self) -> None:
        strategy = DEPLOYMENT["spec"]["strategy"]["rollingUpdate"]
        assert (strategy["maxSurge"], strategy["maxUnavailable"]) == (1, 0)

    def test_one_server_stays_and_each_can_be_moved(self) -> None:
        least = manifest("kubernetes/disruption.yaml")["spec"]["minAvailable"]
        assert 0 < least < DEPLOYMENT["spec"]["replicas"]

    def test_those_that_are_not_ready_can_be_moved_all_at_once(self) -> None:
        budget = manifest("kubernetes/disruption.yaml")["spec"]
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"

    def test_the_variables_of_services_do_not_take_the_place_of_options(self) -> None:
        assert manifest("kubernetes/service.yaml")["metadata"]["name"] == "hitl"
        assert POD["enableServiceLinks"] is False

    def test_there_is_time_to_start_and_to_end(self) -> None:
        given = {variable["name"]: variable.get("value") for variable in CONTAINER["env"]}
        takes = time_before_the_end(CONTAINER) + float(given["HITL_SHUTDOWN_TIMEOUT"])
        assert POD["terminationGracePeriodSeconds"] > takes
        assert_time_to_start(CONTAINER)

    def test_it_serves_until_whoever_leads_to_it_has_heard_that_it_ends(self) -> None:
        assert time_before_the_end(CONTAINER) >= 5

    def test_no_server_starts_with_the_key_of_the_example(self) -> None:
        with pytest.raises(InvalidOption, match="can be guessed"):
            ServeOptions(agent="my_agent:agent", api_key=SECRET["stringData"]["api_key"])

    def test_secrets_are_in_no_variable_but_the_address_of_the_store_which_has_no_password(self) -> None:
        assert [variable["name"] for variable in CONTAINER["env"] if "valueFrom" in variable] == ["HITL_STORE"]
        assert ":" not in SECRET["stringData"]["store"].removeprefix("postgresql://").partition("@")[0]


def test_both_are_ready_and_one_goes_on_with_what_the_other_leaves(cluster: Site) -> None:
    with ExitStack() as pods:
        first = pods.enter_context(Deployed(CONTAINER["args"], environment(cluster)))
        first.wait_for_line(LISTENS)
        second = pods.enter_context(Deployed(CONTAINER["args"], environment(cluster)))
        second.wait_for_line(LISTENS)
        for server in (first, second):
            eventually(lambda server=server: probed(server, "startupProbe"), 200)
        assert [probed(first, "livenessProbe"), probed(second, "livenessProbe")] == [200, 200]
        assert [probed(first, "readinessProbe"), probed(second, "readinessProbe")] == [200, 200]

        ok(first.api.http.get("/sessions", headers={"host": "hitl"}))
        problem(first.api.http.get("/sessions", headers={"host": "elsewhere"}), 403)
        session_id = first.api.create()
        interrupt = first.api.settled(session_id, "begin", 1)["interrupts"][0]["interrupt_id"]

        first.signal(signal.SIGTERM)
        assert first.wait(POD["terminationGracePeriodSeconds"]) == 0
        ok(second.api.resume(session_id, interrupt, "yes"))
        assert second.api.wait(session_id)["response"]["content"] == "said yes"

        assert ok(second.api.get("/health"))["policy"]["rules"] == 1
        rules = manifest("kubernetes/policy.yaml")["data"]["policy.toml"]
        more = rules + '[[rule]]\nname = "no-payments"\neffect = "deny"\ntool = "pay"\n'
        update(mount(cluster, "policy"), {"policy.toml": more}, 2)
        eventually(lambda: ok(second.api.get("/health"))["policy"]["rules"], 2)
