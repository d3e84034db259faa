"""`hitl work`: run an agent's turns, and leave its requests to other servers on the same database."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from hitl.cli.serve import DEFAULTS, option, options_of, serve
from hitl.serving.options import ServeOptions, WorkOptions

OF_REQUESTS = frozenset(
    {
        "allow_custom_ids",
        "allow_import",
        "insecure",
        "max_body",
        "max_connections",
        "max_connections_per_address",
        "max_requests_per_key",
        "max_sessions",
        "max_value",
        "no_ui",
        "no_workers",
        "queue",
        "rate_limit",
        "reload",
        "state_key",
    }
)
"""What `hitl serve` can be told that is of no use here: about requests, and about a start again and again."""


def work(**given: Any) -> None:
    """Run an agent's turns until Ctrl-C; servers on the same database take its requests. --store is HITL_STORE."""
    raise typer.Exit(_work(options_of(WorkOptions, given)))


def _work(options: ServeOptions) -> int:
    from hitl.serving.server import serve as serve_until_stopped

    return serve_until_stopped(options)


def _parameters() -> list[inspect.Parameter]:
    """Those of `serve`, declared once, as far as they are of use here."""
    known = dict(inspect.signature(serve, eval_str=True).parameters)
    store = option("--store", help="postgresql://USER@HOST/DATABASE, which servers share.", show_default=False)
    known["store"] = known["store"].replace(annotation=Annotated[str, store], default=DEFAULTS.store)
    return [parameter for name, parameter in known.items() if name not in OF_REQUESTS | {"context"}]


def add_to(app: typer.Typer) -> None:
    parameters = _parameters()
    vars(work)["__signature__"] = inspect.Signature(parameters)
    work.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command("work")(work)
