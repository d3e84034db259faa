"""Simulated servers by the hundred thousand: `python -m tools.worlds`, or
`make test-full PART=src/engine/tests/cluster`.

Each seed is a world of each of `TESTS`. It goes on after the last seed that was looked at here, until `--minutes` are
over or as many `--seeds` were looked at; `--first` begins elsewhere. What each batch came to is a line of
target/worlds.jsonl, so it may be stopped at any time and loses one batch. In the end it says what all of them came to,
at which commit. Worlds that go wrong are told with their batch, and the line that runs the first of them alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUM = ROOT / "target" / "worlds.jsonl"
TESTS = (
    "what_was_promised_holds_whatever_befalls_servers_and_network",
    "what_a_failover_takes_back_leaves_everything_whole",
)
BATCH = 100
MINUTES = 35
"""A part of `make test-full` takes at most forty, with the build and the batch that is under way."""

BUILD = (
    *("cargo", "test", "--locked", "--no-default-features", "--features", "failpoints"),
    *("--lib", "--no-run", "--message-format", "json"),
)

OPTIMISED = {
    "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
    "CARGO_PROFILE_TEST_DEBUG": "0",
    "CARGO_INCREMENTAL": "0",
    "CARGO_TARGET_DIR": str(ROOT / "target" / "worlds"),
}
"""A world takes a tenth of the time so, and still checks its arithmetic and assertions. In a folder of its own, as the
tests have another build."""

_WRONG = re.compile(r"\d+ of \d+ worlds, seeds \[([\d, ]+)\]")


@dataclass(frozen=True)
class WorldBatch:
    """What the worlds of some seeds came to, in one test."""

    day: str
    commit: str
    test: str
    first: int
    worlds: int
    wrong: list[int]
    whole: bool
    """Whether the test itself came to an end: else nobody knows of any of its worlds."""
    seconds: float


def build() -> Path:
    """The tests' executable."""
    built = subprocess.run(BUILD, cwd=ROOT, env=OPTIMISED | os.environ, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    (executable,) = [message["executable"] for message in messages if message.get("executable")]
    return Path(executable)


def commit() -> str:
    """What is looked at: a commit, and whether something was changed since."""
    told = subprocess.run(
        ("git", "describe", "--always", "--dirty=+", "--exclude=*"),
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return told.stdout.strip()


def look_at(executable: Path, test: str, seeds: range, at: str) -> tuple[WorldBatch, str]:
    """Runs a world for each seed: what they came to, and what the test said."""
    asked = {"HITL_SIMULATED_FROM": str(seeds.start), "HITL_SIMULATED_SEEDS": str(len(seeds))}
    began = time.monotonic()
    run = subprocess.run(
        (executable, "--exact", f"engine::tests::cluster::{test}", "--nocapture"),
        cwd=ROOT,
        env=os.environ | asked,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = _WRONG.search(run.stdout)
    wrong = [int(seed) for seed in found[1].split(",")] if found else []
    # Of a name that is none, no test fails.
    whole = bool(wrong) or (run.returncode == 0 and " 1 passed" in run.stdout)
    took = round(time.monotonic() - began, 1)
    day = datetime.now(UTC).date().isoformat()
    return WorldBatch(day, at, test, seeds.start, len(seeds), wrong, whole, took), run.stdout


def looked_at(
    executable: Path, at: str, begin: dict[str, int], seeds: int, until: float
) -> Iterator[tuple[WorldBatch, str]]:
    """So many seeds of each test from where it begins, batch by batch, those behind first; until then."""
    rest = {test: range(first, first + seeds) for test, first in begin.items()}
    while time.monotonic() < until and any(rest.values()):
        test = min((test for test in TESTS if rest[test]), key=lambda test: rest[test].start)
        yield look_at(executable, test, rest[test][:BATCH], at)
        rest[test] = rest[test][BATCH:]


def read(path: Path) -> list[WorldBatch]:
    """What was looked at before."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [WorldBatch(**json.loads(line)) for line in lines]


def begin_after(batches: Iterable[WorldBatch]) -> dict[str, int]:
    """The first seed of each test that nobody has looked at."""
    begin = dict.fromkeys(TESTS, 0)
    for batch in batches:
        begin[batch.test] = max(begin[batch.test], batch.first + batch.worlds)
    return begin


def summed_up(batches: Iterable[WorldBatch]) -> Iterator[str]:
    """What all of them came to, a line for each commit and test."""
    groups: dict[tuple[str, str], list[WorldBatch]] = {}
    for batch in batches:
        groups.setdefault((batch.commit, batch.test), []).append(batch)
    for (at, test), them in groups.items():
        whole = [batch for batch in them if batch.whole]
        wrong = sorted(seed for batch in them for seed in batch.wrong)
        last = max(batch.first + batch.worlds for batch in them) - 1
        told = f"{at}, {them[-1].day}, {test}, seeds {min(batch.first for batch in them)} to {last}: "
        told += f"{sum(batch.worlds for batch in whole):,} worlds in {sum(batch.seconds for batch in whole):,.0f} s, "
        told += f"{len(wrong)} wrong" + (f": {wrong}" if wrong else "")
        unknown = [batch.first for batch in them if not batch.whole]
        yield told + (f"; without an end, the batches from {unknown} on" if unknown else "")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seeds", type=int, default=sys.maxsize)
    parser.add_argument("--first", type=int)
    asked = parser.parse_args(arguments)
    executable, at = build(), commit()
    begin = begin_after(read(SUM)) if asked.first is None else dict.fromkeys(TESTS, asked.first)
    good = True
    try:
        for batch, said in looked_at(executable, at, begin, asked.seeds, time.monotonic() + asked.minutes * 60):
            with SUM.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps(asdict(batch)) + "\n")
            is_good = batch.whole and not batch.wrong
            good = good and is_good
            print(*summed_up([batch]), *([] if is_good else [said]), sep="\n", flush=True)
    except KeyboardInterrupt:
        print("stopped")
    print("All that was looked at here:", *summed_up(read(SUM)), sep="\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
