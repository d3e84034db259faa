"""What `import hitl` costs, and that every public name is there."""

import importlib
import json
import subprocess
import sys

import pytest

import hitl
from hitl.cli.app import COMMANDS
from tests.python.support.frameworks import modules

HEAVY = {"pydantic", "openai", "httpx2", "typer", "rich", "mcp", "asyncio"}


def in_a_new_interpreter(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_hitl_takes_less_than_100_ms() -> None:
    # Processor time, the best of three: what else runs on the machine is not what is measured.
    code = "import time; start = time.process_time(); import hitl; print(time.process_time() - start)"
    assert min(float(in_a_new_interpreter(code)) for _ in range(3)) < 0.1


def test_importing_hitl_imports_nothing_that_is_not_used() -> None:
    loaded = json.loads(in_a_new_interpreter("import json, sys, hitl; print(json.dumps(list(sys.modules)))"))
    assert not HEAVY & set(loaded)


def test_serving_imports_no_other_command_and_nothing_heavy() -> None:
    code = "import json, sys; from hitl.cli.app import program; program('serve'); print(json.dumps(list(sys.modules)))"
    loaded = set(json.loads(in_a_new_interpreter(code)))
    assert loaded & set(COMMANDS.values()) == {"hitl.cli.serve"}
    assert loaded & HEAVY == {"typer"}


def test_declaring_a_tool_starts_no_event_loop() -> None:
    """Nor what a journal needs for values that nobody has made."""
    loaded = set(
        json.loads(
            in_a_new_interpreter("import json, sys; from hitl import tool; print(json.dumps(list(sys.modules)))")
        )
    )
    assert not loaded & {*HEAVY, "hitl.journal.codec"}


def test_an_agent_imports_nothing_for_values_that_nobody_has_made() -> None:
    code = "import json, sys; from hitl import ReActAgent, tool; print(json.dumps(list(sys.modules)))"
    loaded = set(json.loads(in_a_new_interpreter(code)))
    assert not loaded & {*HEAVY - {"asyncio"}, "uuid", "decimal", "pathlib", "hitl.driver.shapes"}


def test_the_version_is_printed_without_any_command() -> None:
    code = (
        "import json, sys; from hitl.cli.app import program; program('--version'); print(json.dumps(list(sys.modules)))"
    )
    assert not set(json.loads(in_a_new_interpreter(code))) & set(COMMANDS.values())


@pytest.mark.filterwarnings("ignore:hitl.:DeprecationWarning")  # an old path says that it is one
def test_every_public_name_is_there_after_every_module_was_imported() -> None:
    """A submodule with the name of a public object would hide it once it is imported."""
    for module in modules():
        importlib.import_module(module)
    for name in hitl.__all__:
        value = getattr(hitl, name)
        assert type(value).__name__ != "module", f"hitl.{name} is a module"


def test_dir_shows_the_public_names_before_they_are_imported() -> None:
    assert set(hitl.__all__) <= set(dir(hitl))


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hitl' has no attribute 'intrrupt'"):
        hitl.intrrupt  # noqa: B018
