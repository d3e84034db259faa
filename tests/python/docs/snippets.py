"""The Python of a document as files, for type checkers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.python.docs.blocks import blocks, files_before


def programs_of(document: str, folder: Path) -> list[Path]:
    """Write them below `folder`: what is a file for whoever reads the page, and its other blocks as one program, since
    each goes on with the names of those before it. Nothing, of a page without Python."""
    python = [block for block in blocks(document) if block.language == "python"]
    if not python:
        return []
    name = re.sub(r"\W", "_", document.removesuffix(".md"))
    texts = {f"{name}/{file}": text for file, text in files_before(document, python[-1].line).items()}
    texts[f"{name}.py"] = "\n\n".join(block.text for block in python if not block.file)
    written: list[Path] = []
    for path, text in texts.items():
        if path.endswith(".py") and text:
            written.append(folder / path)
            written[-1].parent.mkdir(parents=True, exist_ok=True)
            written[-1].write_text(text, encoding="utf-8")
    return written
