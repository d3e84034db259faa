"""What is installed from a wheel, where there is no checkout and no compiler.

`make wheel` does this with the wheel that is released, on every Python that is here. Here it is one that has the core
of the tests in it, which nobody has to build.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import check_wheel, try_wheel

ROOT = Path(__file__).resolve().parents[3]
INFO = "hitl_runtime-0.1.0.dist-info"
TAGS = "cp311-abi3-linux_x86_64"


def metadata(folder: Path) -> dict[str, bytes]:
    """What a build would put beside the package, by name."""
    command = [sys.executable, "-m", "maturin", "pep517", "write-dist-info", "--interpreter", sys.executable]
    command += ["--metadata-directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wheel_of(members: Mapping[str, bytes], folder: Path, tags: str) -> Path:
    """A wheel of those files; its record has no digests, which pip does not ask for."""
    (info,) = {name.partition("/")[0] for name in members if ".dist-info/" in name}
    wheel = folder / f"{info.removesuffix('.dist-info')}-{tags}.whl"
    record = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in {**members, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is here, packed, with the core that is here."""
    folder = tmp_path_factory.mktemp("wheel")
    package = {name: (ROOT / "python" / name).read_bytes() for name in sorted(check_wheel.package_files())}
    core = (check_wheel.PACKAGE / "_core.abi3.so").read_bytes()
    return wheel_of({**package, check_wheel.CORE: core, **metadata(folder / "info")}, folder, TAGS)


@pytest.mark.slow
def test_it_runs_where_there_is_neither_a_checkout_nor_a_compiler(wheel: Path, tmp_path: Path) -> None:
    here, *others = sorted(try_wheel.pythons().items(), key=lambda each: each[1] != Path(sys.executable))
    bare = try_wheel.Bare.made(tmp_path / here[0], here[1], f"{wheel}[test]")
    assert "demo and project run" in try_wheel.try_on(here[0], bare)
    for minor, interpreter in others:
        # pip takes the wheel and the core is imported: the only part that could differ from Python to Python.
        try_wheel.imports(try_wheel.Bare.made(tmp_path / minor, interpreter, "--no-deps", str(wheel)))
