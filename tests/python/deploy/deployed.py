"""Servers as the files in `deploy/` start them, as ordinary processes on loopback.

What a manifest says is taken as it stands, but for where things are: paths, hosts and ports of its machines are
replaced by those of a test, in one place, `Site`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import kubernetes_validate
import yaml

from tests.python.cluster.proxy import Proxy
from tests.python.support import postgres
from tests.python.support.api import Json
from tests.python.support.ports import ReservedPort
from tests.python.support.served import ROOT, Served, clean_environment
from tests.python.support.waiting import eventually

DEPLOY = ROOT / "deploy"
KEY = "a key of the test's own"
PASSWORD = "right"
"""Of the one role of the tests' PostgreSQL that has to give any; the tests of the core make it too."""
LISTENS = "is served on"
WORKS = "probes and metrics on"
CONNECTIONS_OF_A_SERVER = 11
"""Eight for its work, one for keys and the policy, one for its beats and one by which it hears of others
(docs/many-servers.md)."""

_MAKE_ROLE = f"""
DO $$ BEGIN CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}';
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$
"""


def manifest(path: str) -> Any:
    """A YAML file of `deploy/`."""
    return yaml.safe_load((DEPLOY / path).read_text())


def seconds(text: str) -> float:
    """A span of Compose or systemd: `30s`, or `30`."""
    found = re.fullmatch(r"(\d+)s?", text)
    assert found is not None, text
    return float(found[1])


class Site:
    """Where on this machine is what a manifest speaks of, and a database to begin with."""

    def __init__(self, root: Path, database: str, port: int) -> None:
        self.database = database
        self._root, self._port = root, port
        self._reserved: list[ReservedPort] = []

    def place(self, path: str) -> Path:
        """A file or directory of the machine in the manifest."""
        return self._root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def passfile(self, line: str, store: str) -> str:
        """A line of a password file, which has to be for that store, for the one of the test."""
        host, port, database, user, _ = line.strip().split(":")
        address = urlsplit(store)
        assert (host, database, user) == (address.hostname, address.path[1:], address.username)
        assert port == str(address.port or 5432)
        return f"127.0.0.1:{self._port}:{urlsplit(self.database).path[1:]}:guarded:{PASSWORD}\n"

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables of a manifest."""
        taken = {name: self.moved(value) for name, value in given.items()}
        self._reserved.append(ReservedPort())
        taken["HITL_PORT"] = str(self._reserved[-1].number)
        if "HITL_STORE" in taken:
            address = urlsplit(taken["HITL_STORE"])
            here = f"guarded@127.0.0.1:{self._port}"
            taken["HITL_STORE"] = address._replace(netloc=here, path=urlsplit(self.database).path).geturl()
        # Where agents of a test's own are.
        paths = [str(self._root), *filter(None, [os.environ.get("PYTHONPATH")])]
        return taken | {"PYTHONPATH": os.pathsep.join(paths)}

    def close(self) -> None:
        """Its servers have ended."""
        for port in self._reserved:
            port.close()

    def moved(self, value: str) -> str:
        """A word in which a place of the machine may be named, with that of the test."""
        return re.sub(r"(?<![\w/.])/(?:run|etc|data|srv|var)/", f"{self._root}\\g<0>", value)


@contextmanager
def site(root: Path) -> Iterator[Site]:
    with postgres.database() as database, Proxy(postgres.socket_of(database)) as proxy:
        postgres.execute(database, _MAKE_ROLE)
        postgres.execute(database, f"GRANT CREATE ON DATABASE {urlsplit(database).path[1:]} TO guarded")
        with closing(Site(root, database, proxy.port)) as there:
            yield there


class Deployed(Served):
    """A server with the arguments (after `hitl`) and the variables of a manifest; nothing is waited for."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._arguments = list(arguments)
        super().__init__("-", environment=environment, stands_by=True, port=environment["HITL_PORT"], api_key=KEY)

    def command(self, agent: str, options: Mapping[str, Any]) -> list[str]:  # type: ignore[override]
        return [sys.executable, "-m", "hitl", *self._arguments]


