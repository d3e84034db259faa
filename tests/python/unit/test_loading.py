"""MODULE:ATTR, and what is said when it does not work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hitl.errors import AgentLoadError
from hitl.worker.loading import load_agent
from tests.python.support.imported import forget

GOOD = "async def agent(message, state):\n    return message, state\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Writes modules into the working directory, which is on the path, as it is under `hitl serve`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str = GOOD) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    yield write
    forget(tmp_path)


def failure(spec: str) -> tuple[str, str]:
    with pytest.raises(AgentLoadError) as caught:
        load_agent(spec)
    return str(caught.value), caught.value.hint or ""


def test_it_loads_a_function_and_names_it(module: Callable[..., None]) -> None:
    module("app_good.py")
    assert load_agent("app_good:agent").name == "agent"


def test_modules_and_attributes_may_have_dots(module: Callable[..., None]) -> None:
    module("pack_a/__init__.py", "")
    module("pack_a/inner.py", "class Box:\n    @staticmethod\n    def agent(message, state): ...\n")
    assert load_agent("pack_a.inner:Box.agent").name == "agent"


@pytest.mark.parametrize("spec", ["app", "app:", ":agent", "", ":"])
def test_what_is_no_module_and_attribute(spec: str) -> None:
    message, hint = failure(spec)
    assert message == f"{spec!r} does not name an agent"
    assert "MODULE:ATTR" in hint


def test_a_path_is_shown_as_a_module() -> None:
    message, hint = failure("./hitl/examples/file_agent.py:agent")
    assert "is a path, not a module" in message
    assert hint == "did you mean hitl.examples.file_agent:agent?"


def test_a_module_that_is_not_there(module: Callable[..., None]) -> None:
    module("file_agent.py")
    assert failure("file_agnet:agent") == ("there is no module 'file_agnet'", "did you mean file_agent?")
    message, hint = failure("zzz:agent")
    assert message == "there is no module 'zzz'"
    assert "directory that holds the module" in hint


def test_a_module_that_is_not_in_its_package(module: Callable[..., None]) -> None:
    module("pack_b/__init__.py", "")
    module("pack_b/worker.py")
    assert failure("pack_b.wroker:agent") == ("there is no module 'pack_b.wroker'", "did you mean pack_b.worker?")
    message, _ = failure("pack_c.worker:agent")
    assert message == "there is no module 'pack_c'"


def test_an_attribute_that_is_not_there(module: Callable[..., None]) -> None:
    module("app_attr.py", "def my_agent(message, state): ...\n")
    assert failure("app_attr:my_agnet") == ("app_attr has no attribute 'my_agnet'", "did you mean my_agent?")
    assert failure("app_attr:zzz") == ("app_attr has no attribute 'zzz'", "it defines my_agent")
    module("app_made.py", "def tool(): ...\nclass Made:\n    def run_turn(self, message, state): ...\nagent = Made()\n")
    assert failure("app_made:zzz") == ("app_made has no attribute 'zzz'", "it defines agent, Made, tool")
    assert failure("app_attr:my_agent.zzz")[0] == "app_attr.my_agent has no attribute 'zzz'"


def test_notes_of_what_an_import_raised_are_said(module: Callable[..., None]) -> None:
    module("app_bare.py", "import hitl\n@hitl.step\nasync def charge(): ...\n")
    message, hint = failure("app_bare:charge")
    assert message == "importing app_bare failed: RuntimeError: step() called outside a hitl run (app_bare.py:2)"
    assert hint == "to decorate a function, write @hitl.step() with parentheses"
    module("app_noted.py", "error = ValueError('no key')\nerror.add_note('of the\\nbank')\nraise error\n")
    assert (
        failure("app_noted:agent")[0] == "importing app_noted failed: ValueError: no key; of the bank (app_noted.py:3)"
    )


def test_a_wrong_shape_is_named_by_its_spec(module: Callable[..., None]) -> None:
    module("app_shape.py", "agent = 42\n")
    assert failure("app_shape:agent")[0] == "app_shape:agent is of type int, not an agent"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "x = 1\nraise ValueError('no key\\nset KEY')\n",
            "importing app_bad failed: ValueError: no key (app_bad.py:2)",
            "",
        ),
        ("x = 1 +\n", "importing app_bad failed: SyntaxError: invalid syntax (app_bad.py, line 1) (app_bad.py:1)", ""),
        (
            "import no_such_library\n",
            "importing app_bad failed: ModuleNotFoundError: No module named 'no_such_library' (app_bad.py:1)",
            "install what provides 'no_such_library'",
        ),
        ("import sys\nsys.exit()\n", "importing app_bad failed: SystemExit (app_bad.py:2)", "__main__"),
        ("assert False\n", "importing app_bad failed: AssertionError (app_bad.py:1)", ""),
        (
            "from json import nothing_such\n",
            "importing app_bad failed: ImportError: cannot import name 'nothing_such' from 'json'",
            "",
        ),
    ],
)
def test_a_module_that_fails_says_why_and_where_in_one_line(
    module: Callable[..., None], text: str, message: str, hint: str
) -> None:
    module("app_bad.py", text)
    said, hinted = failure("app_bad:agent")
    assert said.startswith(message)
    assert "\n" not in said
    assert hint in hinted


NEEDS = """from hitl.models import AnthropicChatClient


class Mine(AnthropicChatClient):
    _package = 'no_such_package'


Mine()
"""
REFUSED = """from hitl import tool


@tool(timeout='soon')
def wait() -> str:
    return ''
"""


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            NEEDS,
            "ModelNotConfigured: Mine needs the no_such_package package (app_refused.py:8)",
            "pip install 'hitl-runtime[no_such_package]'",
        ),
        (REFUSED, "TypeError: timeout is a number of seconds or None, got 'soon' (app_refused.py:4)", ""),
    ],
)
def test_what_hitl_refuses_keeps_its_hint_and_is_told_of_the_line_that_asked_for_it(
    module: Callable[..., None], text: str, message: str, hint: str
) -> None:
    module("app_refused.py", text)
    assert failure("app_refused:agent") == (f"importing app_refused failed: {message}", hint)


def test_the_place_is_where_it_went_wrong_not_where_the_import_started(module: Callable[..., None]) -> None:
    module("app_outer.py", "import app_inner\n")
    module("app_inner.py", "\n\ndef f():\n    return {}['x']\nf()\n")
    assert failure("app_outer:agent")[0] == "importing app_outer failed: KeyError: 'x' (app_inner.py:4)"
