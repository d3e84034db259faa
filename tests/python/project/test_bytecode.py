"""What is written of the tests before they begin is what pytest takes for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.python.support import bytecode


def cached(file: Path) -> Path:
    return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"


def test_pytest_reads_the_rewritten_bytecode_of_a_file_until_the_file_is_another(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    file, wrong = tmp_path / "test_it.py", tmp_path / "test_wrong.py"
    file.write_text("def test_it():\n    assert [1] == [2]\n")
    wrong.write_text("def\n")
    bytecode.write_some(pytestconfig, [wrong, file], {wrong, file})
    code = rewrite._read_pyc(file, cached(file))
    assert code is not None
    assert "@pytest_ar" in code.co_names  # its assertions say what they have compared
    file.write_text("def test_it():\n    assert [1] == [3]\n")
    assert rewrite._read_pyc(file, cached(file)) is None
    bytecode.write_some(pytestconfig, [file], {file})
    assert rewrite._read_pyc(file, cached(file)) is not None
    assert not cached(wrong).exists()
