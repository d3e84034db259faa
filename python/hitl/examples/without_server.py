"""An agent in a program of your own: it stops when it needs somebody, and goes on in whichever process has the answer.

    python -m hitl.examples.without_server "delete the old logs file"     runs until something is asked, and shows it
    python -m hitl.examples.without_server --yes                          goes on, weeks later if need be
    python -m hitl.examples.without_server --no "the auditor wants it"

What waits is in `runs.db`. A crash loses nothing, and what was approved runs once, however often `--yes` is said.
"""

from __future__ import annotations

import argparse
import asyncio

import hitl
from hitl.examples.file_agent import agent

STORE = "sqlite:runs.db"
SESSION = "files"


async def begin(message: str) -> str:
    """Run a message until it is answered, or until somebody has to decide."""
    try:
        return show(await hitl.run(agent, message, store=STORE, session=SESSION))
    except hitl.RunInterrupted:
        return "the last message still waits: --yes or --no first"


async def decide(reason: str | None) -> str:
    """Say yes to everything that waits, or no for a reason, and go on."""
    async with hitl.Store(STORE) as store:
        state = await hitl.RunState.from_store(agent, store, SESSION)
        if state is None:
            return "nothing waits"
        for interrupt in state.interrupts:
            if interrupt.type != "tool_approval":
                state.answer(interrupt, first_options(interrupt))
            elif reason is None:
                state.approve(interrupt)
            else:
                state.reject(interrupt, reason=reason)
        return show(await hitl.run(agent, state))


def first_options(interrupt: hitl.Interrupt) -> dict[str, dict[str, str]]:
    """An answer to the model's questions: of each the option that it names first."""
    questions = interrupt.payload["questions"]
    return {"answers": {asked["question"]: asked["options"][0]["label"] for asked in questions}}


def show(result: hitl.RunResult) -> str:
    """What to print."""
    if result.status == "interrupted":
        asked = [f"{interrupt.tool_name or interrupt.type}: {interrupt.payload}" for interrupt in result.interrupts]
        return "\n".join(["waiting for a decision:", *asked])
    return result.output or f"it failed: {result.error}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run the file agent without a server.")
    parser.add_argument("message", nargs="?", help="what to ask of it")
    parser.add_argument("--yes", action="store_true", help="approve what waits")
    parser.add_argument("--no", metavar="REASON", help="reject what waits")
    given = parser.parse_args()
    if given.yes or given.no is not None:
        print(asyncio.run(decide(given.no)))
    elif given.message:
        print(asyncio.run(begin(given.message)))
    else:
        parser.error("a message, --yes or --no")


if __name__ == "__main__":
    main()
