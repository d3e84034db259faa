"""Generated agents. A program is a tree of plain lists, so that another process, or another Python, can run it too.

A node is ``[kind, number, ...]``; the number tells nodes apart, ``agents.py`` says what follows it.
"""

from __future__ import annotations

import random
from typing import Any

Node = list[Any]

_LEAVES = ["step", "step", "step", "ask", "ask", "sleep", "clock", "thread", "fail", "once", "keyed", "yield", "count"]
_BRANCHES = [
    "seq",
    "gather",
    "gather",
    "group",
    "wait all",
    "wait error",
    "race",
    "race",
    "as completed",
    "timeout",
    "wait for",
    "cancel",
    "shield",
    "queue",
    "lock",
    "event",
    "finally",
    "leave",
    "callback",
    "iterate",
    "names",
    "tool",
    "tool",
    "sync tool",
]
KINDS = frozenset(_LEAVES + _BRANCHES)
"""What nodes do."""

# Raw I/O, and what may stand around it: nothing else of the turn runs meanwhile, since nobody records who is first.
_RAW_LEAVES = ["socket", "executor"]
_RAW_BRANCHES = ["seq", "iterate", "finally", "tool", "timeout"]
# Connections that stay open around what their children do; they are silent meanwhile.
_CONNECTIONS = ["idle", "reader"]

# What a thread can do by itself.
_SYNC_LEAVES = ["step", "ask", "clock", "fail", "once"]
# Seconds. Most steps are over at once: what is looked for are orders, and those come from ties as well.
_LATENCIES = [0, 0, 0, 0.001, 0.002, 0.004]
_DEADLINES = [0, 0.001, 0.002, 0.004, 0.01]


class _Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def node(self, depth: int) -> Node:
        leaf = depth == 0 or self.random.random() < 0.2
        return self._make(self.random.choice(_LEAVES if leaf else _BRANCHES), depth - 1)

    def raw_node(self, depth: int, *, is_connected: bool = False) -> Node:
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf(_RAW_LEAVES if self.random.random() < 0.5 else ["step", "ask", "clock", "once", "thread"])
        self.count += 1
        kinds = _RAW_BRANCHES + _CONNECTIONS * 2 if is_connected else _RAW_BRANCHES
        kind, number = self.random.choice(kinds), self.count
        parts = [self.raw_node(depth - 1, is_connected=is_connected) for _ in range(self.random.randint(1, 3))]
        return [kind, number, 3600, ["seq", number, parts]] if kind == "timeout" else [kind, number, parts]

    def leaf(self, kinds: list[str]) -> Node:
        return self._make(self.random.choice(kinds), 0)

    def _make(self, kind: str, depth: int) -> Node:
        draw = self.random
        self.count += 1
        node: Node = [kind, self.count]
        if kind in ("step", "thread", "once", "sleep", "socket", "executor"):
            return [*node, draw.choice(_LATENCIES)]
        if kind == "keyed":
            return [*node, draw.choice(_LATENCIES), f"key-{self.count % 3}"]
        if kind == "ask":
            return [*node, draw.choice(["at once", "soon", "late", "expires"])]
        if kind in ("clock", "fail", "yield", "count"):
            return node
        if kind in ("timeout", "wait for", "shield", "callback"):
            return [*node, draw.choice(_DEADLINES), self.node(depth)]
        if kind == "gather":
            return [*node, draw.random() < 0.5, self._several(depth, 2, 4)]
        if kind == "sync tool":
            return [*node, [self.leaf(_SYNC_LEAVES) for _ in range(draw.randint(1, 3))]]
        if kind in ("seq", "tool", "finally", "leave", "cancel", "event"):
            return [*node, self._several(depth, 1, 3)]
        return [*node, self._several(depth, 2, 3)]

    def _several(self, depth: int, least: int, most: int) -> list[Node]:
        return [self.node(depth) for _ in range(self.random.randint(least, most))]


def generate(seed: int) -> Node:
    """The program of that seed: always the same."""
    generator = _Generator(seed)
    if seed % 10 == 9:  # a sync agent: the whole of it runs in a thread
        return ["sync tool", 0, [generator.leaf(_SYNC_LEAVES) for _ in range(generator.random.randint(1, 5))]]
    return ["seq", 0, [generator.node(2 + seed % 2) for _ in range(generator.random.randint(1, 3))]]


def generate_with_raw_io(seed: int) -> Node:
    """An agent that also awaits sockets and executors, one thing at a time."""
    generator = _Generator(seed)
    return ["seq", 0, [generator.raw_node(2) for _ in range(generator.random.randint(2, 4))]]


def generate_with_connections(seed: int) -> Node:
    """The same, with connections that stay open, some of them with a task that reads for as long as they live."""
    generator = _Generator(seed)
    return ["reader", 0, [generator.raw_node(2, is_connected=True) for _ in range(generator.random.randint(2, 4))]]


def generate_with_idle_connections(seed: int) -> Node:
    """Connections that nobody reads from, so that whenever it asks it awaits nothing but a person."""
    generator = _Generator(seed)
    parts = [generator.raw_node(2, is_connected=True) for _ in range(generator.random.randint(2, 4))]
    return _asking_in_pauses(["idle", 0, [*parts, ["ask", generator.count + 1, "paused"]]])


def _asking_in_pauses(node: Node) -> Node:
    if node[0] == "ask":
        return [*node[:2], "paused"]
    kind = "idle" if node[0] == "reader" else node[0]
    if kind == "timeout":
        return [*node[:3], _asking_in_pauses(node[3])]
    return [kind, node[1], *node[2:-1], [_asking_in_pauses(part) for part in node[-1]]] if children(node) else node


def size(program: Node) -> int:
    """How many nodes it has."""
    return 1 + sum(size(part) for part in children(program))


def children(node: Node) -> list[Node]:
    """The nodes right below it."""
    last = node[-1]
    if node[0] in ("timeout", "wait for", "shield", "callback"):
        return [last]
    return last if isinstance(last, list) else []
