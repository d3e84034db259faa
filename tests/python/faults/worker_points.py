"""Places in a worker where it can be made to die: `HITL_WORKER_FAILPOINT=<place>@<n>`.

The worker's own code knows nothing of them: the module that holds the agent calls `arm()`, which wraps what is to be
died before or after. Of all workers that come by, one dies: that which gets the file `HITL_WORKER_FAILPOINT_MARK`.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hitl.driver import port
from hitl.turn import bodies
from hitl.worker import protocol

_METHODS: dict[str, tuple[type | ModuleType, str]] = {
    "worker.turn": (protocol.Worker, "_start"),
    "worker.over": (protocol.Worker, "_gone"),
    "worker.body": (bodies, "start_body"),
    "worker.body_done": (bodies, "_body_done"),
    "worker.intent": (port.ChannelPort, "intent"),
    "worker.step": (port.ChannelPort, "step"),
    "worker.ask": (port.ChannelPort, "ask"),
    "worker.timer": (port.ChannelPort, "timer"),
    "worker.withdraw": (port.ChannelPort, "withdraw"),
    "worker.waiting": (port.ChannelPort, "waiting"),
    "worker.replayed": (port.ChannelPort, "replayed"),
    "worker.end": (port.ChannelPort, "end"),
    "worker.acknowledged": (port.ChannelPort, "_acknowledged"),
    "worker.answered": (port.ChannelPort, "_answered"),
    "worker.expired": (port.ChannelPort, "_expired"),
}

PLACES = [f"{name}.{when}" for name in _METHODS for when in ("before", "after")]


def arm() -> None:
    """Do what the environment says, if it does."""
    wanted = os.environ.get("HITL_WORKER_FAILPOINT")
    if wanted is None:
        return
    place, _, hit = wanted.partition("@")
    name, _, when = place.rpartition(".")
    owner, attribute = _METHODS[name]
    original = getattr(owner, attribute)
    wrapped = _dying(original, when, int(hit), os.environ["HITL_WORKER_FAILPOINT_MARK"])
    setattr(owner, attribute, wrapped)
    for frame, receiver in port._RECEIVERS.items():
        if receiver is original:
            port._RECEIVERS[frame] = wrapped


def _dying(original: Callable[..., Any], when: str, hit: int, mark: str) -> Callable[..., Any]:
    hits = 0

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal hits
        hits += 1
        if hits == hit and when == "before":
            _die(mark)
        result = original(*args, **kwargs)
        if hits == hit and when == "after":
            _die(mark)
        return result

    return call


def _die(mark: str) -> None:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
