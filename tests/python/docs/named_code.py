"""Code that a document names: `path`, `path::function`, `path::Class.method`, `path::Type::function`.

After files have moved, ``python -m tests.python.docs.named_code`` writes their new places into the pages about the
inside, and prints what it could not find.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.python.docs.blocks import ROOT

DECISIONS = sorted(path for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name != "README.md")
PAGES = ["docs/architecture.md", "docs/glossary.md", *(str(path.relative_to(ROOT)) for path in DECISIONS)]
"""The pages about the inside."""

_FOLDERS = ("src", "python", "tests", "docs", "benches", "benchmarks", "examples", "tools", "ui")
_SPAN = re.compile(rf"`((?:{'|'.join(_FOLDERS)})/[\w./-]+(?:::[\w.:]+)?)`")
_ITEM = r"(?:fn|struct|enum|union|trait|type|const|static|mod|macro_rules!)"


def named(text: str) -> list[str]:
    """What a document names, in its order."""
    return _SPAN.findall(text)


def complaint(reference: str) -> str | None:
    """What is wrong with a reference; None where it is there."""
    path, parts = _taken_apart(reference)
    file = ROOT / path
    if _is_there(file, parts):
        return None
    wrong = f"not defined in {path}" if file.exists() else "no such file"
    found = places(reference)
    return f"{reference}: {wrong}; " + (f"there is {', '.join(found)}" if found else "nothing is called so")


def places(reference: str) -> list[str]:
    """Where else in its folder what a reference means may be: in files of the same name, or else in any."""
    path, parts = _taken_apart(reference)
    folder, suffix = Path(path).parts[0], Path(path).suffix
    found = [file for file in _files(folder, suffix) if _is_there(file, parts)]
    same = [file for file in found if file.name == Path(path).name]
    name = reference.removeprefix(path)
    return [f"{file.relative_to(ROOT)}{name}" for file in (same or (found if parts else []))]


def _taken_apart(reference: str) -> tuple[str, list[str]]:
    path, _, name = reference.partition("::")
    return path, re.split(r"::|\.", name) if name else []


def _is_there(file: Path, parts: list[str]) -> bool:
    if not parts:
        return file.exists()
    if not file.is_file():
        return False
    return defines(_text(file), file.suffix, parts)


def defines(text: str, suffix: str, parts: list[str]) -> bool:
    """Whether source text has an item of that name, below the owners that come before it."""
    return _rust_defines(text, parts) if suffix == ".rs" else _python_defines(text, parts)


def _rust_defines(text: str, parts: list[str]) -> bool:
    *owners, name = parts
    for owner in owners:
        # What stands in column 0 begins and ends an item: rustfmt has seen to that.
        head = rf"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:impl|trait|enum|struct|mod)\b[^;{{]*\b{owner}\b"
        text = "\n".join(re.findall(rf"{head}.*?^}}", text, re.MULTILINE | re.DOTALL))
    variant = rf"|^    {name}\b" if owners else ""
    return re.search(rf"\b{_ITEM} {name}\b{variant}", text, re.MULTILINE) is not None


def _python_defines(text: str, parts: list[str]) -> bool:
    if not all(part in text for part in parts):
        return False
    body: list[ast.stmt] = ast.parse(text).body
    for part in parts:
        for statement in body:
            if part in _names_of(statement):
                body = getattr(statement, "body", [])
                break
        else:
            return False
    return True


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


@cache
def _files(folder: str, suffix: str) -> list[Path]:
    return sorted((ROOT / folder).rglob(f"*{suffix}")) if suffix else []


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def main() -> int:
    """Mend the pages; 1 where something is left for a person."""
    left = 0
    for page in PAGES:
        text = before = (ROOT / page).read_text(encoding="utf-8")
        for reference in dict.fromkeys(named(before)):
            wrong = complaint(reference)
            if wrong is None:
                continue
            found = places(reference)
            if len(found) == 1:
                text = text.replace(f"`{reference}`", f"`{found[0]}`")
            else:
                print(f"{page}: {wrong}")
                left += 1
        if text != before:
            (ROOT / page).write_text(text, encoding="utf-8")
    return min(left, 1)


if __name__ == "__main__":
    raise SystemExit(main())
