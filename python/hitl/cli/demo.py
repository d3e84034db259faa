"""`hitl demo`: serve an example of the package, and say what can be done with it."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from hitl.cli import exit_codes
from hitl.cli.output import Failure
from hitl.serving.options import InvalidOption, ServeOptions


@dataclass(frozen=True)
class Example:
    """agent: `MODULE:ATTR`; about: what it does, without a full stop; say: what one may write to it.

    files: the module that makes its files, with `directory` and `missing`, for an example that has some.
    """

    agent: str
    about: str
    say: Sequence[str]
    files: str | None = None


EXAMPLES = {
    "files": Example(
        "hitl.examples.file_agent:agent",
        "looks after the files in ./demo_files, and asks before it deletes or moves any",
        ("delete the old logs file", "help me organize my downloads"),
        files="hitl.examples.sample_files",
    ),
    "shop": Example(
        "hitl.examples.shop:agent",
        "gives the money for an order of ada's back, once somebody has said yes",
        ("refund A-1",),
    ),
    "colors": Example(
        "hitl.examples.color_picker:agent",
        "asks a question of a type of its own, whose answer is JSON",
        ("make it look nice",),
    ),
}
"""What can be served, by the name that the command takes."""

PORT = ServeOptions(agent=EXAMPLES["files"].agent).port
"""The one of `hitl serve`, which `hitl chat` is told in every document."""

KEYS = ("OPENAI_API_KEY", "OPENROUTER_API_KEY")
"""What an example would ask a real model with."""


def demo(
    name: Annotated[
        Literal["files", "shop", "colors"], typer.Argument(metavar="NAME", help="Which example.")
    ] = "files",
    port: Annotated[int, typer.Option("--port", envvar="HITL_PORT", help="Port; 0 takes a free one.")] = PORT,
) -> None:
    """Serve an example, without a key or a project, until Ctrl-C. What it asks is kept in ./.hitl."""
    example = EXAMPLES[name]
    # Nothing that is shown here costs money, or fails where the package of a provider is not installed.
    for variable in KEYS:
        os.environ.pop(variable, None)
    try:
        # A store for each: what one example has left open no other could go on with, nor an agent served here later.
        options = ServeOptions(
            agent=example.agent, port=port, store=f"sqlite:.hitl/demo-{name}.db", log_level="warning"
        )
    except InvalidOption as error:
        raise Failure(str(error), error.hint, exit_codes.USAGE) from error
    gone = "" if example.files is None else _make_files(example.files)
    raise typer.Exit(_serve(example, options, gone))


def _make_files(module: str) -> str:
    """What to say of those that are gone. They are made so that they can be looked at before the first conversation,
    which would make them too."""
    maker = import_module(module)
    try:
        where = maker.directory()
    except OSError as error:
        hint = "start it in a directory of yours, or name one that is not there yet: HITL_FILES=DIR hitl demo"
        raise Failure(f"cannot make the files of the example: {error}", hint) from error
    gone = ", ".join(maker.missing(where))
    return gone and _filled(f"Gone from {where}: {gone}. Remove that directory to begin with all of its files.") + "\n"


def what_next(example: Example, url: str) -> str:
    """What is printed once it listens on `url`."""
    hitl = this_command()
    # A terminal where nothing was activated would not find what this one does.
    there = " (activate the environment there too)" if hitl == "hitl" and os.environ.get("VIRTUAL_ENV") else ""
    return f"""\
{example.agent} is served on {url}
{_filled(f"It {example.about}. No model is asked: it follows fixed plans.")}

Next, in a second terminal{there}:

    {hitl} chat {url}

and write: {", or: ".join(example.say)}
{_filled(f"In a browser, {url} shows what waits for a person, and answers it.")}

Stop this with Ctrl-C while a question is open, and start it again: the answer
finds the agent where it stopped.

A project of your own, with a test, a policy and a compose file:

    {hitl} init DIR
"""


def _filled(text: str) -> str:
    """In lines that no terminal breaks in the middle of a word."""
    return textwrap.fill(text, 79, break_long_words=False, break_on_hyphens=False)


def this_command() -> str:
    """What to type for `hitl`: its name where that is found to be this one, else where this one is."""
    script = Path(sys.prefix, "bin", "hitl")
    if sys.prefix == sys.base_prefix or not script.exists():
        return "hitl"
    found = shutil.which("hitl")
    if found is not None and Path(found).samefile(script):
        return "hitl"
    here = Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)


def _serve(example: Example, options: ServeOptions, gone: str) -> int:
    from hitl.serving.server import serve_saying

    return serve_saying(lambda url: gone + what_next(example, url), options)


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)
