"""One generated agent, its journal, what it saw, and how its replays differ: ``python -m tests.python.replay.show SEED
[CUT]``."""

from __future__ import annotations

import json
import random
import sys

from tests.python.replay.crashes import Run, difference, is_loose, run
from tests.python.replay.loops import on_own_loop
from tests.python.replay.programs import generate


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _show(title: str, seen: dict[str, list[object]]) -> None:
    for scope, notes in seen.items():
        _print(f"{title} {scope or 'the turn'}:")
        for number, note in enumerate(notes):
            _print(f"  {number} {note}")


async def _main(seed: int, only: int | None) -> None:
    program = generate(seed)
    _print(json.dumps(program))
    first: Run = await run(program, random.Random(f"{seed} first"))
    for index, entry in enumerate(first.journal):
        what = {name: value for name, value in entry.items() if name not in ("at", "step", "entry")}
        _print(f"{index} {entry['entry']} {entry.get('step', {}).get('path', '')} {what}")
    _show("recorded in", first.trace)
    for cut in range(2, len(first.journal) + 1):
        if only in (None, cut):
            second = await run(program, random.Random(f"{seed} {cut}"), first.journal[:cut])
            found = difference(first, cut, second, is_loose=is_loose(program))
            _print(f"cut at {cut}: {found or 'the same'}")
            if only is not None:
                _show("replayed in", second.replayed or {})


if __name__ == "__main__":
    on_own_loop(_main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
