"""What a planner may do: functions with pydantic models for what they take and return."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel

NodeFunction = Callable[[Any, Any], Awaitable[Any]]
"""`(arguments, ToolContext)`: its model of arguments, and what a tool may do besides."""

F = TypeVar("F", bound=Callable[..., Any])

SideEffect = Literal["pure", "read", "write", "external", "stateful"]

_ATTRIBUTE: Final = "__hitl_planner_tool__"


def tool(desc: str | None = None, side_effects: SideEffect = "pure") -> Callable[[F], F]:
    """Say something about a function of the catalog: `@tool(desc="...", side_effects="write")`.

    Args:
        desc: What the model is told it does (default: the docstring).
        side_effects: What it touches; for people and programs that read the catalog.

    Raises TypeError for a description that is no text, and ValueError for side effects of which there is no word.

    Example:
        @planner.tool(desc="Write a line", side_effects="write")
        async def write_line(args: Line, ctx: planner.ToolContext) -> Done:
            return Done(ok=True)
    """
    described: Any = desc
    if not isinstance(described, str | None):
        raise TypeError('tool() takes a description: write @tool(desc="...")')
    if side_effects not in get_args(SideEffect):
        raise ValueError(f"side_effects is one of {', '.join(get_args(SideEffect))}; got {side_effects!r}")

    def mark(function: F) -> F:
        setattr(function, _ATTRIBUTE, (desc, side_effects))
        return function

    return mark


@dataclass(frozen=True)
class Node:
    """A function `async (args, ctx) -> result`, and what the model calls it (default: the function's name).

    Example:
        node = Node(write_line, name="write")
    """

    func: NodeFunction
    name: str | None = None

    def __post_init__(self) -> None:
        if not inspect.iscoroutinefunction(self.func):
            raise TypeError(f"a Node needs an async function (args, ctx), got {self.func!r}")
        try:
            inspect.signature(self.func).bind(None, None)
        except TypeError as error:
            raise TypeError(f"{self.func.__name__} must take (args, ctx): {error}") from None


class ModelRegistry:
    """Which models each node takes and returns.

    Example:
        registry = ModelRegistry()
        registry.register("write_line", Line, Done)
    """

    def __init__(self) -> None:
        self._models: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {}

    def register(self, node_name: str, in_model: type[BaseModel], out_model: type[BaseModel]) -> None:
        """Set the models of a node; ValueError for one that has some already, TypeError for what is none."""
        from pydantic import BaseModel

        given: tuple[Any, ...] = (in_model, out_model)
        for model in given:
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                raise TypeError(f"the models of {node_name!r} must be pydantic models, got {model!r}")
        if node_name in self._models:
            raise ValueError(f"{node_name!r} is registered already")
        self._models[node_name] = (in_model, out_model)

    def models(self, node_name: str) -> tuple[type[BaseModel], type[BaseModel]]:
        """What a node takes and returns; KeyError for one that is not registered."""
        try:
            return self._models[node_name]
        except KeyError:
            raise KeyError(f"no models are registered for {node_name!r}") from None


@dataclass(frozen=True)
class NodeSpec:
    """One entry of a catalog."""

    node: Node
    name: str
    desc: str
    args_model: type[BaseModel]
    out_model: type[BaseModel]
    side_effects: SideEffect = "pure"


def build_catalog(nodes: Iterable[Node], registry: ModelRegistry) -> list[NodeSpec]:
    """The catalog of some nodes, in their order; KeyError for one whose models are not registered.

    Example:
        registry = ModelRegistry()
        registry.register("write_line", Line, Done)
        catalog = build_catalog([Node(write_line)], registry)
    """
    specs = []
    for node in nodes:
        name = node.name or node.func.__name__
        marked: tuple[str | None, SideEffect] = getattr(node.func, _ATTRIBUTE, (None, "pure"))
        desc, side_effects = marked
        told = desc if desc is not None else inspect.getdoc(node.func) or name
        specs.append(NodeSpec(node, name, told, *registry.models(name), side_effects))
    return specs
