"""The command line: `hitl`, or `python -m hitl`. One file per group of commands.

A command imports what it uses and no other command; what takes time besides (asyncio, httpx2, prompt-toolkit, rich) is
imported where it is used. So `serve` and `--help` start at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line with `sys.argv` and exit with its code; `exit_codes` lists them."""
    from hitl.cli.app import run

    raise SystemExit(run())
