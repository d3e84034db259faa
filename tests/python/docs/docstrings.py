"""What the docstrings of public names show and say: their examples, and the errors that their code raises."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, is_typeddict

import hitl
import hitl.client
import hitl.hooks
import hitl.middleware
import hitl.models
import hitl.planner
import hitl.testing

MODULES = (hitl, hitl.client, hitl.hooks, hitl.middleware, hitl.models, hitl.planner, hitl.testing)

MADE = {
    "hitl.ChatMessage",
    "hitl.Decision",
    "hitl.HookCall",
    "hitl.RunContext",
    "hitl.RunEvent",
    "hitl.TurnRequest",
    "hitl.middleware.Command",
    "hitl.models.ModelSettings",
    "hitl.planner.MemoryKey",
    "hitl.planner.Node",
    "hitl.testing.Human",
}
"""Records that programs make or read by themselves; the others come back, and whatever returns them shows them."""

ELSEWHERE = {
    "hitl.Agent": "a union, which says what is in it",
    "hitl.ask_user_question": "its docstring is what models are told",
    "hitl.client.InterruptStatus": "a Literal",
    "hitl.client.SessionStatus": "a Literal",
}


@dataclass(frozen=True)
class Public:
    """One public name."""

    name: str
    value: Any

    @property
    def text(self) -> str:
        """Its docstring; of a class with that of its `__init__`, of an object that is called with that of the call."""
        parts = [self.value.__dict__.get("__doc__") if inspect.isclass(self.value) else self.value.__doc__]
        if inspect.isclass(self.value) and "__init__" in self.value.__dict__:
            parts.append(self.value.__init__.__doc__)
        elif not inspect.isclass(self.value) and not inspect.isfunction(self.value):
            parts.append(type(self.value).__call__.__doc__)
        return "\n\n".join(inspect.cleandoc(part) for part in parts if part)

    @property
    def wants_example(self) -> bool:
        """Whether somebody calls it, makes one or writes one."""
        if self.name in ELSEWHERE:
            return False
        if not inspect.isclass(self.value):
            return True
        is_record = is_dataclass(self.value) or is_typeddict(self.value) or issubclass(self.value, enum.Enum)
        return self.name in MADE or not (is_record or issubclass(self.value, BaseException))

    @property
    def examples(self) -> list[str]:
        """The code under each `Example:`."""
        found = re.findall(r"^Example:\n((?:    .*\n|\n)+)", self.text + "\n", re.MULTILINE)
        return [textwrap.dedent(code).strip("\n") for code in found]

    @property
    def unsaid(self) -> Iterator[str]:
        """Errors that its own code raises and its docstring does not name: `name: Error`."""
        if inspect.isfunction(self.value):
            for error in raised_by(self.value):
                if error not in self.text:
                    yield f"{self.name}: {error}"
        if inspect.isclass(self.value) and not issubclass(self.value, BaseException):
            for name, function in vars(self.value).items():
                if not inspect.isfunction(function) or (name.startswith("_") and name != "__init__"):
                    continue
                # What a dataclass makes has no source, and a protocol's `__init__` is not ours.
                if function.__code__.co_filename.startswith("<") or not function.__module__.startswith("hitl"):
                    continue
                for error in raised_by(function):
                    if error not in self.text and error not in (function.__doc__ or ""):
                        yield f"{self.name}.{name}: {error}"


def raised_by(function: Any) -> list[str]:
    """The classes of the errors in its `raise` statements, those of functions inside of it too."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return sorted({each.func.id for each in raised if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)})


def public() -> list[Public]:
    """Every public name, each object once."""
    found: dict[int, Public] = {}
    for module in MODULES:
        for name in module.__all__:
            if name != "__version__":
                value = getattr(module, name)
                found.setdefault(id(value), Public(f"{module.__name__}.{name}", value))
    return list(found.values())


PREAMBLE = """
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import hitl
from hitl import *
from hitl import hooks, planner
from hitl.client import AsyncClient, Client
from hitl.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from hitl.middleware import (
    AgentMiddleware, Command, HITLManager, HumanInTheLoopMiddleware, ToolCallAgent, create_hitl_middleware,
    format_tool_call_description,
)
from hitl.models import *
from hitl.planner import (
    MemoryKey, ModelRegistry, Node, PlannerPause, ReactPlanner, StateStore, SupportsPlannerClaims,
    SupportsPlannerState, build_catalog,
)
from hitl.testing import HitlServer, Human, LiveServer, ScriptedChatClient
from tests.python.docs.example_world import *
"""
"""What the examples take as given."""


def program() -> str:
    """All examples as one program, each a function of its own, for type checkers."""
    parts = [PREAMBLE]
    for number, code in enumerate(code for each in public() for code in each.examples):
        parts.append(f"async def example_{number}() -> None:\n{textwrap.indent(code, '    ')}\n")
    return "\n\n".join(parts)