def interpolated(value: str) -> str:
    """`${NAME:-default}`, for a shell that sets nothing."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)


def variables(service: Json) -> dict[str, str]:
    """Those of a service of Compose."""
    return {variable: interpolated(value) for variable, value in service["environment"].items()}


def run_once(service: Json, machine: Site) -> None:
    """A service of Compose that ends by itself, and well."""
    words = [machine.moved(word) for word in service["command"]]
    environment = clean_environment() | machine.environment(variables(service))
    command = [sys.executable, "-m", "hitl", *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr


def is_healthy(service: Json, server: Deployed) -> bool:
    """What its health check says."""
    kind, program, *arguments = service["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    environment = clean_environment() | {"HITL_PORT": server.url.rpartition(":")[2]}
    check = [sys.executable, "-S", *arguments]
    return subprocess.run(check, env=environment, stderr=subprocess.DEVNULL, check=False).returncode == 0


def answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", trust_env=False, verify=False).status_code == 200
    except httpx2.TransportError:
        return False


@contextmanager
def caddy(compose: Json, servers: Mapping[str, Deployed], directory: Path, root: Path = DEPLOY) -> Iterator[str]:
    """The real one, as the manifest in `root` starts it, in front of these servers, by their names: its address."""
    service = compose["services"]["caddy"]
    (config,) = service["configs"]
    command = [
        word.replace(config["target"], str(root / compose["configs"][config["source"]]["file"]))
        for word in service["command"]
    ]
    assert service["environment"]["SERVERS"].split() == [f"{name}:8000" for name in servers]
    environment = {
        "BIND": "127.0.0.1",
        "SERVERS": " ".join(server.url.removeprefix("http://") for server in servers.values()),
        "HOME": str(directory),
    }
    with (directory / "caddy.log").open("w") as log, ReservedPort() as port:
        environment["PORT"] = str(port.number)
        process = subprocess.Popen(
            [Path(sys.executable).parent / command[0], *command[1:]], env=environment, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port.number}"
            eventually(lambda: answers(url), True)
            yield url
        finally:
            process.terminate()
            assert process.wait(60) == 0, (directory / "caddy.log").read_text()


# -- Compose -----------------------------------------------------------------------------------------------------------


def assert_all_that_is_named_is_there(compose: Json, root: Path, secrets: str) -> None:
    """What the services of a file in `root` name. Secrets are made by whoever deploys it: they are below that path."""
    services: dict[str, Json] = compose["services"]
    for service in services.values():
        for kind in ("networks", "secrets", "configs"):
            named = [one["source"] if isinstance(one, dict) else one for one in service.get(kind, [])]
            assert set(named) <= compose[kind].keys()
        volumes = [volume.split(":")[0] for volume in service.get("volumes", [])]
        assert {volume for volume in volumes if not volume.startswith(".")} <= compose["volumes"].keys()
        assert set(service.get("depends_on", {})) <= services.keys()
        if "build" in service:
            context = (root / service["build"]["context"]).resolve()
            assert (context, (context / service["build"]["dockerfile"]).exists()) == (ROOT, True)
    for kind in ("configs", "secrets"):
        for one in compose[kind].values():
            assert (root / one["file"]).exists() or one["file"].startswith(secrets)


def assert_room_for_connections(compose: Json, connections: int) -> None:
    """That the database has it, besides the three which are kept for its superuser."""
    words = compose["services"]["postgres"]["command"]
    assert int(words[words.index("-c") + 1].removeprefix("max_connections=")) - 3 >= connections


def assert_time_to_end(service: Json) -> None:
    """That a server ends by itself before it is killed."""
    assert seconds(service["stop_grace_period"]) > float(service["environment"]["HITL_SHUTDOWN_TIMEOUT"])


def fill(machine: Site, compose: Json, root: Path, service: Json, store: str) -> None:
    """What the containers find: the policy of `service`, secrets for `store`, and a place for files."""
    (policy,) = service["configs"]
    machine.write(policy["target"], (root / compose["configs"][policy["source"]]["file"]).read_text())
    machine.write("/run/secrets/api_key", f"{KEY}\n")
    machine.write("/run/secrets/pgpass", machine.passfile("postgres:5432:hitl:hitl:x", store))
    machine.place("/data").mkdir()


# -- Kubernetes --------------------------------------------------------------------------------------------------------

VERSIONS = ["1.30", "1.37"]
SECRET: Json = manifest("kubernetes/secret.yaml.example")
AGENT = """
import hitl

async def agent(message, state):
    said = await hitl.interrupt({"type": "free", "question": "go on?"})
    return hitl.ChatMessage.assistant_message(content=f"said {said}"), state
"""
"""`my_agent.py`, which pods run."""


def validate(file: Path, version: str) -> None:
    """Against the schema of that version."""
    for document in yaml.safe_load_all(file.read_text()):
        kubernetes_validate.validate(document, version, strict=True)


def variables_of_container(container: Json, options: Json | None = None) -> dict[str, str]:
    """Those of a container, which may have them from a ConfigMap."""
    given: dict[str, str] = {}
    for source in container.get("envFrom", []):
        assert options is not None
        assert source["configMapRef"]["name"] == options["metadata"]["name"]
        given |= options["data"]
    for variable in container["env"]:
        if "value" in variable:
            given[variable["name"]] = variable["value"]
        else:
            named = variable["valueFrom"]["secretKeyRef"]
            assert named["name"] == SECRET["metadata"]["name"]
            given[variable["name"]] = SECRET["stringData"][named["key"]]
    return given


def secrets_of_pod(pod: Json, site: Site) -> dict[str, str]:
    """The files of the secret that a pod has mounted, as whoever deploys it would fill them."""
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes.keys() == {mount["name"] for mount in container["volumeMounts"]}
    secret = volumes["secrets"]["secret"]
    assert secret["secretName"] == SECRET["metadata"]["name"]
    filled = SECRET["stringData"] | {"api_key": KEY}
    filled["pgpass"] = site.passfile(filled["pgpass"], filled["store"])
    return {item["path"]: filled[item["key"]] for item in secret["items"]}


def place_of_mount(container: Json, name: str, site: Site) -> Path:
    (there,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == name]
    return site.place(there)


def probe(container: Json, name: str, server: Deployed, port: str) -> int | None:
    """What a probe gets of a container that listens at `port`: a status, or nothing."""
    asked = container[name]
    (named,) = [each for each in container["ports"] if each["name"] == asked["httpGet"]["port"]]
    assert str(named["containerPort"]) == port
    try:
        with httpx2.Client(timeout=asked["timeoutSeconds"], trust_env=False, verify=False) as client:
            # As a kubelet says it: the pod's address, by which no server knows itself.
            return client.get(server.url + asked["httpGet"]["path"], headers={"host": f"10.0.0.7:{port}"}).status_code
    except httpx2.TransportError:
        return None


def time_before_the_end(container: Json) -> float:
    """For how long a pod that is taken away still serves those who have not heard of it."""
    lifecycle = container.get("lifecycle")
    return 0.0 if lifecycle is None else float(lifecycle["preStop"]["sleep"]["seconds"])


def assert_time_to_start(container: Json) -> None:
    """That nobody kills a server that imports for two minutes."""
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > 120
