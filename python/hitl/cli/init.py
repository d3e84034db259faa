"""`hitl init`: write a small project that runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hitl.cli.connection import found_here
from hitl.cli.output import Failure, usage_error

TEMPLATES = Path(__file__).with_name("project")
"""Each file of the project, `.template` behind its name: so no tool takes one for a module of hitl."""


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where; made where it is missing.", show_default="here")
    ] = Path(),
) -> None:
    """Write a small project: an agent, its test, a policy and what a container needs. Overwrites nothing."""
    files = dict(project_files())
    where = f"{directory}{os.sep}" if directory != Path() else ""
    _refuse_to_overwrite(directory, files)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            # "x": what has come between is not overwritten either.
            with (directory / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise Failure(
            f"cannot write {error.filename or directory}: {error.strerror}",
            "name another directory: hitl init DIR",
        ) from error
    for name in sorted(files):
        typer.echo(f"  {where}{name}")
    steps = [*([f"cd {directory}"] if where else []), "pip install -r requirements.txt", "pytest"]
    steps += ["hitl serve agent:agent --policy policy.toml"]
    typer.echo("\nNext:\n\n" + "".join(f"    {step}\n" for step in steps))
    url = found_here(os.environ)
    typer.echo(f"and in a second terminal:\n\n    hitl chat {url or 'URL'}\n")
    typer.echo(f"{'' if url else 'with the URL that the server prints, '}where you write: refund A-1 40")


def project_files() -> Iterator[tuple[str, str]]:
    """The name and the text of each file."""
    # Here, as it looks for the core: only this command needs to know what Pythons that is tested on.
    from hitl import __version__, _core

    for template in sorted(TEMPLATES.glob("*.template")):
        name = template.name.removesuffix(".template")
        text = template.read_text(encoding="utf-8")
        text = text.replace("@VERSION@", __version__).replace("@PYTHON@", _core.PYTHONS[-1])
        yield f".{name}" if name == "gitignore" else name, text


def _refuse_to_overwrite(directory: Path, files: dict[str, str]) -> None:
    if os.path.lexists(directory) and not directory.is_dir():
        usage_error(f"{directory} is there, and no directory", "name another one: hitl init DIR")
    taken = [name for name in sorted(files) if os.path.lexists(directory / name)]
    if taken:
        are = "is" if len(taken) == 1 else "are"
        usage_error(
            f"{', '.join(taken)} {are} in {directory.resolve()} already; nothing was written",
            "name a directory that is new, or has no such files: hitl init DIR",
        )


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)
