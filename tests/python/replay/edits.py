"""Edits of generated agents, and what a journal says about them, worked out without the runtime.

Only agents whose every path is fixed by their text are edited: nothing in them depends on time, chance or failures.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from hitl.journal.codec import fingerprint
from tests.python.replay.programs import Node
from tests.python.support.local import Journal

_LATENCIES = [0, 0, 0.001]
_LEAVES = ["step", "step", "thread", "ask", "clock", "once", "keyed"]
_SYNC_LEAVES = ["step", "ask", "clock"]
_BRANCHES = ["seq", "gather", "wait all", "iterate", "finally", "tool", "tool", "sync tool"]

EDITS = ["add", "remove", "rename", "swap", "arguments"]


class Author:
    """Writes such an agent, and edits it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def program(self) -> Node:
        """An agent."""
        return ["seq", 0, [self.node(2) for _ in range(self.random.randint(2, 4))]]

    def node(self, depth: int) -> Node:
        """Something that an agent does."""
        if depth == 0 or self.random.random() < 0.4:
            return self.leaf(_LEAVES)
        self.count += 1
        kind, number = self.random.choice(_BRANCHES), self.count
        if kind == "sync tool":
            return [kind, number, [self.leaf(_SYNC_LEAVES) for _ in range(self.random.randint(1, 3))]]
        parts = [self.node(depth - 1) for _ in range(self.random.randint(1, 3))]
        return [kind, number, False, parts] if kind == "gather" else [kind, number, parts]

    def leaf(self, kinds: list[str]) -> Node:
        """Something that an agent asks for."""
        self.count += 1
        kind = self.random.choice(kinds)
        if kind == "ask":
            return [kind, self.count, self.random.choice(["at once", "soon"])]
        if kind == "clock":
            return [kind, self.count]
        latency = self.random.choice(_LATENCIES)
        return [kind, self.count, latency, f"key-{self.count}"] if kind == "keyed" else [kind, self.count, latency]

    def edit(self, program: Node, how: str) -> Node | None:
        """The program, edited in one place; None where it has no such place."""
        edited = copy.deepcopy(program)
        places = [(node, index) for node in _branches(edited) for index in range(len(node[-1]))]
        self.random.shuffle(places)
        for node, index in places:
            if self._edit(node, index, how):
                return edited
        return None

    def _edit(self, node: Node, index: int, how: str) -> bool:
        parts, part = node[-1], node[-1][index]
        is_sync = node[0] == "sync tool"
        if how == "add":
            parts.insert(index + self.random.randint(0, 1), self.leaf(_SYNC_LEAVES if is_sync else _LEAVES))
        elif how == "remove":
            if len(parts) == 1:
                return False
            del parts[index]
        elif how == "swap":
            if len(parts) == 1:
                return False
            other = (index + 1) % len(parts)
            parts[index], parts[other] = parts[other], parts[index]
        elif how == "rename":
            renamed = {"step": "thread", "thread": "step"}.get(part[0])
            if is_sync or renamed is None:
                return False
            part[0] = renamed
        elif part[0] in ("step", "thread", "once", "keyed"):
            part[2] += 0.0005
        elif part[0] == "ask":
            self.count += 1
            part[1] = self.count
        else:
            return False
        return True


def _branches(node: Node) -> Iterator[Node]:
    if isinstance(node[-1], list):
        yield node
        for part in node[-1]:
            yield from _branches(part)


# -- what an agent asks for --------------------------------------------------------------------------------------------

_Identity = tuple[str, str, dict[str, str]]


class _Place:
    """Where steps are numbered: a task, of the turn or of a body."""

    def __init__(self, prefix: str = "", task: str = "0") -> None:
        self.prefix = prefix
        self.task = task
        self.steps = 0
        self.children = 0

    def step(self) -> str:
        self.steps += 1
        return f"{self.prefix}{self.task}#{self.steps}"

    def child(self) -> _Place:
        self.children += 1
        return _Place(self.prefix, f"{self.task}.{self.children}")


