"""What a comment sends its reader to is in the repository: a page that nobody else has explains nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.python.docs.blocks import ROOT

_CODE = ("src", "python/hitl", "ui/src", "benches", "tools")
_PAGE = re.compile(r"(?<![\w/.-])([\w./-]*\w\.md)\b")


def pages_cited(text: str) -> set[str]:
    return set(_PAGE.findall(text))


def is_there(page: str, beside: Path) -> bool:
    folders = (ROOT, ROOT / "docs", ROOT / "docs" / "decisions", beside)
    return any((folder / page.lstrip("/")).is_file() for folder in folders)


def test_every_page_that_the_code_cites_is_there() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--", *_CODE], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    code = [ROOT / name for name in listed.stdout.splitlines() if name.endswith((".rs", ".py", ".pyi", ".ts", ".sql"))]
    assert len(code) > 300
    # An edit that is not committed may have moved one of them.
    texts = {path: path.read_text(encoding="utf-8") for path in code if path.is_file()}
    gone = {
        f"{path.relative_to(ROOT)}: {page}"
        for path, text in texts.items()
        for page in pages_cited(text)
        if not is_there(page, path.parent)
    }
    assert not gone


def test_a_page_is_cited_by_its_name_or_its_path() -> None:
    cited = pages_cited("// See NOTES.md section 3, `docs/http.md` and (../SECURITY.md); not x.mdx, nor a .md\n")
    assert cited == {"NOTES.md", "docs/http.md", "../SECURITY.md"}
    assert is_there("docs/http.md", ROOT)
    assert is_there("http.md", ROOT)
    assert not is_there("NOTES.md", ROOT)
