"""The commands put together, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hitl.cli import exit_codes, streams
from hitl.cli.output import Failure
from hitl.errors import AgentLoadError, HitlError, PythonUntested

COMMANDS = {
    "demo": "hitl.cli.demo",
    "init": "hitl.cli.init",
    "serve": "hitl.cli.serve",
    "work": "hitl.cli.work",
    "chat": "hitl.cli.chat",
    "replay-check": "hitl.cli.replay_check",
    "health": "hitl.cli.health",
    "sessions": "hitl.cli.sessions",
    "interrupts": "hitl.cli.interrupts",
    "migrate": "hitl.cli.migrate",
    "servers": "hitl.cli.servers",
    "store": "hitl.cli.store",
    "keys": "hitl.cli.keys",
    "policy": "hitl.cli.policy",
    "audit": "hitl.cli.audit",
    "webhooks": "hitl.cli.webhooks",
}
"""The commands, then the groups of commands, as `--help` has them, each with the module whose `add_to` adds it."""

_UNREAD = re.compile("[\udc80-\udcff]")
"""What Python keeps of bytes that are no UTF-8."""


EXAMPLES = {"agent": "Such as app:agent, which is `agent` of app.py; for an example that needs no project: hitl demo"}
"""What an argument looks like, by the name of its parameter, for whoever gives none."""


def _with_what(error: typer.BadParameter) -> str | None:
    """What is no number, which newer versions of typer do not show: whoever has not typed it has to look for it."""
    known = getattr(error.__cause__, "errors", None)
    for wrong in known() if callable(known) else ():
        number = {"int_parsing": "whole number", "float_parsing": "number"}.get(wrong["type"])
        if number is not None:
            links = _LINKS if str(wrong["input"]).startswith("tcp://") else ""
            return f"{wrong['input']!r} is no {number}.{links}"
    return None


_LINKS = " Kubernetes sets such a variable for a Service of that name; enableServiceLinks: false turns that off."


class _Commands(TyperGroup):
    """As typer's own, with words of ours where its own tell little of what is wrong with an argument."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # What validates for typer puts its own kind of error before the message.
            error.message = _with_what(error) or error.message.removeprefix("Value error, ")
            if not error.message and error.param is not None:
                error.message = EXAMPLES.get(str(error.param.name), "")
            raise


def program(first: str | None = None) -> typer.Typer:
    """What understands a command line whose first argument is `first`: the one command that it names, which spares the
    import of the others, none where the version is asked for, or all of them."""
    app = typer.Typer(
        name="hitl",
        cls=_Commands,
        help="Serve Python agents that stop and ask a person.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Every option is also an environment variable: HITL_ and its command, as HITL_SESSIONS_LIST_LIMIT; options of
        # `serve` and shared ones also without, as HITL_PORT and HITL_URL.
        context_settings={"auto_envvar_prefix": "HITL", "help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in () if first == "--version" else (first,) if first in COMMANDS else COMMANDS:
        import_module(COMMANDS[command]).add_to(app)
    _describe(app)
    return app


def _describe(app: typer.Typer) -> None:
    """The help of its commands, and of those in its groups."""
    for added in app.registered_commands:
        added.help = added.help or _paragraphs(added.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _describe(group.typer_instance)


def _paragraphs(command: object) -> str:
    """Its help, in lines as long as the terminal's: those of the source would be broken once more."""
    return "\n\n".join(" ".join(each.split()) for each in (inspect.getdoc(command) or "").split("\n\n"))


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"hitl {version('hitl-runtime')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            allow_from_autoenv=False,  # HITL_VERSION is what many images call the version of what is in them
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Serve Python agents that stop and ask a person."""


def run(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    streams.open_closed_streams()
    # Before modules of the working directory could stand for what the commands import.
    app = program(*arguments[:1])
    _put_working_directory_first()
    streams.never_fail_to_read_or_print()
    try:
        exit_code = _run(app, arguments)
        # What cannot be written is told of here, and not by Python at its end.
        sys.stdout.flush()
    except OSError as error:
        failure = streams.unwritable(error)
        return exit_codes.RUNTIME if failure is None else _print(failure)
    return exit_code


def _run(app: typer.Typer, arguments: list[str]) -> int:
    try:
        app(args=arguments, prog_name="hitl", standalone_mode=True)
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else exit_codes.RUNTIME
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except Failure as failure:
        return _print(failure)
    except AgentLoadError as error:
        hint = getattr(error, "hint", None) or "MODULE is imported from the working directory, ATTR is a name in it"
        return _print(Failure(str(error), hint, exit_codes.AGENT_IMPORT))
    except HitlError as error:
        return _print(_failure_of(error))
    except UnicodeEncodeError as error:
        if not _UNREAD.search(error.object):
            raise
        return _print(
            Failure(
                "what was given is not UTF-8, and cannot be sent",
                "look at the arguments, or at what comes by standard input; `iconv -t UTF-8` writes it anew",
                exit_codes.USAGE,
            )
        )
    return exit_codes.OK


def _print(failure: Failure) -> int:
    """Its exit code, once it has been told."""
    from hitl.cli.tables import print_failure

    try:
        print_failure(failure)
    except OSError:
        streams.give_up_errors()
    return failure.exit_code


def _failure_of(error: HitlError) -> Failure:
    from hitl.cli.failures import failure_of
    from hitl.client import ClientError

    if isinstance(error, ClientError):
        return failure_of(error)
    if isinstance(error, PythonUntested) and error.hint is not None:
        return Failure(error.message, error.hint)
    return Failure(str(error), getattr(error, "hint", None) or "`hitl COMMAND --help` shows what is expected")


def _put_working_directory_first() -> None:
    """Agents are modules of the directory one stands in; `python -m` looks there, a console script would not."""
    here = str(Path.cwd())
    if sys.path[:1] not in ([""], [here]):
        sys.path.insert(0, here)
