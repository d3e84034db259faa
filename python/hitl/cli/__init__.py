"""The command line: `hitl`, or `python -m hitl`. One file per group of commands.

Modules that take time to import (httpx2, prompt-toolkit) are imported by the commands that use them, so that `serve`
and `--help` start at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line with `sys.argv` and exit with its code; `exit_codes` lists them."""
    from hitl.cli.app import run

    raise SystemExit(run())
