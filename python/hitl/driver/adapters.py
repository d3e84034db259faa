"""Agents of other frameworks: which adapter makes one of ours of an object, found without importing any.

The adapter is looked up by the packages that the classes of the object are from, ours first, then those that others
offer as entry points of the group ``hitl.agents``: the name is the package, the object is a callable
``as_agent(agent)``. Its framework is imported by then: the object is of it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from hitl.errors import AgentLoadError

GROUP: Final = "hitl.agents"
"""The group of entry points in which others offer adapters."""

_OURS: Final[dict[str, tuple[str, str, str]]] = {
    "langgraph": ("hitl.ext.langgraph", "langgraph", "a compiled graph of LangGraph"),
    "pydantic_ai": ("hitl.ext.pydantic_ai", "pydantic-ai", "pydantic_ai.Agent"),
    "strands": ("hitl.ext.strands", "strands", "strands.Agent, a Graph or Swarm"),
    "agents": ("hitl.ext.openai_agents", "openai-agents", "agents.Agent (OpenAI Agents SDK)"),
}
"""By package: our module for it, the extra with what that needs, and what of the package it takes."""

_TELLTALE: Final = {"agents": "agents.run_context"}
"""What of a package is imported only where it is the framework's: many a program has a package `agents` of its own."""


def adapt(candidate: Any, what: str) -> Any:
    """An object with ``run_turn`` for the agent of a framework; None for whatever is not one. ``what`` names it in an
    AgentLoadError: of a framework, but none of its agents, or with a version that is not supported."""
    packages = _packages_of(candidate)
    for package in packages:
        if package in _OURS and _TELLTALE.get(package, package) in sys.modules:
            return _adapted(candidate, what, package)
    if inspect.isroutine(candidate) or hasattr(candidate, "run_turn"):
        return None  # most agents by far: nobody's metadata is read for them
    for package in packages:
        load = _others().get(package)
        if load is not None:
            return load()(candidate)
    return None


def accepted() -> str:
    """What is taken as an agent, in words."""
    frameworks = [shown for _, _, shown in _OURS.values()] + [f"an agent of {package}" for package in _others()]
    shapes = [
        "a function (message, state)",
        "an object with run_turn(message, state), as hitl.ReActAgent is",
        *frameworks,
    ]
    return f"an agent is {', '.join(shapes)}, or a function without parameters that makes one of these"


def _adapted(candidate: Any, what: str, package: str) -> Any:
    module, extra, shown = _OURS[package]
    try:
        adapter = import_module(module)
    except ImportError as error:
        raise AgentLoadError(
            f"{what} is of {package}, and hitl cannot use what is installed of that: {error}",
            f"pip install 'hitl-runtime[{extra}]' installs a version that fits",
        ) from error
    if not adapter.is_agent(candidate):
        raise AgentLoadError(
            f"{what} is of type {type(candidate).__name__}, not an agent", f"of {package}, {shown} is taken"
        )
    return adapter.as_agent(candidate)


def _packages_of(candidate: Any) -> list[str]:
    """The top-level packages of its class and of those that this is made from, each once."""
    return list(dict.fromkeys(each.__module__.partition(".")[0] for each in type(candidate).__mro__))


@functools.cache
def _others() -> dict[str, Callable[[], Callable[[Any], Any]]]:
    # Late: it reads the metadata of all that is installed, and only an object that nothing else knows asks for it.
    from importlib.metadata import entry_points

    return {each.name: each.load for each in entry_points(group=GROUP)}
