"""`hitl serve`: serve an agent over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hitl.cli import exit_codes
from hitl.cli.output import Failure, usage_error
from hitl.serving.options import (
    TURNS_A_PROCESSOR,
    InvalidOption,
    Isolation,
    LogFormat,
    LogLevel,
    ServeOptions,
    read_secret_file,
)


def option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that is also the variable HITL_<NAME>."""
    variable = "HITL_" + names[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(*names, envvar=variable, help=help, rich_help_panel=panel, **more)


DEFAULTS = ServeOptions(agent="module:attribute")
"""Where the defaults stand."""

LIMITS, SECURITY, LIFETIMES, LOGS = "Limits", "Security", "Lifetimes, in seconds", "Logs and development"
WEBHOOKS = "Webhooks"


def serve(
    context: typer.Context,
    agent: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:ATTR",
            envvar="HITL_AGENT",
            help="The agent: app:agent is agent of app.py.",
            show_default=False,
        ),
    ],
    host: Annotated[str, option("--host", help="Address to listen on.")] = DEFAULTS.host,
    port: Annotated[int, option("--port", help="Port; 0 takes a free one.")] = DEFAULTS.port,
    store: Annotated[
        str, option("--store", help="sqlite:PATH, postgresql://USER@HOST/DATABASE, or memory.")
    ] = DEFAULTS.store,
    policy: Annotated[
        str | None, option("--policy", help="TOML file of rules for tool calls; read again when it changes.")
    ] = DEFAULTS.policy,
    isolation: Annotated[
        Isolation, option("--isolation", help="A process for each turn, or asyncio tasks in a few workers.")
    ] = DEFAULTS.isolation,
    allow_custom_ids: Annotated[
        bool, option("--allow-custom-ids", help="Let clients choose session ids (PUT /sessions/ID).")
    ] = DEFAULTS.allow_custom_ids,
    workers: Annotated[
        int | None,
        option(
            "--workers",
            help="Turns at work at once; one that waits for a person is not.",
            panel=LIMITS,
            show_default=", ".join(f"{turns} a processor as {kind}" for kind, turns in TURNS_A_PROCESSOR.items()),
        ),
    ] = None,
    no_workers: Annotated[
        bool, option("--no-workers", help="Run no turns; servers with workers on the same database do.", panel=LIMITS)
    ] = DEFAULTS.no_workers,
    queue: Annotated[int, option("--queue", help="Turns that may wait for a worker.", panel=LIMITS)] = DEFAULTS.queue,
    max_sessions: Annotated[
        int, option("--max-sessions", help="Sessions in all; 0 is no limit.", panel=LIMITS)
    ] = DEFAULTS.max_sessions,
    max_payload: Annotated[
        int, option("--max-payload", help="Bytes of an interrupt's payload.", panel=LIMITS)
    ] = DEFAULTS.max_payload,
    max_value: Annotated[int, option("--max-value", help="Bytes of an answer.", panel=LIMITS)] = DEFAULTS.max_value,
    max_body: Annotated[int, option("--max-body", help="Bytes of a request's body.", panel=LIMITS)] = DEFAULTS.max_body,
    max_connections: Annotated[
        int,
        option(
            "--max-connections",
            help="Connections at once; 0 is what the limit of open files allows, 4096 at most.",
            panel=LIMITS,
        ),
    ] = DEFAULTS.max_connections,
    max_connections_per_address: Annotated[
        int,
        option("--max-connections-per-address", help="How many of them one address may have; 0 is half.", panel=LIMITS),
    ] = DEFAULTS.max_connections_per_address,
    max_requests_per_key: Annotated[
        int,
        option("--max-requests-per-key", help="Requests of a key at once; 0 is half of all connections.", panel=LIMITS),
    ] = DEFAULTS.max_requests_per_key,
    max_warm: Annotated[
        int, option("--max-warm", help="Waiting turns that stay in memory; the others are parked.", panel=LIMITS)
    ] = DEFAULTS.max_warm,
    max_recoveries: Annotated[
        int,
        option(
            "--max-recoveries",
            help="How often a turn survives the death of its worker, alone or with its server.",
            panel=LIMITS,
        ),
    ] = DEFAULTS.max_recoveries,
    ttl: Annotated[
        float, option("--ttl", help="Remove an idle or failed session after this long; 0 is never.", panel=LIFETIMES)
    ] = DEFAULTS.ttl,
    suspended_ttl: Annotated[
        float,
        option("--suspended-ttl", help="A suspended turn can be retried this long; 0 is for ever.", panel=LIFETIMES),
    ] = DEFAULTS.suspended_ttl,
    timeout: Annotated[
        float,
        option(
            "--timeout", help="How long a turn may work, people's time not counted; 0 is no limit.", panel=LIFETIMES
        ),
    ] = DEFAULTS.timeout,
    interrupt_ttl: Annotated[
        float, option("--interrupt-ttl", help="An unanswered interrupt expires; 0 is never.", panel=LIFETIMES)
    ] = DEFAULTS.interrupt_ttl,
    park_after: Annotated[
        float,
        option("--park-after", help="A waiting turn leaves memory; 0 is at once, by a replay each.", panel=LIFETIMES),
    ] = DEFAULTS.park_after,
    hold: Annotated[
        float,
        option("--hold", help="Raw I/O keeps a turn with an open question in memory; 0 is no limit.", panel=LIFETIMES),
    ] = DEFAULTS.hold,
    start_timeout: Annotated[
        float,
        option("--start-timeout", help="Importing the agent may take this long; 0 is no limit.", panel=LIFETIMES),
    ] = DEFAULTS.start_timeout,
    worker_timeout: Annotated[
        float, option("--worker-timeout", help="A worker that is silent this long is killed.", panel=LIFETIMES)
    ] = DEFAULTS.worker_timeout,
    keep_journal: Annotated[
        float,
        option(
            "--keep-journal", help="Journals of ended turns are kept; 0 is as long as the session.", panel=LIFETIMES
        ),
    ] = DEFAULTS.keep_journal,
    shutdown_timeout: Annotated[
        float, option("--shutdown-timeout", help="What turns at work get to finish at the end.", panel=LIFETIMES)
    ] = DEFAULTS.shutdown_timeout,
    api_key: Annotated[
        str | None,
        option("--api-key", help="Ask every request for this key. Better in the environment.", panel=SECURITY),
    ] = DEFAULTS.api_key,
    api_key_file: Annotated[
        Path | None, option("--api-key-file", help="A file that holds the key.", panel=SECURITY)
    ] = None,
    insecure: Annotated[
        bool, option("--insecure", help="Allow an address or a name others can reach without a key.", panel=SECURITY)
    ] = DEFAULTS.insecure,
    allowed_host: Annotated[
        list[str] | None,
        option("--allowed-host", help="A name by which requests may call the server; repeat it.", panel=SECURITY),
    ] = None,
    no_ui: Annotated[bool, option("--no-ui", help="Serve no web inbox at /.", panel=SECURITY)] = False,
    prevent_self_approval: Annotated[
        bool,
        option("--prevent-self-approval", help="Whoever sent a message cannot approve its tools.", panel=SECURITY),
    ] = DEFAULTS.prevent_self_approval,
    rate_limit: Annotated[
        float, option("--rate-limit", help="Requests a second, of a key or an address; 0 is no limit.", panel=SECURITY)
    ] = DEFAULTS.rate_limit,
    webhook_secret: Annotated[
        str | None, option("--webhook-secret", help="Signs webhooks (Standard Webhooks).", panel=WEBHOOKS)
    ] = DEFAULTS.webhook_secret,
    webhook_allow_private: Annotated[
        bool, option("--webhook-allow-private", help="Allow webhooks to private addresses.", panel=WEBHOOKS)
    ] = DEFAULTS.webhook_allow_private,
    webhook: Annotated[
        list[str] | None,
        option("--webhook", help="URL[,event...] told of every session; repeat it.", panel=WEBHOOKS),
    ] = None,
    webhook_retries: Annotated[
        int, option("--webhook-retries", help="How often a webhook is tried again.", panel=WEBHOOKS)
    ] = DEFAULTS.webhook_retries,
    remind_after: Annotated[
        float,
        option(
            "--remind-after",
            help="Seconds; tell webhooks again of what still waits, doubled each time; 0 is never.",
            panel=WEBHOOKS,
        ),
    ] = DEFAULTS.remind_after,
    allow_import: Annotated[
        bool, option("--allow-import", help="Take in runs from elsewhere (POST /sessions, run_state).", panel=SECURITY)
    ] = DEFAULTS.allow_import,
    state_key: Annotated[
        Path | None,
        option("--state-key", help="A file with the key that signs run states, and verifies them.", panel=SECURITY),
    ] = None,
    log_level: Annotated[LogLevel, option("--log-level", help="What is logged.", panel=LOGS)] = DEFAULTS.log_level,
    log_format: Annotated[
        LogFormat, option("--log-format", help="auto is human on a terminal, else json.", panel=LOGS)
    ] = DEFAULTS.log_format,
    otel: Annotated[
        bool, option("--otel", help="Trace turns by OpenTelemetry, as OTEL_... says.", panel=LOGS)
    ] = DEFAULTS.otel,
    reload: Annotated[bool, option("--reload", help="Start again when a .py file here changes.", panel=LOGS)] = False,
) -> None:
    """Serve an agent over HTTP until Ctrl-C. Every option is also a variable: --store is HITL_STORE."""
    given = dict(locals())
    del given["context"], given["reload"]
    key_source = context.get_parameter_source("api_key")
    # By its name, as in `connection`.
    is_of_variable = key_source is not None and key_source.name == "ENVIRONMENT"
    options = options_of(ServeOptions, given, "HITL_API_KEY" if is_of_variable else "--api-key")
    raise typer.Exit(_serve_reloading() if reload and not _is_reloaded_child() else _serve(options))


