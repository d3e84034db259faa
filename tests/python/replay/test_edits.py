"""Agents that were edited while a turn of theirs was open: what does not fit is said, and nothing is paired silently.

``edits.fits`` works out from both texts which edits fit the journal, without the runtime.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from hitl.errors import ReplayMismatch
from tests.python.replay.crashes import Run, run
from tests.python.replay.edits import EDITS, Author, fits
from tests.python.replay.loops import on_own_loop
from tests.python.replay.programs import Node

_AGENTS = int(os.environ.get("HITL_REPLAY_AGENTS", "1000")) // 10


async def _of_one_agent(seed: int, how: str, found: Counter[str], problems: list[str]) -> None:
    author = Author(seed)
    program = author.program()
    edited = author.edit(program, how)
    if edited is None:
        return
    first = await run(program, random.Random(seed))
    assert first.error is None, first.error
    assert fits(program, first.journal)
    cuts = sorted({random.Random(seed).randint(2, len(first.journal)), len(first.journal)})
    for cut, second in zip(
        cuts, await asyncio.gather(*(_again(edited, seed, first, cut) for cut in cuts)), strict=True
    ):
        problem = _judge(fits(edited, first.journal[:cut]), second, found)
        if problem is not None:
            problems.append(f"seed {seed}, cut at {cut}: {problem}\n{program}\n{edited}")


async def _again(edited: Node, seed: int, first: Run, cut: int) -> Run:
    return await run(edited, random.Random(f"{seed} {cut}"), first.journal[:cut])


def _judge(is_fitting: bool, second: Run, found: Counter[str]) -> str | None:
    wrong = [note for notes in second.trace.values() for note in notes if _is_of_another(note)]
    if wrong:
        return f"results of other steps: {wrong}"
    if isinstance(second.error, ReplayMismatch):
        found["reported"] += 1
        text = str(second.error)
        if not all(part in text for part in ("recorded:", "attempted:", "hint:")):
            return f"a mismatch that does not say enough: {text}"
        return f"it fits, but: {text}" if is_fitting else None
    found["fits"] += 1
    if second.error is not None:
        return f"{type(second.error).__name__}: {second.error}"
    return None if is_fitting else "it does not fit, and nothing was said"


def _is_of_another(note: list[Any]) -> bool:
    """Bodies return their node's number, and people answer with it."""
    return note[0] in ("step", "thread", "once", "keyed") and note[2] not in (note[1], "as a person says")


@pytest.mark.parametrize("how", EDITS)
def test_an_edit_that_does_not_fit_the_journal_is_reported(how: str) -> None:
    found: Counter[str] = Counter()
    problems: list[str] = []

    async def all_of_them() -> None:
        for start in range(0, _AGENTS, 25):
            seeds = range(start, min(start + 25, _AGENTS))
            await asyncio.gather(*(_of_one_agent(seed, how, found, problems) for seed in seeds))

    on_own_loop(all_of_them())
    assert not problems, f"{len(problems)}, first:\n{problems[0]}"
    assert found["reported"] > 20
    assert found["fits"] > 5
