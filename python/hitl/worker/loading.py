"""``MODULE:ATTR`` to an agent, with errors that a newcomer can act on."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from hitl.driver.shapes import LoadedAgent, as_agent
from hitl.errors import AgentLoadError, HitlError
from hitl.turn.rebound import rebind
from hitl.worker.isolation import INSTRUMENT

_HINT = "\n\nhint: "
"""What stands in the text of an error between what is wrong and what to do."""
_OURS = str(Path(__file__).parents[1]) + os.sep
"""Where hitl itself is."""
_FORM = "write it as MODULE:ATTR, for example hitl.examples.file_agent:agent"


@contextmanager
def without_collections() -> Iterator[None]:
    """Around what is imported, and stays: to look for garbage in it takes a tenth of a start that imports much. What an
    agent's module chooses for itself meanwhile holds afterwards. It finds thresholds and switch as they
    would be without us: it may reckon with them, and what it switches off is off already."""
    disable, is_enabled = gc.disable, gc.isenabled
    is_due = is_enabled()

    def disable_() -> None:
        nonlocal is_due
        is_due = False
        disable()

    gc.disable, gc.isenabled = disable_, lambda: is_due or is_enabled()
    disable()
    try:
        yield
    finally:
        gc.disable, gc.isenabled = disable, is_enabled
        if is_due:
            is_due = False  # whoever took the functions by name goes by what is
            gc.enable()


def load_agent(spec: str) -> LoadedAgent:
    """Import the agent that ``module:attribute`` names (dots allowed). AgentLoadError says what is wrong."""
    rebind()  # before the agent's own modules take the functions by name
    if os.environ.pop(INSTRUMENT, None) is not None:
        _instrument()
    module_name, colon, attribute = spec.partition(":")
    if not (module_name and colon and attribute):
        raise AgentLoadError(f"{spec!r} does not name an agent", _FORM)
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise AgentLoadError(f"{module_name!r} is a path, not a module", f"did you mean {dotted}:{attribute}?")
    found: Any = _import(module_name)
    where = module_name
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AgentLoadError(f"{where} has no attribute {part!r}", _near(part, found)) from None
        where = f"{where}.{part}"
    loaded = replace(as_agent(found, spec), module=module_name)
    _prepare(loaded.target, spec)
    return loaded


def _instrument() -> None:
    """Trace the turns of this process, or of those that are forked from it, as `--otel` says."""
    # By name: the room is above this one, as those of the frameworks are, and few servers trace.
    try:
        importlib.import_module("hitl.ext.otel").instrument_for_option()
    except HitlError as error:
        said, _, hint = str(error).partition(_HINT)
        raise AgentLoadError(f"--otel: {said}", hint or None) from error


def _prepare(agent: Any, spec: str) -> None:
    """Let an agent object with ``prepare()`` import and check what turns need, once, before workers are forked."""
    prepare = getattr(agent, "prepare", None)
    if prepare is None or not callable(getattr(agent, "run_turn", None)):
        return
    try:
        prepare()
    except AgentLoadError:
        raise  # it says by itself what is wrong, and what to do
    except Exception as error:  # user code, which may do anything; without it no turn could run
        raise AgentLoadError(f"{spec} cannot be prepared: {type(error).__name__}: {error}") from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise AgentLoadError(f"there is no module {error.name!r}", _near_module(error.name)) from None
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:  # a module may do anything while it is imported
        raise _import_failed(name, error) from error


def _import_failed(name: str, error: BaseException) -> AgentLoadError:
    said, _, told = str(error).strip().partition(_HINT)
    text = said.splitlines()
    reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    hint = told or None
    for note in getattr(error, "__notes__", ()):
        if note.startswith("hint: "):
            hint = note.removeprefix("hint: ")  # closer to what was meant than that of the error
        else:
            reason = f"{reason}; {' '.join(note.split())}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"install what provides {error.name!r}, or start it in the directory that holds such a module of yours"
    elif isinstance(error, SystemExit):
        hint = "the module ends the program when it is imported; put that under: if __name__ == '__main__':"
    return AgentLoadError(f"importing {name} failed: {reason} ({_place_of(error)})", hint)


def _place_of(error: BaseException) -> str:
    """``file:line`` in the user's code where an import failed: what hitl refuses, its caller has to mend."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ")
        and frame.filename != __file__
        and frame.filename != importlib.__file__
    ]
    theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    if not frames:
        return "no line known"
    frame = (theirs or frames)[-1]
    return f"{_short(frame.filename)}:{frame.lineno}"


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _near(name: str, owner: Any) -> str | None:
    from difflib import get_close_matches

    public = [candidate for candidate in dir(owner) if not candidate.startswith("_")]
    close = get_close_matches(name, public, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    found = {candidate: getattr(owner, candidate, None) for candidate in public}
    agents = [name for name, value in found.items() if hasattr(value, "run_turn") and not isinstance(value, type)]
    functions = [
        name
        for name, value in found.items()
        if callable(value) and getattr(value, "__module__", None) == getattr(owner, "__name__", "")
    ]
    own = list(dict.fromkeys([*agents, *functions]))
    return f"it defines {', '.join(own[:5])}" if own else None


def _near_module(name: str) -> str:
    from difflib import get_close_matches

    parent, _, last = name.rpartition(".")
    package = sys.modules.get(parent)
    folders = (
        [Path(entry) for entry in package.__path__] if package is not None and hasattr(package, "__path__") else []
    )
    if not parent:
        folders = [Path.cwd()]
    names = {
        entry.stem
        for folder in folders
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.suffix == ".py" or (entry.is_dir() and (entry / "__init__.py").exists())
    }
    close = get_close_matches(last, names, n=1)
    if close:
        return f"did you mean {f'{parent}.' if parent else ''}{close[0]}?"
    return "start it in the directory that holds the module, or install the module"
