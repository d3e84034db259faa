"""What `hitl serve` and `Server` can be told, checked before anything is opened or created."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import resource
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, TypedDict, get_type_hints

from hitl.errors import HitlError
from hitl.serving.webhook_options import signs_webhooks, wrong_url

Isolation = Literal["process", "task"]
LogFormat = Literal["auto", "human", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

DEFAULT_STORE = "sqlite:.hitl/hitl.db"
LONGEST_DURATION = 100 * 365 * 86_400.0
"""Seconds. More is a mistake, and would overflow a deadline."""

SHORTEST_WORKER_TIMEOUT = 1.0
"""Seconds. A sound worker may well need a part of one to say that it is there."""

SHORTEST_KEY = 16
"""Characters. Who may show twenty wrong ones a minute tries all shorter ones that people choose."""

_ALLOWED_HOST = re.compile(
    r"(?P<host>[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(:\d{1,5})?", re.ASCII | re.IGNORECASE
)
"""As a request says it in `Host`."""

_AGENT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class InvalidOption(HitlError, ValueError):
    """An option that cannot be served with.

    option: its name as a flag, for example `--workers`.
    hint: what to write instead.
    """

    code = "invalid_option"

    def __init__(self, option: str, message: str, hint: str) -> None:
        super().__init__(option, message, hint)
        self.option = option
        self.message = message
        self.hint = hint
        self._say_hint(hint)

    def __str__(self) -> str:
        return f"{self.option}: {self.message}"


TURNS_A_PROCESSOR: dict[Isolation, int] = {"process": 8, "task": 64}

_FILES_OF_A_TURN = 8
"""Of a turn in a process of its own, and of the process that waits for the next one."""
_FILES_OF_OTHERS = 1024
"""What connections, the store and turns that wait are left with at least, before a default takes more of them."""


def default_workers(isolation: Isolation) -> int:
    """How many turns are at work at once where nobody says. A turn awaits its model for most of its time, and takes no
    processor for that: so there are several for each that this process may use, two of which are assumed at least.
    Turns in processes of their own take files that this process has open: where it may have few, no more than those are
    for, and one a processor at least."""
    affinity = getattr(os, "sched_getaffinity", None)
    processors = max(2, len(affinity(0)) if affinity is not None else os.cpu_count() or 2)
    turns = TURNS_A_PROCESSOR[isolation] * processors
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if isolation == "task" or files == resource.RLIM_INFINITY:
        return turns
    return max(processors, min(turns, (files - _FILES_OF_OTHERS) // _FILES_OF_A_TURN))


class ServerOptions(TypedDict, total=False):
    """What `Server` and `serve` take as keywords: the fields of `ServeOptions`, which explains them."""

    host: str
    port: int
    store: str
    policy: str | None
    workers: int | None
    no_workers: bool
    queue: int
    isolation: Isolation
    api_key: str | None
    insecure: bool
    prevent_self_approval: bool
    rate_limit: float
    allowed_hosts: Sequence[str]
    ui: bool
    allow_custom_ids: bool
    max_sessions: int
    ttl: float
    suspended_ttl: float
    timeout: float
    interrupt_ttl: float
    park_after: float
    hold: float
    max_warm: int
    start_timeout: float
    worker_timeout: float
    max_recoveries: int
    keep_journal: float
    max_payload: int
    max_value: int
    max_body: int
    max_connections: int
    max_connections_per_address: int
    max_requests_per_key: int
    shutdown_timeout: float
    log_level: LogLevel
    log_format: LogFormat
    otel: bool
    webhook_secret: str | None
    webhook_allow_private: bool
    webhooks: Sequence[str]
    webhook_retries: int
    remind_after: float
    allow_import: bool
    state_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of a server. Durations are in seconds, sizes in bytes; 0 is no limit where the text says so.

    Creating one raises `InvalidOption`.
    """

    takes_requests: ClassVar[bool] = True
    agent: object
    """`MODULE:ATTR`, imported by the workers; or a live object, which is served in this process."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    store: str = DEFAULT_STORE
    """`sqlite:PATH`, a bare path (the same), `postgresql://USER@HOST/DATABASE`, or `memory`."""
    policy: str | None = None
    """A TOML file of rules that allow, ask or deny tool calls (docs/policy.md); it is read again when it changes."""
    workers: int | None = None
    """How many turns are at work at once. A turn that waits for a person is not at work. None is `default_workers`."""
    queue: int = 1000
    """How many turns may wait for a worker, and not for a person or in `asyncio.sleep`; one more is a 503."""
    no_workers: bool = False
    """Run no turns here: servers with workers on the same database run those that come in by this one.
    `workers` does not count then."""
    isolation: Isolation = "process"
    """A process for each turn, or turns as asyncio tasks in a few workers."""
    api_key: str | None = None
    """What every request has to show, 16 characters at least; keys of the store besides."""
    insecure: bool = False
    """Allow an address, or a name, that others can reach without an API key."""
    prevent_self_approval: bool = False
    """Whoever sent a message cannot let its tools run; needs keys."""
    rate_limit: float = 0.0
    """Requests a second of one key, or of one address where there is no key; 0 is no limit."""
    allowed_hosts: Sequence[str] = ()
    """Names (`name` or `name:port`) by which requests may call the server, besides its address and loopback."""
    ui: bool = True
    """Serve the web inbox at `/`."""
    allow_custom_ids: bool = False
    max_sessions: int = 0
    """0 is no limit."""
    ttl: float = 0.0
    """After how long an idle or failed session is removed; 0 is never."""
    suspended_ttl: float = 0.0
    """How long a suspended turn can be retried; after that its session is an error like any other. 0 is for ever."""
    timeout: float = 0.0
    """How long a turn may work; neither a person's time nor `asyncio.sleep` between steps is counted. 0 is no limit."""
    interrupt_ttl: float = 0.0
    """How long an interrupt waits for its answer before it expires; 0 is for ever."""
    park_after: float = 60.0
    """After how long a turn that waits for people or timers is dropped from memory; it goes on by a replay. 0 is at
    once, so that every answer goes through a replay."""
    hold: float = 60.0
    """How long raw I/O between its steps may keep a turn with an open question in memory; after it the turn waits like
    any other. 0 is for as long as that takes. Steps, threads and executors at work are never cut short."""
    max_warm: int = 64
    """How many waiting turns stay in memory; those that have waited longest are dropped first."""
    start_timeout: float = 120.0
    """How long a process may take to import the agent; 0 is no limit."""
    worker_timeout: float = 30.0
    """How long a worker may be silent before it is killed and its turns are taken over."""
    max_recoveries: int = 3
    """How often a turn is taken over whose worker dies under it, before it is an error."""
    keep_journal: float = 7 * 86_400.0
    """How long the journal of a turn that has ended is kept; 0 is as long as its session."""
    max_payload: int = 16_384
    """Largest interrupt payload, as compact UTF-8 JSON."""
    max_value: int = 1_048_576
    """Largest answer, as JSON."""
    max_body: int = 1_048_576
    """Largest request body."""
    max_connections: int = 0
    """Connections at once; 0 is as many as there are file descriptors for, 4096 at most. Beyond them only probes are
    answered."""
    max_connections_per_address: int = 0
    """How many of them one address may have; 0 is half. Behind a proxy all clients have its address."""
    max_requests_per_key: int = 0
    """How many requests of one key, or of one address where there is no key, are at work at once; 0 is half of
    `max_connections`. Three quarters of them may be long polls and event streams."""
    shutdown_timeout: float = 10.0
    """How long turns at work get to finish when the server is told to stop."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"
    """`auto`: for people on a terminal, JSON lines otherwise."""
    otel: bool = False
    """Trace turns by OpenTelemetry, as the environment (`OTEL_...`) says (docs/tracing.md). Needs the extra `otel`."""
    webhook_secret: str | None = None
    """Signs webhooks (Standard Webhooks)."""
    webhook_allow_private: bool = False
    """Allow webhooks to private and loopback addresses."""
    webhooks: Sequence[str] = ()
    """The server's own, each `URL[,event...]`: told of every session (docs/webhooks.md)."""
    webhook_retries: int = 9
    """How often a webhook is tried again before it is given up; 9 take about ten minutes."""
    remind_after: float = 0.0
    """Tell webhooks again of what still waits, after this long, then after twice as long each time; 0 is never."""
    allow_import: bool = False
    """Take in runs from elsewhere: `POST /sessions` with `run_state`."""
    state_key: str | None = None
    """Signs run states, and tells which of those that come in may be believed; the key itself, 16 characters at
    least."""

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_agent()
        self._check_allowed_hosts()
        self._check_address()
        self._check_store()
        self._check_numbers()
        self._check_otel()
        for option, value, known in (
            ("--isolation", self.isolation, ("process", "task")),
            ("--log-level", self.log_level, ("debug", "info", "warning", "error")),
            ("--log-format", self.log_format, ("auto", "human", "json")),
        ):
            if value not in known:
                raise InvalidOption(option, f"{value!r} is unknown", f"one of {', '.join(known)}")
        self._check_secrets()
        if self.workers is None:
            # A live agent's turns are tasks of this process.
            isolation = self.isolation if isinstance(self.agent, str) else "task"
            object.__setattr__(self, "workers", default_workers(isolation))
        for webhook in self.webhooks:
            if (wrong := wrong_url(webhook)) is not None:
                raise InvalidOption("--webhook", wrong, "for example https://example.com/hook,idle")

    def _check_kinds(self) -> None:
        """Every value is of the kind that its annotation says; a whole number of seconds is a duration too."""
        for name, annotation in get_type_hints(type(self)).items():
            if annotation not in _KINDS:
                continue  # anything at all, or one of a few words, which are checked by themselves
            kinds, said = _KINDS[annotation]
            value: Any = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                shown = "" if name in _MAY_BE_SECRET else f"{value!r} "
                raise InvalidOption(_flag(name), f"{shown}is of type {type(value).__name__}", f"give {said}")
            if annotation is float:
                try:
                    object.__setattr__(self, name, float(getattr(self, name)))
                except OverflowError:
                    object.__setattr__(self, name, math.inf)
        for name in ("allowed_hosts", "webhooks"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise InvalidOption(_flag(name), f"{value!r} is not a list of strings", f"for example [{str(value)!r}]")

    def _check_secrets(self) -> None:
        secrets = {"--api-key": self.api_key, "--webhook-secret": self.webhook_secret, "--state-key": self.state_key}
        for option, secret in secrets.items():
            if secret is None:
                continue
            if not (secret.isascii() and secret.isprintable() and secret.strip()):
                made = (
                    "echo whsec_$(openssl rand -base64 32)" if option == "--webhook-secret" else "openssl rand -hex 32"
                )
                raise InvalidOption(option, "must be printable ASCII and not empty", f"for example: {made}")
            if os.path.isfile(secret):  # noqa: PTH113 - Path.is_file raises for what is too long for a name
                parameter = option.removeprefix("--").replace("-", "_")
                hint = f"give its text: {parameter}=Path(...).read_text().strip()"
                file = ", or --api-key-file" if option == "--api-key" else ""
                raise InvalidOption(option, "is the name of a file, not what is in it", hint + file)
            if option == "--webhook-secret" and not signs_webhooks(secret):
                raise InvalidOption(
                    option,
                    "must be `whsec_` followed by base64 of 24 to 64 bytes",
                    "for example: echo whsec_$(openssl rand -base64 32)",
                )
            if option != "--webhook-secret" and len(secret) < SHORTEST_KEY:
                raise InvalidOption(
                    option,
                    f"{len(secret)} characters can be guessed; {SHORTEST_KEY} at least",
                    "for example: openssl rand -hex 32",
                )
        if self.api_key is not None and self.api_key != self.api_key.strip():
            raise InvalidOption("--api-key", "has a space at an end, which no request can bring", "leave it out")

    def _check_otel(self) -> None:
        # Looked for, and not imported: the workers do.
        if self.otel and (find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None):
            raise InvalidOption(
                "--otel", "OpenTelemetry's SDK is not installed", "pip install 'hitl-runtime[otel]' installs it"
            )

    def _check_agent(self) -> None:
        if isinstance(self.agent, str) and not _AGENT.fullmatch(self.agent):
            raise InvalidOption("MODULE:ATTR", f"{self.agent!r} does not name an agent", _agent_hint(self.agent))

    def _check_allowed_hosts(self) -> None:
        """No request says what is no host, so each would be refused."""
        for allowed in self.allowed_hosts:
            said = _ALLOWED_HOST.fullmatch(allowed)
            if said is None or _is_no_address(said["host"]):
                raise InvalidOption(
                    "--allowed-host",
                    f"{allowed!r} is no host",
                    "a name such as agents.example.com, with :PORT or without: no https:// and no *, other letters in "
                    "punycode (xn--...), an IPv6 address in []",
                )

    def _check_address(self) -> None:
        if not self.host.strip():
            raise InvalidOption("--host", "is empty", "leave it out to listen on 127.0.0.1")
        if _is_no_address(self.host):
            raise InvalidOption(
                "--host",
                f"{self.host} is no address",
                "one of this machine, such as 127.0.0.1, or 0.0.0.0 for all it has",
            )
        if not 0 <= self.port <= 65_535:
            raise InvalidOption("--port", f"{self.port} is no port", "0 takes a free one, the highest is 65535")
        if not self.takes_requests:
            return  # nobody can answer for you there
        # A store that exists may hold keys; the server looks when it has opened it. One that cannot be looked at, as in
        # a directory of somebody else, is its to refuse.
        may_have_keys = _is_elsewhere(self.store) or (
            self.store != "memory" and os.path.exists(self.store.removeprefix("sqlite:"))  # noqa: PTH110 - Path.exists raises
        )
        if self.api_key is not None or self.insecure or may_have_keys:
            return
        hint = (
            "make a key with `hitl keys create`, add --api-key (or --api-key-file), or --insecure if the network "
            "itself is guarded"
        )
        if not is_loopback(self.host):
            raise InvalidOption(
                "--host",
                f"{self.host} can be reached from other machines, and anybody there could answer for you",
                hint,
            )
        for allowed in self.allowed_hosts:
            # A proxy leads to loopback whoever reaches the name.
            if not _is_loopback_name(allowed):
                raise InvalidOption(
                    "--allowed-host",
                    f"{allowed} is a name for other machines, and anybody who reaches it could answer for you",
                    hint,
                )

    def _check_store(self) -> None:
        scheme, colon, rest = self.store.partition(":")
        if not self.takes_requests and not _is_elsewhere(self.store):
            raise InvalidOption(
                "--store",
                "no other server can take requests for this store, which one server has for itself",
                "name a database that servers share: --store postgresql://USER@HOST/DATABASE",
            )
        if self.store == "memory" or (scheme == "sqlite" and rest.strip()) or _is_elsewhere(self.store):
            return
        if self.store.lower() == "memory":
            raise InvalidOption("--store", f"{self.store} would be a file", "write memory, or ./Memory for that file")
        if not self.store.strip() or scheme == "sqlite":
            raise InvalidOption("--store", "names no file", f"for example {DEFAULT_STORE}, or memory")
        if colon and rest.startswith("//"):
            raise InvalidOption(
                "--store",
                f"this version has no {scheme} store",
                f"for example {DEFAULT_STORE}, postgresql://USER@HOST/DATABASE, or memory",
            )

    def _check_no_workers(self) -> None:
        if not _is_elsewhere(self.store):
            raise InvalidOption(
                "--no-workers",
                "no other server can run the turns of this store, which one server has for itself",
                "name a database that servers share: --store postgresql://USER@HOST/DATABASE",
            )
        if not isinstance(self.agent, str):
            raise InvalidOption(
                "--no-workers",
                "a live agent runs its turns in this process",
                "name it as MODULE:ATTR, as the servers with workers do",
            )

    def _check_numbers(self) -> None:
        if self.no_workers:
            self._check_no_workers()
        if self.workers is not None and self.workers < 1:
            raise InvalidOption("--workers", f"{self.workers} workers run no turn", "at least 1")
        smallest = {
            "queue": 0,
            "max_sessions": 0,
            "max_payload": 2,
            "max_value": 4,
            "max_body": 2,
            "max_connections": 0,
            "max_connections_per_address": 0,
            "max_requests_per_key": 0,
            "max_warm": 0,
            "max_recoveries": 0,
            "webhook_retries": 0,
        }
        for name, least in smallest.items():
            value = getattr(self, name)
            if value < least:
                raise InvalidOption(_flag(name), f"{value} is too small", f"at least {least}")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (math.isfinite(value) and 0 <= value <= LONGEST_DURATION):
                raise InvalidOption(_flag(field.name), f"{value} is no duration", "seconds, 0 or more")
        if self.worker_timeout < SHORTEST_WORKER_TIMEOUT:
            raise InvalidOption(
                "--worker-timeout",
                f"{self.worker_timeout} is too short for a busy machine",
                f"at least {SHORTEST_WORKER_TIMEOUT:g} seconds",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions(ServeOptions):
    """Options of a server that runs turns and takes no requests (`hitl work`)."""

    takes_requests: ClassVar[bool] = False


_MAY_BE_SECRET = ("api_key", "state_key", "webhook_secret", "store")
"""What no error repeats, be it as wrong as it may; a store's address may hold a password."""

_KINDS: dict[object, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((int,), "a whole number"),
    int | None: ((int, NoneType), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a string"),
    str | None: ((str, NoneType), "a string"),
}
"""What a value may be where an option has that annotation, and in words."""


_OF_THE_COMMAND_LINE = {
    "no_ui": "ui=False",
    "api_key_file": "api_key, which is the key itself",
    "webhook": "webhooks, a list",
    "allowed_host": "allowed_hosts, a list",
}
"""Options of `hitl serve` that are named otherwise here, and how."""


_OF_PROCESSES = ("isolation", "start_timeout", "worker_timeout")
"""Options that say nothing of a live agent, whose turns are tasks of this process."""


def options_of(taker: str, agent: Any, given: Mapping[str, Any]) -> ServeOptions:
    """The options that `taker` was given as keywords; `TypeError` names one that there is not, and what is like it."""
    known = [field.name for field in fields(ServeOptions) if field.name != "agent"]
    for name in given:
        if name not in known:
            # Late: only for whoever is mistaken.
            from difflib import get_close_matches

            near = _OF_THE_COMMAND_LINE.get(name) or " or ".join(get_close_matches(name, known))
            raise TypeError(f"{taker} has no option {name!r}" + (f"\n\nhint: did you mean {near}?" if near else ""))
    for name in () if isinstance(agent, str) else _OF_PROCESSES:
        if name in given and (name, given[name]) != ("isolation", "task"):
            raise InvalidOption(
                _flag(name),
                "is for processes that import the agent, and a live agent runs its turns in this one",
                "leave it out, or name the agent as MODULE:ATTR",
            )
    return ServeOptions(agent=agent, **given)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. A name other than localhost counts as reachable by others."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_loopback_name(allowed: str) -> bool:
    """Whether an `--allowed-host` is a name of this machine for itself, as browsers understand it."""
    said = _ALLOWED_HOST.fullmatch(allowed)
    host = said["host"].rstrip(".") if said else allowed
    return is_loopback(host) or host.lower().endswith(".localhost")


def _is_no_address(host: str) -> bool:
    """Whether `host` looks like an address and is none. As in a URL: no name ends in a number."""
    try:
        if ":" in host:
            ipaddress.ip_address(host.strip("[]"))
        elif host.rpartition(".")[2].isdecimal():
            socket.inet_aton(host)
    except (ValueError, OSError):
        return True
    return False


def read_secret_file(option: str, path: Path) -> str:
    """The secret in a file, without surrounding white space; `InvalidOption` when there is none. It does not name the
    file: many a one gives the secret itself in its place."""
    hint = "it names a file of text that holds the key alone"
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidOption(option, error.strerror or "cannot be read", hint) from None
    except UnicodeDecodeError:
        raise InvalidOption(option, "the file is no text", hint) from None
    if not secret:
        raise InvalidOption(option, "the file is empty", hint)
    return secret


def _is_elsewhere(store: str) -> bool:
    """Whether it is the address of a database. The core reads it: it may hold a password, which is repeated nowhere."""
    return store.startswith(("postgresql://", "postgres://"))


def _agent_hint(agent: str) -> str:
    module = agent.partition(":")[0].removesuffix(".py").strip("./").replace("/", ".") or "my_module"
    attribute = agent.partition(":")[2] if agent.partition(":")[2].isidentifier() else "agent"
    return f"a module and a name in it, for example {module}:{attribute}"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