@dataclass
class _Ask:
    path: str
    identity: _Identity
    body: Callable[[], _Walk] | None = None


_Walk = Generator["_Ask | list[_Task]", None, None]


class _Task:
    def __init__(self, walk: _Walk) -> None:
        self.walk = walk
        self.awaits = 0
        self.awaited_by: _Task | None = None


def _walk(node: Node, place: _Place, spawn: Callable[[_Walk], _Task], *, sync: bool = False) -> _Walk:
    """What an agent asks for, as it goes. It yields an ask, or tasks to wait for."""
    kind, number = node[0], node[1]
    if kind in ("gather", "wait all"):
        yield [spawn(_walk(part, place.child(), spawn)) for part in node[-1]]
    elif kind in ("tool", "sync tool"):
        path = place.step()
        name = "Agent._do_tool.<locals>.tool" if kind == "tool" else "Agent._do_sync_tool.<locals>.tool"
        inner = ["seq", 0, node[-1]]
        yield _Ask(
            path,
            ("step", name, {"number": fingerprint(number)}),
            lambda: _walk(inner, _Place(f"{path}/"), spawn, sync=kind == "sync tool"),
        )
    elif kind in ("seq", "iterate", "finally"):
        for part in node[-1]:
            yield from _walk(part, place, spawn, sync=sync)
        if kind == "finally":
            yield _Ask(place.step(), _step("Agent.body", number, 0))
    elif kind == "keyed":
        yield _Ask(f"{place.prefix}~{node[3]}", _step("Agent.body", number, node[2]))
    elif kind == "clock":
        yield _Ask(place.step(), ("clock", "random", {}))
    elif kind == "ask":
        question = f"{node[2]} {number}"
        yield _Ask(place.step(), ("interrupt", question, {"payload": fingerprint({"type": question})}))
    else:
        name = "Agent.blocking_body" if kind == "thread" or (sync and kind == "step") else "Agent.body"
        yield _Ask(place.step(), _step(name, number, node[2]))


def _step(name: str, number: int, latency: float) -> _Identity:
    return "step", name, {"number": fingerprint(number), "latency": fingerprint(latency)}


def fits(program: Node, journal: Journal) -> bool:
    """Whether the program, told the journal entry by entry, asks for each before it comes, and for nothing else in its
    place."""
    recorded: dict[str, _Identity] = {}
    asked_as: dict[str, str] = {}
    over: set[str] = set()
    for entry in journal:
        if "step" in entry:
            step = entry["step"]
            recorded[step["path"]] = (step["kind"], step["name"], step["arguments"])
            if entry["entry"] == "step":
                over.add(step["path"])
            elif entry["entry"] == "ask":
                asked_as[entry["interrupt_id"]] = step["path"]
    ready: deque[_Task] = deque()
    waiting: dict[str, _Task] = {}

    def spawn(walk: _Walk) -> _Task:
        task = _Task(walk)
        ready.append(task)
        return task

    def goes_on() -> bool:
        while ready:
            task = ready.popleft()
            wanted = next(task.walk, None)
            if isinstance(wanted, _Ask):
                if recorded.get(wanted.path, wanted.identity) != wanted.identity:
                    return False
                waiting[wanted.path] = task
                is_inside = any(path.startswith(f"{wanted.path}/") for path in recorded)
                if wanted.body is not None and wanted.path not in over and is_inside:
                    spawn(wanted.body())
            elif wanted is not None:
                task.awaits = len(wanted)
                for other in wanted:
                    other.awaited_by = task
            elif task.awaited_by is not None:
                task.awaited_by.awaits -= 1
                if not task.awaited_by.awaits:
                    ready.append(task.awaited_by)
        return True

    spawn(_walk(program, _Place(), spawn))
    for entry in journal:
        path = entry["step"]["path"] if "step" in entry else asked_as.get(entry.get("interrupt_id", ""))
        if path is None or any(path.startswith(f"{outer}/") for outer in over):
            continue
        if not goes_on() or path not in waiting:
            return False
        if entry["entry"] in ("step", "answer"):
            ready.append(waiting[path])
    return goes_on()
