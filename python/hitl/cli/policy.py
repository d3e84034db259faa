"""`hitl policy`: what the rules of a policy file say about a call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from hitl.cli.connection import AsJson
from hitl.cli.output import print_json, usage_error, wants_json
from hitl.cli.tables import console, print_table
from hitl.cli.text import one_line
from hitl.strict_json import read_json

app = typer.Typer(no_args_is_help=True, help="What the rules of a policy file say about a call.")

_LOOKS = {"other_tool": "is for other tools", "other_agent": "is for other agents", "untrue": "its expression is false"}
_NOBODY = "No rule is for this call: its tool decides whether a person is asked."


@app.callback()
def _group() -> None:
    """What the rules of a policy file say about a call."""


@app.command("test")
def try_call(
    tool: Annotated[str, typer.Argument(help="The tool's name.", show_default=False)],
    args: Annotated[
        str, typer.Argument(metavar="ARGS", help="Its arguments as JSON: '{\"amount\": 150}'.", show_default=False)
    ],
    policy: Annotated[
        Path,
        typer.Option("--policy", envvar="HITL_POLICY", help="The policy file.", show_default=False),
    ] = Path("policy.toml"),
    agent: Annotated[str | None, typer.Option("--agent", help="The name of the agent that calls.")] = None,
    json: AsJson = False,
) -> None:
    """Show which rule decides over a call, and what the others made of it. Nothing is called."""
    from hitl import _core

    try:
        text = policy.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        usage_error(f"cannot read {policy}: {error}", "--policy names the file; docs/policy.md shows what is in it")
    try:
        looks = _core.try_policy(text, tool, _arguments(args), agent)
    except ValueError as error:
        usage_error(f"the policy in {policy} cannot be used: {error}", "docs/policy.md shows what a rule looks like")
    decides = next((look for look in looks if look["look"] == "decides"), None)
    if wants_json(json):
        print_json({"rule": decides and decides["name"], "effect": decides and decides["effect"], "looked_at": looks})
        return
    print_table(["RULE", "SAYS"], ((look["name"], _says(look)) for look in looks), empty="The policy has no rules.")
    console().print(_outcome(decides), soft_wrap=True)


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = read_json(text)
    except ValueError as error:
        usage_error(f"the arguments are not JSON: {error}", """for example '{"path": "/tmp/x"}'""")
    if not isinstance(arguments, dict):
        usage_error("the arguments are no JSON object", """for example '{"path": "/tmp/x"}'""")
    return arguments


def _says(look: dict[str, Any]) -> str:
    if look["look"] in _LOOKS:
        return _LOOKS[look["look"]]
    if look["failed"] is not None:
        return f"{look['effect']}: its expression cannot tell ({look['failed']})"
    return str(look["effect"])


def _outcome(decides: dict[str, Any] | None) -> Text:
    if decides is None:
        return Text(_NOBODY)
    name = one_line(decides["name"])
    if decides["effect"] == "deny":
        reason = decides["reason"]
        why = f": {one_line(reason)}" if reason else ""
        denies = " denies it." if decides["failed"] is None else " cannot tell, and so denies it."
        return Text.assemble("Rule ", (name, "bold"), denies, " The model is told that the policy rejected it", why)
    if decides["effect"] == "allow":
        return Text.assemble("Rule ", (name, "bold"), " lets it run without asking anybody.")
    if decides["failed"] is not None:
        return Text.assemble("Rule ", (name, "bold"), " cannot tell, and so has a person asked: no grant decides.")
    return Text.assemble("Rule ", (name, "bold"), " has a person asked.")


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="policy")
