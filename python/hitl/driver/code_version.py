"""Which code a process has imported, as one short text that journals carry."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from hitl.driver.shapes import LoadedAgent

_DIGITS = 16
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_EXAMPLES = "hitl.examples"
_PYC_HEADER = 16
"""Bytes of a ``.pyc`` that say when and from what it was compiled, before the code itself."""


def code_version(agent: LoadedAgent, paths: Iterable[str] = ()) -> str:
    """What ``@hitl.agent(version=...)`` says, else a digest of the application's own sources: 16 hex digits.

    Those are the modules imported so far whose files lie under the working directory or one of ``paths``, without the
    standard library, installed packages and hitl itself; and those of the agent's own package, also where that is
    installed or lies elsewhere. Of hitl, its examples are an application, for an agent that is one of them.
    """
    if agent.options.version is not None:
        return agent.options.version
    digest = hashlib.sha256()
    for name, file in sorted(_own_modules(paths, _package(agent.module))):
        for part in (name.encode(), _content(file)):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:_DIGITS]


def _package(module: str | None) -> str | None:
    """The one whose modules are the agent's own."""
    if module is None:
        return None
    return _EXAMPLES if _is_in(module, _EXAMPLES) else module.partition(".")[0]


def _own_modules(paths: Iterable[str], package: str | None) -> Iterator[tuple[str, str]]:
    """Names and files of the application's modules, those of ``package`` wherever they are."""
    roots = {spelling for path in (os.curdir, *paths) for spelling in _spellings(path)}
    foreign = {spelling for path in _library_folders() for spelling in _spellings(path)}
    for name, module in sys.modules.copy().items():
        # What stands in sys.modules is not always a module, and a lazy one may run code when it is looked at.
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str):
            continue
        if package is not None and package != "hitl" and _is_in(name, package):
            yield name, file
            continue
        if _is_hitl(name, module) or _is_installed(file, foreign):
            continue
        spellings = _spellings(file)  # a system call for each folder of the path, of which packages have thousands
        if any(_is_below(spelling, roots) for spelling in spellings) and not any(
            _is_installed(spelling, foreign) for spelling in spellings
        ):
            yield name, file


def _is_hitl(name: str, module: object) -> bool:
    if name == "__main__":  # a worker's is hitl.worker.zygote or .plain
        name = getattr(module.__dict__.get("__spec__"), "name", None) or name
    return _is_in(name, "hitl")


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _library_folders() -> Iterator[str]:
    """Where the standard library and installed packages are; a virtual environment may well be in the project."""
    for kind in ("stdlib", "platstdlib", "purelib", "platlib"):
        folder = sysconfig.get_path(kind)
        if folder:
            yield folder


def _spellings(path: str) -> set[str]:
    """A path as it was found and with its links followed."""
    return {os.path.abspath(path), os.path.realpath(path)}  # noqa: PTH100 - resolve() would follow links


def _is_below(path: str, folders: set[str]) -> bool:
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def _is_installed(path: str, libraries: set[str]) -> bool:
    return _is_below(path, libraries) or not _PACKAGE_FOLDERS.isdisjoint(Path(path).parts)


def _content(file: str) -> bytes:
    try:
        content = Path(file).read_bytes()
    except OSError:  # removed since, or inside an archive: its name has to do
        return b""
    return content[_PYC_HEADER:] if file.endswith(".pyc") else content
