"""The tutorial is what people copy: its tools stay in their folder, whatever name a model says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.docs.blocks import DOCUMENTS, files_before

PAGES = [
    document for document in DOCUMENTS if "tutorial" in document and "agent.py" in files_before(document, sys.maxsize)
]
LEADS_OUT = ["../x", "..", "/tmp/x", "a/../../x", "a/b", ".", ""]
TRY = f"""
import agent

for name in {LEADS_OUT}:
    try:
        agent.path_of(name)
    except ValueError:
        continue
    raise SystemExit(f"not refused: {{name!r}}")
agent.path_of("milk")
"""


@pytest.mark.parametrize("document", PAGES)
def test_a_name_that_leads_out_of_the_folder_is_refused(document: str, tmp_path: Path) -> None:
    for name, text in files_before(document, sys.maxsize).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        # Whatever it does with a note, it asks this.
        if name == "agent.py":
            assert text.count("NOTES / name") == 1
    subprocess.run([sys.executable, "-c", TRY], cwd=tmp_path, check=True)
