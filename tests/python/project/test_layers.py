"""The rooms of the package: each module may import only what is below it, imports for types and late ones included."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hitl

PACKAGE = Path(__file__).parents[3] / "python" / "hitl"

WORDS = {"_core", "attachments", "decisions", "errors", "messages", "model_settings", "pythons", "strict_json"}
"""What everybody may know: single modules, which import each other and nothing else."""

_ENGINE = {"words", "journal", "turn"}
_AGENTS = {*_ENGINE, "driver", "tools", "models", "agents"}
_FACES = {*_AGENTS, "runs"}

MAY_IMPORT: dict[str, set[str]] = {
    "words": set(),
    "journal": {"words"},
    "turn": {"words", "journal"},
    "driver": _ENGINE,
    "tools": _ENGINE,
    "models": _ENGINE,
    "agents": _AGENTS,
    "ext": _FACES,
    "runs": {*_ENGINE, "driver"},
    "worker": {*_ENGINE, "driver"},
    "serving": {"words", "driver", "worker"},
    "client": {"words"},
    "hooks": _FACES,
    "middleware": _FACES,
    "planner": _FACES,
    "testing": {"words", "turn", "models", "serving", "client"},
    "cli": {"words", "driver", "worker", "serving", "client"},
    "examples": _FACES,
}
"""What each room may import besides itself; nothing else, not even its neighbour."""

ANYTHING = {"hitl", "hitl.__main__"}
"""The package itself, whose names come from everywhere, late; and what `python -m hitl` runs."""

MOVED = {
    "asking": "hitl.tools.asking",
    "gate": "hitl.tools.gate",
    "interrupts": "hitl.turn.interrupts",
    "mcp_tools": "hitl.tools.mcp",
    "questions": "hitl.tools.questions",
    "serve_options": "hitl.serving.options",
    "steps": "hitl.turn.steps",
    "tool_schema": "hitl.tools.schema",
}
"""Old paths of modules with public names, for one version: each knows its new one, and nobody knows it."""

LATE = {
    "cli": "a command imports what it needs: `hitl --help` and completion answer at once",
    "testing": "pytest imports the plugin at its start, in every project that has hitl installed",
}
"""Rooms that import inside functions throughout, and why. Everywhere else the reason is a comment at the import."""


def modules_in(package: Path) -> dict[str, Path]:
    """The modules of a package that is called `hitl`, by name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = ("hitl", *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """Where a module is; `KeyError` for one that belongs nowhere."""
    name = module.split(".")[1]
    if name in WORDS:
        return "words"
    if name in MOVED:
        return "moved"
    if name not in MAY_IMPORT or name == "words":
        raise KeyError(module)
    return name


def imports_of(path: Path, known: Iterable[str]) -> Iterator[str]:
    """The modules of the package that a file imports: at its top, for its types, inside a function, or as `hitl.x`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "hitl")
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "hitl":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = inner in known or inner == "hitl._core"
                yield (
                    inner
                    if is_module
                    else hitl._EXPORTS.get(alias.name, "hitl")
                    if node.module == "hitl"
                    else node.module
                )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hitl":
            yield hitl._EXPORTS.get(node.attr, "hitl")


def arrows_of(package: Path) -> dict[str, set[str]]:
    """What each module imports."""
    modules = modules_in(package)
    return {module: set(imports_of(path, modules)) - {module} for module, path in modules.items()}


def wrong_arrows(arrows: dict[str, set[str]]) -> list[str]:
    wrong = []
    for module, imported in arrows.items():
        for target in imported if module not in ANYTHING else ():
            if target == "hitl":  # for its version
                continue
            here, there = room_of(module), room_of(target)
            if here == "moved" and target == MOVED[module.split(".")[1]]:
                continue
            if here != there and there not in MAY_IMPORT.get(here, ()):
                wrong.append(f"{module} must not import {target}")
    return sorted(wrong)


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """Where modules import each other, in however many steps: the way round."""
    found, done = [], set[str]()

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            found.append(" -> ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for target in sorted(arrows.get(module, set()) - ANYTHING):
                follow(target, [*way, module])
            done.add(module)

    for module in sorted(arrows.keys() - ANYTHING):
        follow(module, [])
    return found


def late_imports(path: Path) -> Iterator[tuple[int, bool]]:
    """The lines of a file that import something of ours inside a function, and whether a comment there says why."""
    text = path.read_text()
    lines = text.splitlines()
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if not any(name.split(".")[0] == "hitl" for name in names):
                continue
            above = node.lineno - 2
            while lines[above].lstrip().startswith(("from ", "import ")):  # the comment is for all of a block
                above -= 1
            yield node.lineno, lines[above].lstrip().startswith("#") or "#" in lines[node.lineno - 1]


def test_every_module_belongs_to_a_room() -> None:
    modules = modules_in(PACKAGE).keys() - ANYTHING
    assert len(modules) > 100
    rooms = {room_of(module) for module in modules}
    assert rooms == {*MAY_IMPORT, "moved"}, "a room is empty, or has another name"


def test_every_import_points_downwards() -> None:
    arrows = arrows_of(PACKAGE)
    assert sum(map(len, arrows.values())) > 300, "this test no longer reads the code"
    assert wrong_arrows(arrows) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(arrows_of(PACKAGE)) == []


def test_an_import_inside_a_function_says_why() -> None:
    unsaid = [
        f"{module}:{line}"
        for module, path in modules_in(PACKAGE).items()
        if module in ANYTHING or room_of(module) not in LATE
        for line, is_said in late_imports(path)
        if not is_said
    ]
    assert unsaid == []


@pytest.mark.parametrize("old", MOVED)
def test_the_old_path_of_a_module_warns_and_has_its_public_names(old: str) -> None:
    public = sorted(name for name, home in hitl._EXPORTS.items() if home == MOVED[old])
    assert public
    code = f"import hitl.{old} as old; assert all(getattr(old, name) is getattr(hitl, name) for name in {public})"
    command = [sys.executable, "-W", "default", "-c", f"import hitl; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert (
        f"<string>:1: DeprecationWarning: hitl.{old} is {MOVED[old]} now" in done.stderr
    )  # whoever imports it is named


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a module in each of two rooms."""
    for room in ("turn", "tools"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("")
    (tmp_path / "turn" / "order.py").write_text("")
    (tmp_path / "tools" / "gate.py").write_text("from hitl.turn.order import Order\n")
    return tmp_path


@pytest.mark.parametrize(
    "upwards",
    [
        "from hitl.tools.gate import approval",
        "from hitl.tools import gate",
        "import hitl.tools.gate",
        "from hitl import approval",
        "import hitl\nhitl.approval",
        "if TYPE_CHECKING:\n    from hitl.tools.gate import approval",
        "def late():\n    from hitl.tools.gate import approval",
    ],
)
def test_an_arrow_upwards_is_found_in_every_form_and_so_is_its_circle(package: Path, upwards: str) -> None:
    assert wrong_arrows(arrows_of(package)) == circles(arrows_of(package)) == []
    (package / "turn" / "order.py").write_text(f"{upwards}\n")
    arrows = arrows_of(package)
    assert wrong_arrows(arrows) == ["hitl.turn.order must not import hitl.tools.gate"]
    assert circles(arrows) == ["hitl.tools.gate -> hitl.turn.order -> hitl.tools.gate"]


def test_a_module_beside_the_rooms_is_found(package: Path) -> None:
    (package / "stray.py").write_text("")
    with pytest.raises(KeyError, match="hitl.stray"):
        [room_of(module) for module in modules_in(package).keys() - ANYTHING]
