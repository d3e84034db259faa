"""docs/behaviours.md, from the marks of the suite. `python -m tests.python.behaviours.page` writes it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tests.python.behaviours.catalogue import BEHAVIOURS, SUITE, Tested
from tests.python.behaviours.faces.every import FACES
from tests.python.behaviours.faces.face import Face
from tests.python.support.served import ROOT

PAGE: Final = ROOT / "docs" / "behaviours.md"
MODULES: Final = ("gating", "deciding", "pausing", "lasting")

HEAD: Final = """\
# What every face does

A decision means the same, whatever words it comes in: a server's, `hitl.run`'s, LangChain's and SpoonOS's middleware's,
Strands' hooks', PenguiFlow's planner's; those of an agent of pydantic-ai, the OpenAI Agents SDK, LangGraph or Strands,
which runs as it is. Each line of the table is a test in `tests/python/behaviours`, and runs against every face whose
words can express it; which words are whose is said in [from-langchain-and-spoon.md](from-langchain-and-spoon.md),
[from-strands.md](from-strands.md), [from-penguiflow.md](from-penguiflow.md) and
[from-openai-agents.md](from-openai-agents.md), and of agents as they are in [pydantic-ai.md](pydantic-ai.md),
[openai-agents.md](openai-agents.md), [langgraph.md](langgraph.md) and [strands.md](strands.md).

"yes" is tested; "in part" and "-" mean that the face's words have no form for some of it, or for all of it, and why is
said below. They are all faces of one run: what one has no word for can be had from another.

This page is generated from the suite, by `python -m tests.python.behaviours.page`; a test fails when it is not what the
suite says.
"""


def marked_tests() -> list[Tested]:
    """Every marked test, once its module is there."""
    for module in MODULES:
        import_module(f"tests.python.behaviours.test_{module}")
    return sorted(SUITE, key=lambda test: (test.number, test.module, test.name))


def page() -> str:
    """The page as it must be."""
    return "\n".join([HEAD, *_matrix(), "", *_reasons(), *_proofs()])


def _matrix() -> list[str]:
    titles = [face.title for face in FACES]
    lines = ["| | Behaviour | " + " | ".join(titles) + " |", "|---|---|" + "---|" * len(titles)]
    for number, text in BEHAVIOURS.items():
        cells = [_cell(face, number) for face in FACES]
        lines.append(f"| {number} | {text} | " + " | ".join(cells) + " |")
    return lines


def _cell(face: type[Face], number: int) -> str:
    can = [face.reason(number, test.part) is None for test in marked_tests() if test.number == number]
    return "yes" if all(can) else "in part" if any(can) else "-"


def _reasons() -> list[str]:
    lines = ["## What a vocabulary has no form for", ""]
    for face in FACES:
        if not face.cannot:
            continue
        lines += [f"**{face.title}**", ""]
        for key in sorted(face.cannot, key=lambda key: (key, "") if isinstance(key, int) else key):
            number, part = (key, None) if isinstance(key, int) else key
            what = f"{number}" if part is None else f"{number}, {part}"
            lines.append(f"- {what}: {face.cannot[key]}.")
        lines.append("")
    return lines


def _proofs() -> list[str]:
    lines = ["## The tests", "", "| | Part | Test |", "|---|---|---|"]
    for test in marked_tests():
        file = test.module.rpartition(".")[2]
        lines.append(f"| {test.number} | {test.part or ''} | `{file}.py::{test.name}` |")
    return [*lines, ""]


def write(path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