def options_of(kind: type[ServeOptions], given: dict[str, Any], key_is_of: str = "--api-key") -> ServeOptions:
    """The options that a command line gives, by the names of its parameters; `Failure` where they cannot be.

    key_is_of: the option or variable that `api_key` comes from.
    """
    for name, of_server in (("allowed_host", "allowed_hosts"), ("webhook", "webhooks")):
        given[of_server] = tuple(given.pop(name) or ())
    try:
        if (file := given.pop("api_key_file")) is not None:
            if given["api_key"] is not None:
                unset = ": unset HITL_API_KEY, which is also that of clients" if key_is_of == "HITL_API_KEY" else ""
                usage_error(f"{key_is_of} and --api-key-file are both given", f"give one of them{unset}")
            given["api_key"] = read_secret_file("--api-key-file", file)
        if "no_ui" in given:
            given["ui"] = not given.pop("no_ui")
        if given.get("state_key") is not None:
            given["state_key"] = read_secret_file("--state-key", given["state_key"])
        return kind(**given)
    except InvalidOption as error:
        raise Failure(str(error), error.hint, exit_codes.USAGE) from error


def _serve(options: ServeOptions) -> int:
    from hitl.serving.server import serve as serve_until_stopped

    return serve_until_stopped(options)


def _serve_reloading() -> int:
    from hitl.cli.reload import run_reloading

    return run_reloading(Path.cwd())


def _is_reloaded_child() -> bool:
    from hitl.cli.reload import CHILD_MARK

    return os.environ.pop(CHILD_MARK, None) is not None


def add_to(app: typer.Typer) -> None:
    app.command("serve")(serve)
