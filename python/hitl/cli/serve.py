"""`hitl serve`: serve an agent over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hitl.cli import exit_codes
from hitl.cli.output import Failure, usage_error
from hitl.serving.options import (
    DEFAULT_STORE,
    InvalidOption,
    Isolation,
    LogFormat,
    LogLevel,
    ServeOptions,
    default_workers,
    read_secret_file,
)


def _option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that is also the variable HITL_<NAME>."""
    variable = "HITL_" + names[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(*names, envvar=variable, help=help, rich_help_panel=panel, **more)


LIMITS, SECURITY, LIFETIMES, LOGS = "Limits", "Security", "Lifetimes, in seconds", "Logs and development"
WEBHOOKS = "Webhooks"


def serve(
    agent: Annotated[
        str, typer.Argument(metavar="MODULE:ATTR", envvar="HITL_AGENT", help="The agent.", show_default=False)
    ],
    host: Annotated[str, _option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _option("--port", help="Port; 0 takes a free one.")] = 8000,
    store: Annotated[str, _option("--store", help="sqlite:PATH, or memory.")] = DEFAULT_STORE,
    policy: Annotated[
        str | None, _option("--policy", help="TOML file of rules for tool calls; read again when it changes.")
    ] = None,
    isolation: Annotated[
        Isolation, _option("--isolation", help="A process for each turn, or asyncio tasks in a few workers.")
    ] = "process",
    allow_custom_ids: Annotated[
        bool, _option("--allow-custom-ids", help="Let clients choose session ids (PUT /sessions/ID).")
    ] = False,
    workers: Annotated[
        int, _option("--workers", help="Turns at work at once; one that waits for a person is not.", panel=LIMITS)
    ] = default_workers(),
    queue: Annotated[int, _option("--queue", help="Turns that may wait for a worker.", panel=LIMITS)] = 1000,
    max_sessions: Annotated[int, _option("--max-sessions", help="Sessions in all; 0 is no limit.", panel=LIMITS)] = 0,
    max_payload: Annotated[
        int, _option("--max-payload", help="Bytes of an interrupt's payload.", panel=LIMITS)
    ] = 16_384,
    max_value: Annotated[int, _option("--max-value", help="Bytes of an answer.", panel=LIMITS)] = 1_048_576,
    max_body: Annotated[int, _option("--max-body", help="Bytes of a request's body.", panel=LIMITS)] = 1_048_576,
    max_connections: Annotated[
        int,
        _option(
            "--max-connections",
            help="Connections at once; 0 is what the limit of open files allows, 4096 at most.",
            panel=LIMITS,
        ),
    ] = 0,
    max_connections_per_address: Annotated[
        int,
        _option(
            "--max-connections-per-address", help="How many of them one address may have; 0 is half.", panel=LIMITS
        ),
    ] = 0,
    max_requests_per_key: Annotated[
        int,
        _option(
            "--max-requests-per-key", help="Requests of a key at once; 0 is half of all connections.", panel=LIMITS
        ),
    ] = 0,
    max_warm: Annotated[
        int, _option("--max-warm", help="Waiting turns that stay in memory; the others are parked.", panel=LIMITS)
    ] = 64,
    max_recoveries: Annotated[
        int,
        _option("--max-recoveries", help="How often a turn survives the death of its worker.", panel=LIMITS),
    ] = 3,
    ttl: Annotated[
        float, _option("--ttl", help="Remove an idle or failed session after this long; 0 is never.", panel=LIFETIMES)
    ] = 0.0,
    suspended_ttl: Annotated[
        float,
        _option("--suspended-ttl", help="A suspended turn can be retried this long; 0 is for ever.", panel=LIFETIMES),
    ] = 0.0,
    timeout: Annotated[
        float,
        _option(
            "--timeout", help="How long a turn may work, people's time not counted; 0 is no limit.", panel=LIFETIMES
        ),
    ] = 0.0,
    interrupt_ttl: Annotated[
        float, _option("--interrupt-ttl", help="An unanswered interrupt expires; 0 is never.", panel=LIFETIMES)
    ] = 0.0,
    park_after: Annotated[
        float,
        _option("--park-after", help="A waiting turn leaves memory; 0 is at once, by a replay each.", panel=LIFETIMES),
    ] = 60.0,
    hold: Annotated[
        float,
        _option("--hold", help="Raw I/O keeps a turn with an open question in memory; 0 is no limit.", panel=LIFETIMES),
    ] = 60.0,
    start_timeout: Annotated[
        float,
        _option("--start-timeout", help="Importing the agent may take this long; 0 is no limit.", panel=LIFETIMES),
    ] = 120.0,
    worker_timeout: Annotated[
        float, _option("--worker-timeout", help="A worker that is silent this long is killed.", panel=LIFETIMES)
    ] = 30.0,
    keep_journal: Annotated[
        float,
        _option(
            "--keep-journal", help="Journals of ended turns are kept; 0 is as long as the session.", panel=LIFETIMES
        ),
    ] = 7 * 86_400.0,
    shutdown_timeout: Annotated[
        float, _option("--shutdown-timeout", help="What turns at work get to finish at the end.", panel=LIFETIMES)
    ] = 10.0,
    api_key: Annotated[
        str | None,
        _option("--api-key", help="Ask every request for this key. Better in the environment.", panel=SECURITY),
    ] = None,
    api_key_file: Annotated[
        Path | None, _option("--api-key-file", help="A file that holds the key.", panel=SECURITY)
    ] = None,
    insecure: Annotated[
        bool, _option("--insecure", help="Allow an address others can reach without a key.", panel=SECURITY)
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        _option("--allowed-host", help="A name by which requests may call the server; repeat it.", panel=SECURITY),
    ] = None,
    no_ui: Annotated[bool, _option("--no-ui", help="Serve no web inbox at /.", panel=SECURITY)] = False,
    prevent_self_approval: Annotated[
        bool,
        _option("--prevent-self-approval", help="Whoever sent a message cannot approve its tools.", panel=SECURITY),
    ] = False,
    rate_limit: Annotated[
        float, _option("--rate-limit", help="Requests a second, of a key or an address; 0 is no limit.", panel=SECURITY)
    ] = 0.0,
    webhook_secret: Annotated[
        str | None, _option("--webhook-secret", help="Signs webhooks (Standard Webhooks).", panel=WEBHOOKS)
    ] = None,
    webhook_allow_private: Annotated[
        bool, _option("--webhook-allow-private", help="Allow webhooks to private addresses.", panel=WEBHOOKS)
    ] = False,
    webhook: Annotated[
        list[str] | None,
        _option("--webhook", help="URL[,event...] told of every session; repeat it.", panel=WEBHOOKS),
    ] = None,
    webhook_retries: Annotated[
        int, _option("--webhook-retries", help="How often a webhook is tried again.", panel=WEBHOOKS)
    ] = 9,
    remind_after: Annotated[
        float,
        _option(
            "--remind-after",
            help="Seconds; tell webhooks again of what still waits, doubled each time; 0 is never.",
            panel=WEBHOOKS,
        ),
    ] = 0.0,
    allow_import: Annotated[
        bool, _option("--allow-import", help="Take in runs from elsewhere (POST /sessions, run_state).", panel=SECURITY)
    ] = False,
    state_key: Annotated[
        Path | None,
        _option("--state-key", help="A file with the key that signs run states, and verifies them.", panel=SECURITY),
    ] = None,
    log_level: Annotated[LogLevel, _option("--log-level", help="What is logged.", panel=LOGS)] = "info",
    log_format: Annotated[
        LogFormat, _option("--log-format", help="auto is human on a terminal, else json.", panel=LOGS)
    ] = "auto",
    reload: Annotated[bool, _option("--reload", help="Start again when a .py file here changes.", panel=LOGS)] = False,
) -> None:
    """Serve an agent over HTTP until Ctrl-C. Every option is also a variable: --store is HITL_STORE."""
    try:
        if api_key_file is not None:
            if api_key is not None:
                usage_error("--api-key and --api-key-file are both given", "give one of them")
            api_key = read_secret_file("--api-key-file", api_key_file)
        options = ServeOptions(
            agent=agent,
            host=host,
            port=port,
            store=store,
            policy=policy,
            workers=workers,
            queue=queue,
            isolation=isolation,
            api_key=api_key,
            insecure=insecure,
            prevent_self_approval=prevent_self_approval,
            rate_limit=rate_limit,
            allowed_hosts=tuple(allowed_host or ()),
            ui=not no_ui,
            allow_custom_ids=allow_custom_ids,
            max_sessions=max_sessions,
            ttl=ttl,
            suspended_ttl=suspended_ttl,
            timeout=timeout,
            interrupt_ttl=interrupt_ttl,
            park_after=park_after,
            hold=hold,
            max_warm=max_warm,
            start_timeout=start_timeout,
            worker_timeout=worker_timeout,
            max_recoveries=max_recoveries,
            keep_journal=keep_journal,
            max_payload=max_payload,
            max_value=max_value,
            max_body=max_body,
            max_connections=max_connections,
            max_connections_per_address=max_connections_per_address,
            max_requests_per_key=max_requests_per_key,
            shutdown_timeout=shutdown_timeout,
            log_level=log_level,
            log_format=log_format,
            webhook_secret=webhook_secret,
            webhook_allow_private=webhook_allow_private,
            webhooks=tuple(webhook or ()),
            webhook_retries=webhook_retries,
            remind_after=remind_after,
            allow_import=allow_import,
            state_key=None if state_key is None else read_secret_file("--state-key", state_key),
        )
    except InvalidOption as error:
        raise Failure(str(error), error.hint, exit_codes.USAGE) from error
    raise typer.Exit(_serve_reloading() if reload and not _is_reloaded_child() else _serve(options))


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
