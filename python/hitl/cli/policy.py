"""`hitl policy`: what the rules of a policy file say about a call, and the policy of a store, for all its servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from hitl.cli import exit_codes
from hitl.cli.connection import AsJson
from hitl.cli.output import Failure, print_json, usage_error, wants_json
from hitl.cli.tables import console, print_fields, print_table
from hitl.cli.text import one_line
from hitl.errors import StoreError
from hitl.serving.options import DEFAULT_STORE
from hitl.strict_json import read_json

app = typer.Typer(
    no_args_is_help=True,
    help="Try the rules of a policy file; put a policy into a store, for all servers on it.",
)

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="HITL_STORE",
        help="The store, as serve has it: a database beside its servers, a file while no server has it.",
        show_default=False,
    ),
]

_LOOKS = {"other_tool": "is for other tools", "other_agent": "is for other agents", "untrue": "its expression is false"}
_A_RULE = 'a rule is [[rule]], and lines such as name = "pay", effect = "ask" (or allow, deny), tool = "pay_*"'
_AN_EXPRESSION = (
    "`when` is an expression of CEL, such as args.amount > 10 && args.to == 'ada': == compares, && is and, || is or"
)
_NOBODY = "No rule is for this call: its tool decides whether a person is asked."


@app.callback()
def _group() -> None:
    """Try the rules of a policy file; put a policy into a store, for all servers on it."""


@app.command("test")
def try_call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.", show_default=False)],
    args: Annotated[
        str, typer.Argument(metavar="ARGS", help="Its arguments as JSON: '{\"amount\": 150}'.", show_default=False)
    ],
    policy: Annotated[
        Path,
        typer.Option("--policy", envvar="HITL_POLICY", help="The policy file.", show_default=False),
    ] = Path("policy.toml"),
    agent: Annotated[str | None, typer.Option("--agent", help="The name of the agent that calls.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Where the tool is from, when not the agent's own: mcp:files.")
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", help='What the agent\'s code says of the call, as JSON: \'{"tenant": "acme"}\'.'),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show which rule decides over a call, and what the others made of it. Nothing is called."""
    from hitl import _core

    text = _text(policy, "--policy names the file, which is looked for from the working directory")
    arguments = _object("the arguments are", args, '{"path": "/tmp/x"}')
    said = None if metadata is None else _object("--metadata is", metadata, '{"tenant": "acme"}')
    try:
        looks = _core.try_policy(text, tool, arguments, agent, source, said)
    except ValueError as error:
        _unusable(policy, error)
    decides = next((look for look in looks if look["look"] == "decides"), None)
    if wants_json(json):
        print_json({"rule": decides and decides["name"], "effect": decides and decides["effect"], "looked_at": looks})
        return
    print_table(["RULE", "SAYS"], ((look["name"], _says(look)) for look in looks), empty="The policy has no rules.")
    console().print(_outcome(decides), soft_wrap=True)


@app.command("push")
def push(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy file.", show_default=False)],
    store: Store = None,
    json: AsJson = False,
) -> None:
    """Put a policy into the store: every server on it takes it within two seconds, in the place of the one before."""
    from hitl import _core

    text, address = _text(file, "name the file, which is looked for from the working directory"), _named(store)
    try:
        with _store_errors():
            pushed, is_new = _core.push_policy(address, text)
    except ValueError as error:
        _unusable(file, error)
    if wants_json(json):
        print_json({**_about(pushed), "changed": is_new})
        return
    said = "Pushed: every server on the store takes it." if is_new else "The store has this policy already."
    console().print(Text(f"{said} Its digest is {pushed['digest']}."), soft_wrap=True)


@app.command("show")
def show(store: Store = None, json: AsJson = False) -> None:
    """Print the policy that is in the store, its digest, and when it was pushed."""
    pushed = _pushed(_named(store))
    if wants_json(json):
        print_json(pushed)
        return
    print_fields(
        [("digest", pushed["digest"]), ("pushed at", pushed["pushed_at"]), ("pushed by", pushed["pushed_by"] or "")]
    )
    console().print()
    for line in pushed["text"].splitlines():
        console().print(Text(one_line(line)), soft_wrap=True)


@app.command("pull")
def pull(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to.", show_default=False)],
    store: Store = None,
    json: AsJson = False,
) -> None:
    """Write the policy that is in the store to a new file, as it was pushed."""
    pushed = _pushed(_named(store))
    try:
        with file.open("xb") as new:
            new.write(pushed["text"].encode())
    except FileExistsError as error:
        raise Failure(f"{file} is there already", "name a file that is not", exit_codes.CONFLICT) from error
    except OSError as error:
        usage_error(f"cannot write {file}: {error}", "name a file in a directory that you may write to")
    if wants_json(json):
        print_json(_about(pushed))
    else:
        console().print(Text(f"Written to {file}. Its digest is {pushed['digest']}."), soft_wrap=True)


@app.command("remove")
def remove(store: Store = None, json: AsJson = False) -> None:
    """Take the policy out of the store: its servers have the rules of their --policy files then, or none."""
    from hitl import _core

    with _store_errors():
        removed = _core.remove_policy(_named(store))
    if removed is None:
        _none_there()
    if wants_json(json):
        print_json({**_about(removed), "removed": True})
    else:
        console().print(Text(f"Removed. Its digest was {removed['digest']}."), soft_wrap=True)


def _text(file: Path, hint: str) -> str:
    try:
        # Not as text: line ends that are changed are another policy, with another digest than that of the file.
        return file.read_bytes().decode("utf-8")
    except PermissionError as error:
        usage_error(f"cannot read {file}: {error}", "let this user read the file, and enter the directories above it")
    except FileNotFoundError as error:
        usage_error(f"cannot read {file}: {error}", hint)
    except (OSError, UnicodeDecodeError) as error:
        usage_error(f"cannot read {file}: {error}", "a policy is a file of text, in UTF-8")


def _unusable(file: Path, error: ValueError) -> NoReturn:
    hint = _AN_EXPRESSION if ": when: " in str(error) else _A_RULE
    usage_error(f"the policy in {file} cannot be used: {error}", hint)


def _named(store: str | None) -> str:
    if store is None:
        usage_error("which store is not said", f"name it with --store, such as {DEFAULT_STORE}")
    if store == "memory":
        usage_error("--store: memory keeps no policy", f"name a database or a file, such as {DEFAULT_STORE}")
    return store


def _pushed(address: str) -> dict[str, Any]:
    from hitl import _core

    with _store_errors():
        pushed = _core.pushed_policy(address)
    if pushed is None:
        _none_there()
    return pushed


def _none_there() -> NoReturn:
    raise Failure("no policy is in the store", "`hitl policy push FILE` puts one there", exit_codes.NOT_FOUND)


def _about(pushed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pushed.items() if name != "text"}


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise Failure(str(error), error.hint or "name it with --store", exit_codes.USAGE) from error


def _object(what: str, text: str, example: str) -> dict[str, Any]:
    try:
        members = read_json(text)
    except ValueError as error:
        usage_error(f"{what} not JSON: {error}", f"for example '{example}'")
    if not isinstance(members, dict):
        usage_error(f"{what} no JSON object", f"for example '{example}'")
    return members


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
