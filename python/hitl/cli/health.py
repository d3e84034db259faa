"""`hitl health`: how the server is."""

from __future__ import annotations

import typer

from hitl.cli import exit_codes
from hitl.cli.connection import DEFAULT_URL, ApiKey, AsJson, Url, connect
from hitl.cli.output import print_json, wants_json
from hitl.cli.tables import print_fields
from hitl.cli.text import exact_json


def health(url: Url = DEFAULT_URL, api_key: ApiKey = None, json: AsJson = False) -> None:
    """Ask a server how it is; exits with 1 unless it says "ok"."""
    with connect(url, api_key) as client:
        report = client.health()
    if wants_json(json):
        print_json(report.raw)
    else:
        print_fields(
            (name, value if isinstance(value, str) else exact_json(value)) for name, value in report.raw.items()
        )
    if report.status != "ok":
        raise typer.Exit(exit_codes.RUNTIME)


def add_to(app: typer.Typer) -> None:
    app.command("health")(health)
