"""`tool`, `Node`, `ModelRegistry`, `build_catalog`."""

from __future__ import annotations

from typing import Any

import pytest

from hitl.planner import ModelRegistry, Node, NodeSpec, ToolContext, build_catalog, tool
from tests.python.planner.writing import Ok, Text


@tool(desc="Said here", side_effects="write")
async def described(args: Text, ctx: ToolContext) -> Ok:
    """Said there."""
    return Ok(ok=True)


async def plain(args: Text, ctx: ToolContext) -> Ok:
    """Said there."""
    return Ok(ok=True)


@pytest.fixture
def registry() -> ModelRegistry:
    registry = ModelRegistry()
    for name in ("described", "plain", "renamed"):
        registry.register(name, Text, Ok)
    return registry


def test_a_catalog_lists_what_its_nodes_are(registry: ModelRegistry) -> None:
    nodes = [Node(described), Node(plain), Node(plain, name="renamed")]
    assert build_catalog(nodes, registry) == [
        NodeSpec(nodes[0], "described", "Said here", Text, Ok, "write"),
        NodeSpec(nodes[1], "plain", "Said there.", Text, Ok, "pure"),
        NodeSpec(nodes[2], "renamed", "Said there.", Text, Ok, "pure"),
    ]


async def test_a_decorated_function_is_the_function() -> None:
    assert await described(Text(text="x"), None) == Ok(ok=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("effect", ["pure", "read", "write", "external", "stateful"])
def test_side_effects_are_of_five_kinds(effect: Any) -> None:
    tool(desc="d", side_effects=effect)(plain)


def test_other_side_effects_are_an_error() -> None:
    with pytest.raises(ValueError, match="side_effects is one of"):
        tool(desc="d", side_effects="maybe")  # type: ignore[arg-type]


def test_a_decorator_without_its_brackets_is_an_error() -> None:
    with pytest.raises(TypeError, match="@tool"):
        tool(plain)  # type: ignore[arg-type]


def test_a_node_is_an_async_function_of_two() -> None:
    with pytest.raises(TypeError, match="async"):
        Node(lambda args, ctx: None)  # type: ignore[arg-type, return-value]

    async def alone() -> None: ...

    with pytest.raises(TypeError, match="args, ctx"):
        Node(alone)  # type: ignore[arg-type]


def test_models_must_be_registered(registry: ModelRegistry) -> None:
    with pytest.raises(KeyError, match="'unknown'"):
        build_catalog([Node(plain, name="unknown")], registry)


def test_models_are_registered_once(registry: ModelRegistry) -> None:
    with pytest.raises(ValueError, match="already"):
        registry.register("plain", Text, Ok)


def test_models_are_pydantic_models(registry: ModelRegistry) -> None:
    with pytest.raises(TypeError, match="pydantic"):
        registry.register("other", dict, Ok)  # type: ignore[arg-type]
