"""What figures were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import percentiles

ROOT = Path(__file__).resolve().parents[1]


def describe() -> dict[str, Any]:
    """The machine, the versions and the moment."""
    names = [line.partition(":")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": names[0].strip() if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        # The page that is written meanwhile is none of what is measured.
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs")),
        "load": load_average(),
        "nice": os.nice(0),
        "ticks": ticks(),
    }


def end(described: dict[str, Any]) -> None:
    """Add what is known after the last measurement: the load, and what a virtual machine's host took of its CPU."""
    described["load_after"] = load_average()
    then = Ticks(*described["ticks"])
    now = ticks()
    described["stolen_percent"] = round(100 * (now.stolen - then.stolen) / max(1, now.passed - then.passed), 1)


class Ticks(NamedTuple):
    """Of all cores since the machine was started (proc(5)): those that the virtual machine's host took, those in which
    anything was at work, the host's among them, and all there were."""

    stolen: int
    busy: int
    passed: int


def ticks() -> Ticks:
    """Until now."""
    counted = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _waits_for_disk, interrupts, soft_interrupts, stolen = counted
    return Ticks(stolen, user + nice + system + interrupts + soft_interrupts + stolen, sum(counted))


def taken_by_others(then: Ticks, now: Ticks, own_seconds: float) -> float:
    """Which part of the CPU the host and other processes took between two moments, 0 to 1, when one's own processes
    took `own_seconds` of it. What the kernel does for these without counting it as theirs is in it."""
    own = own_seconds * os.sysconf("SC_CLK_TCK")
    return max(0.0, (now.busy - then.busy - own) / max(1, now.passed - then.passed))


def load_average() -> float:
    """Of the last minute."""
    return round(os.getloadavg()[0], 2)


def fsync_ms(directory: Path, times: int = 200) -> dict[str, float]:
    """Milliseconds of an append and an fsync with nothing around them: the floor under what is durable on this disk."""
    took = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(times):
            started = time.perf_counter()
            file.write(b"x" * 512)
            os.fsync(file.fileno())
            took.append(1e3 * (time.perf_counter() - started))
    return percentiles(took)


def in_words(described: dict[str, Any]) -> str:
    """One line."""
    commit = (described["commit"] or "unknown") + (" with changes" if described["changed"] else "")
    return (
        f"{described['date']}; {described['processor']}, {described['cores']} cores, {described['memory_gib']} GiB, "
        f"{described['system']}, Python {described['python']}, commit {commit}; "
        f"load average {described['load']} before, {described['load_after']} after; "
        f"the host took {described['stolen_percent']} % of the CPU; nice {described['nice']}"
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def scratch() -> Path:
    """A directory on the disk that the repository is on: what is in /tmp is often in memory."""
    path = ROOT / "target"
    path.mkdir(exist_ok=True)
    return path


def refuse_debug_build() -> None:
    """SystemExit where the core was not built for speed."""
    from hitl import _core

    if _core.DEBUG_BUILD:
        raise SystemExit("a debug build says nothing about speed; hint: make bench builds for speed")
