"""What there is for asyncio and for programs without an event loop is called in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import hitl
from hitl.client import AsyncClient, Client


@dataclass
class Twins:
    """Two that do the same, and the parameters that may differ, each with a reason."""

    awaited: Callable[..., Any]
    blocking: Callable[..., Any]
    differ: dict[str, str]


_CALLED_ONLY = "without a function it makes a decorator, which has a `.sync` of its own"

TWINS = {
    "approval": Twins(hitl.approval, hitl.approval.sync, {}),
    "interrupt": Twins(hitl.interrupt, hitl.interrupt.sync, {}),
    "step": Twins(hitl.step, hitl.step.sync, {"fn": _CALLED_ONLY}),
    "now": Twins(hitl.now, hitl.now.sync, {}),
    "patched": Twins(hitl.patched, hitl.patched.sync, {}),
    "random": Twins(hitl.random, hitl.random.sync, {}),
    "uuid": Twins(hitl.uuid, hitl.uuid.sync, {}),
    "run": Twins(hitl.run, hitl.run_sync, {}),
    "stream": Twins(hitl.stream, hitl.stream_sync, {}),
    "run and stream": Twins(hitl.run, hitl.stream, {}),
    "RunState.from_store": Twins(hitl.RunState.from_store, hitl.RunState.from_store_sync, {}),
    "Store.close": Twins(hitl.Store.close, hitl.Store.close_sync, {}),
    "Client": Twins(AsyncClient, Client, {}),
    **{
        f"Client.{name}": Twins(getattr(AsyncClient, name), method, {})
        for name, method in inspect.getmembers(Client, callable)
        if not name.startswith("_")
    },
}


def parameters(function: Callable[..., Any], differ: dict[str, str]) -> list[inspect.Parameter]:
    """In their order, each with its kind, default and annotation."""
    found = inspect.signature(function).parameters
    assert differ.keys() <= found.keys(), "a difference is named that is none any more"
    return [parameter for name, parameter in found.items() if name not in differ]


@pytest.mark.parametrize("twins", TWINS.values(), ids=TWINS)
def test_twins_take_the_same_arguments(twins: Twins) -> None:
    assert parameters(twins.awaited, twins.differ) == parameters(twins.blocking, twins.differ)


def test_every_public_name_with_a_twin_is_compared() -> None:
    public = [name for name in hitl.__all__ if hasattr(getattr(hitl, name), "sync")]
    ending = [name.removesuffix("_sync") for name in hitl.__all__ if name.endswith("_sync")]
    methods = [
        f"{of.__name__}.{name.removesuffix('_sync')}"
        for of in (hitl.RunState, hitl.Store)
        for name in dir(of)
        if name.endswith("_sync")
    ]
    assert {*public, *ending, *methods} <= TWINS.keys()


def test_the_clients_have_the_same_methods() -> None:
    def public(client: type) -> set[str]:
        return {name for name in dir(client) if not name.startswith("_")}

    assert public(AsyncClient) == public(Client)
