"""`hitl replay-check`: would the turns that wait in a store go on with the code at hand?

The check runs in a process of its own, like a worker: with the hash seed of workers, by which sets are ordered, and
without the variables that no worker gets.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, wants_json
from hitl.pythons import require_tested
from hitl.serving.options import DEFAULT_STORE, InvalidOption, ServeOptions


def replay_check(
    agent: Annotated[
        str, typer.Argument(metavar="MODULE:ATTR", envvar="HITL_AGENT", help="The agent.", show_default=False)
    ],
    store: Annotated[
        str,
        typer.Option("--store", envvar="HITL_STORE", help="As serve has it; its server may be running."),
    ] = DEFAULT_STORE,
    limit: Annotated[int, typer.Option("--limit", help="How many turns at most; 0 is all.", min=0)] = 0,
    patience: Annotated[
        float, typer.Option("--patience", help="Seconds for each turn, whose raw I/O may take that long.", min=0.1)
    ] = 10.0,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 also for turns that were not checked: in a tool, of another agent."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Replay the open turns of a store against the code at hand, before it is deployed.

    Turns that wait are replayed up to where they stand, and so are failed ones that a retry would take up. Nothing is
    written and no step begins; the agent's code between its steps does run. The inside of a tool that asks would have
    to run, and is not checked. Exits with 1 when a turn would not go on.
    """
    from hitl.serving.server import worker_environment

    try:
        ServeOptions(agent=agent, store=store)
    except InvalidOption as error:
        raise Failure(str(error), error.hint, exit_codes.USAGE) from error
    require_tested()
    form = "json" if wants_json(json) else "table"
    strictness = "strict" if strict else "lenient"
    code = subprocess.call(
        [sys.executable, "-m", "hitl.cli.replaying", agent, store, str(limit), str(patience), strictness, form],
        env=worker_environment() | {"PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
    )
    if code < 0:
        raise Failure(f"the check was ended by signal {-code}", "the agent may need more memory than there is")
    raise typer.Exit(code)


def add_to(app: typer.Typer) -> None:
    app.command("replay-check")(replay_check)
