"""What is installed from a wheel, where there is no checkout and no compiler.

`make wheel` does this with the wheel that is released, on every Python that is here. Here it is one that has the core
of the tests in it, which nobody has to build.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
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


class TestLook:
    """`tools/check_wheel.py`: what is told of a wheel that should not be uploaded."""

    @pytest.fixture
    def right(self, tmp_path: Path) -> dict[str, bytes]:
        """What belongs into a wheel, as good as empty."""
        names = [*sorted(check_wheel.package_files()), check_wheel.CORE]
        names += [f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")]
        return dict.fromkeys([*names, f"{INFO}/sboms/hitl.cyclonedx.json"], b"")

    def look(
        self, members: Mapping[str, bytes], folder: Path, tags: str = "cp311-abi3-manylinux_2_28_x86_64"
    ) -> list[str]:
        return list(check_wheel.wrong_with_wheel(wheel_of(members, folder, tags)))

    def test_one_that_is_right_has_no_findings(self, right: dict[str, bytes], tmp_path: Path) -> None:
        assert self.look(right, tmp_path) == []
        assert self.look(right, tmp_path, "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64") == []
        assert self.look(right, tmp_path, "cp311-abi3-musllinux_1_2_aarch64") == []

    @pytest.mark.parametrize(
        ("tags", "finding"),
        [
            ("cp311-cp311-manylinux_2_28_x86_64", "is no wheel of hitl-runtime for the stable ABI"),
            ("cp311-abi3-linux_x86_64", "is built for this machine's own system"),
            ("cp311-abi3-manylinux_2_36_x86_64", "it needs glibc 2.36, and should do with 2.28"),
        ],
    )
    def test_one_that_is_for_too_few(self, right: dict[str, bytes], tmp_path: Path, tags: str, finding: str) -> None:
        (found,) = self.look(right, tmp_path, tags)
        assert finding in found

    @pytest.mark.parametrize(
        "stray",
        ["tests/python/test_it.py", "target/release/libhitl.so", "hitl/agents/__pycache__/x.pyc", "examples/x.py"],
    )
    def test_one_with_something_else_in_it(self, right: dict[str, bytes], tmp_path: Path, stray: str) -> None:
        assert self.look({**right, stray: b""}, tmp_path) == [f"it should not hold {stray}"]

    @pytest.mark.parametrize("gone", [check_wheel.CORE, "hitl/py.typed", "hitl/cli/project/agent.py.template"])
    def test_one_that_lacks_something(self, right: dict[str, bytes], tmp_path: Path, gone: str) -> None:
        del right[gone]
        assert self.look(right, tmp_path) == [f"it lacks {gone}"]

    def test_one_without_a_licence_or_a_list_of_crates(self, right: dict[str, bytes], tmp_path: Path) -> None:
        del right[f"{INFO}/licenses/LICENSE"], right[f"{INFO}/sboms/hitl.cyclonedx.json"]
        assert self.look(right, tmp_path) == [
            "its metadata lack licenses/LICENSE",
            "it has no SBOM of the crates in it",
        ]

    def test_one_that_is_too_large(
        self, right: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(check_wheel, "LARGEST_WHEEL", 1000)
        monkeypatch.setattr(check_wheel, "LARGEST_INSTALLED", 10)
        smaller, installed = self.look({**right, check_wheel.CORE: bytes(2000)}, tmp_path)
        assert "should have at most 1,000" in smaller
        assert "should have at most 10" in installed

    def test_an_sdist_with_something_built_in_it(self, tmp_path: Path) -> None:
        sdist = tmp_path / "hitl_runtime-0.1.0.tar.gz"
        with tarfile.open(sdist, "w:gz") as archive:
            for name in ("python/hitl/_core.abi3.so", "target/x", "Cargo.toml"):
                archive.addfile(tarfile.TarInfo(f"hitl_runtime-0.1.0/{name}"))
        found = list(check_wheel.wrong_with_sdist(sdist))
        assert "it should not hold python/hitl/_core.abi3.so" in found
        assert "it should not hold target/x" in found
        assert "it lacks Cargo.lock" in found
        assert "it lacks Cargo.toml" not in found
