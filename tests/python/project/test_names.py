"""Public names: all there, imported late, and hidden by no module."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import hitl
from hitl import errors
from tests.python.support.frameworks import modules

PACKAGES = ["hitl", "hitl.client", "hitl.hooks", "hitl.models", "hitl.planner", "hitl.testing"]


def test_every_public_name_is_there_after_every_module_was_imported() -> None:
    """A module `hitl/tool.py` would take the place of `hitl.tool` as soon as somebody imports it."""
    code = """
import importlib, sys, types
import hitl
for module in MODULES:
    importlib.import_module(module)
for name in PACKAGES:
    package = sys.modules[name]
    for public in package.__all__:
        value = getattr(package, public)
        assert not isinstance(value, types.ModuleType), f"{name}.{public} is a module"
print("done")
"""
    completed = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:hitl:DeprecationWarning",
            "-c",
            code.replace("PACKAGES", repr(PACKAGES)).replace("MODULES", repr(modules())),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert completed.stdout == "done\n", completed.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_called_like_a_public_name(package: str) -> None:
    module = importlib.import_module(package)
    modules = {info.name for info in pkgutil.iter_modules(module.__path__)}
    assert not modules & set(module.__all__)


@pytest.mark.parametrize(
    "name",
    [
        "AgentRuntime",
        "ApprovalMismatch",
        "HookCall",
        "HookFailed",
        "InvalidArguments",
        "InvalidOption",
        "MCPServerError",
        "MaxStepsExceeded",
        "ModelNotConfigured",
        "RunStream",
        "ServeError",
        "current_run",
    ],
)
def test_what_users_catch_or_annotate_is_public_wherever_it_is_defined(name: str) -> None:
    assert name in hitl.__all__
    assert getattr(hitl, name).__name__ == name


def test_every_error_of_the_catalogue_is_public() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    defined = {name for name, cls in classes.items() if cls.__module__ == errors.__name__}
    assert defined <= set(hitl.__all__)


def test_names_are_offered_for_completion() -> None:
    assert set(hitl.__all__) <= set(dir(hitl))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tols'"):
        hitl.tols  # noqa: B018


def test_importing_hitl_imports_nothing_heavy() -> None:
    heavy = "{'pydantic', 'openai', 'httpx2', 'typer', 'rich', 'prompt_toolkit', 'mcp', 'asyncio', 'hitl._core'}"
    code = f"import sys, hitl; print(sorted({heavy} & set(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True)
    assert completed.stdout == "[]\n"
