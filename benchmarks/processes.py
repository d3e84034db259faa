"""What a family of processes costs, by the operating system's own accounts. Linux only: everything is from /proc.

CPU of a family is `utime + stime + cutime + cstime` of every living member (proc(5)): a child that has ended is in the
`cutime` and `cstime` of whoever waited for it. `adopt_orphans` makes a process the one who waits for what its children
left behind, so that nobody's time is lost with a parent that died first. The kernel counts in ticks of 10 ms, so a
measurement should be a good second of work.

Memory of a family is the sum of its members' PSS (`smaps_rollup`): a page that several share counts once.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Orphans among this process's descendants become its children from now on, instead of init's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def family(pid: int) -> list[int]:
    """A process and everything below it, as far as it is alive."""
    members = [pid]
    for child in children(pid):
        members += family(child)
    return members


def children(pid: int) -> list[int]:
    """The processes right below one, as far as they are alive; none below one that has ended."""
    found: set[int] = set()
    for task in _threads(pid):
        try:
            found.update(map(int, (task / "children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended since it was listed: its children are another's now
    return sorted(found)


def family_cpu(pid: int) -> float:
    """Seconds of user and system time of a process and everything below it, ended members included."""
    return sum(cpu(member) for member in family(pid))


def family_memory(pid: int) -> int:
    """Bytes that a process and everything below it hold (PSS)."""
    return sum(memory(member, "Pss") for member in family(pid))


def started_at(pid: int) -> int | None:
    """Ticks since the machine's start; None once it has ended. With the pid it names a process for good."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[19])


def kill_left(members: dict[int, int | None], patience: float = 30.0) -> None:
    """SIGKILL to those of a family, pids with `started_at`, that are still there, and wait until they are gone;
    RuntimeError when one is not after `patience` seconds."""
    left = _left(members)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + patience
    while left := _left(members):
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes that do not end: {left}")
        time.sleep(0.01)


def _left(members: dict[int, int | None]) -> list[int]:
    return [pid for pid, started in members.items() if started is not None and started_at(pid) == started]


def cpu(pid: int) -> float:
    """Seconds of a process and of the children it has waited for; 0 for one that has ended since it was listed."""
    fields = _stat(pid)
    # Whoever waited for one that has ended has its time.
    return 0.0 if fields is None else sum(int(ticks) for ticks in fields[11:15]) / _TICK


def own_cpu(pid: int) -> float:
    """Seconds of a process alone, without its children."""
    fields = _stat(pid)
    return 0.0 if fields is None else sum(int(ticks) for ticks in fields[11:13]) / _TICK


class Cost(NamedTuple):
    """Seconds in the program and in the kernel, and minor faults: pages touched first, or copied after a fork."""

    user: float = 0
    system: float = 0
    faults: float = 0

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))

    def divided(self, by: float) -> Cost:
        """Of one of so many."""
        return Cost(*(mine / by for mine in self))


def of_threads(pid: int) -> dict[str, Cost]:
    """What the living threads of a process have cost, by their names."""
    found: dict[str, Cost] = {}
    for task in _threads(pid):
        try:
            name, fields = (task / "comm").read_text().strip(), _fields(task / "stat")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        ticks = [int(fields[place]) for place in (11, 12)]
        found[name] = found.get(name, Cost()) + Cost(ticks[0] / _TICK, ticks[1] / _TICK, int(fields[7]))
    return found


def of_ended_children(pid: int) -> Cost:
    """What the children have cost that a process has waited for."""
    fields = _stat(pid)
    if fields is None:
        return Cost()
    return Cost(int(fields[13]) / _TICK, int(fields[14]) / _TICK, int(fields[8]))


def memory(pid: int, kind: str) -> int:
    """Bytes, `kind` being Pss or Rss; 0 for a process that has ended since it was listed."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(rf"^{kind}: +(\d+) kB", rollup, re.MULTILINE)
    return 0 if found is None else 1024 * int(found.group(1))


def _threads(pid: int) -> list[Path]:
    """A folder of proc(5) for each thread of a process. `Path.glob` would look whether there is a process, then list
    its threads, and fail for one that ends between the two."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def _stat(pid: int) -> list[str] | None:
    """The fields of proc(5) from the third, the state, on."""
    try:
        return _fields(Path(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def _fields(stat: Path) -> list[str]:
    return stat.read_text().rpartition(")")[2].split()
