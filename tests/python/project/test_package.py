"""What is shipped, and what its metadata says."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import readme_renderer.markdown
from packaging.version import Version

import hitl
from tests.python.project.test_names import PACKAGES
from tools import check_licences, check_wheel

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())

PAGE = (ROOT / PROJECT["project"]["readme"]).read_text()
"""What a package index shows."""
STORES = ["sqlite", "postgres"]
INSTALLING = (ROOT / "docs" / "installing.md").read_text()


def test_one_version_everywhere() -> None:
    from hitl import _core

    version = CARGO["package"]["version"]
    assert hitl.__version__ == version
    assert _core.__version__ == version
    assert importlib.metadata.version("hitl-runtime") == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_plugin_and_the_command_are_registered() -> None:
    entries = importlib.metadata.distribution("hitl-runtime").entry_points
    assert {(entry.group, entry.name, entry.value) for entry in entries} == {
        ("console_scripts", "hitl", "hitl.cli:main"),
        ("pytest11", "hitl", "hitl.testing.plugin"),
    }


def test_the_changelog_says_first_which_schemas_a_release_has_and_nowhere_else() -> None:
    """Whoever upgrades reads what is to be done, and each number once."""
    _, _, unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]\n\n")
    unreleased = unreleased.partition("\n## ")[0]
    upgrade, _, others = unreleased.partition("\n### Added\n")
    assert upgrade.startswith("### For an upgrade\n")
    newest = [
        max(int(file.name[:4]) for file in (ROOT / "src/store" / store / "migrations").glob("*.sql"))
        for store in STORES
    ]
    said = re.search(r"The schema has version (\d+) in a file.*?, and (\d+) on PostgreSQL", upgrade, re.DOTALL)
    assert said is not None
    assert [int(number) for number in said.groups()] == newest
    assert re.findall(r"[Ss]chemas? (?:has|have)?\s*(?:version )?\d+", others) == []
    assert "For an upgrade" not in others


def test_the_rust_that_it_asks_for_takes_every_crate() -> None:
    """As locked: a patch of a crate may ask for a newer one than ours, and cargo refuses ours then."""
    host = re.search(r"^host: (.+)$", _output("rustc", "-vV"), re.MULTILINE)
    assert host is not None
    tree = json.loads(_output("cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", host[1]))
    asked = {f"{crate['name']} {crate['version']}": crate["rust_version"] for crate in tree["packages"]}
    ours = CARGO["package"]["rust-version"]
    assert {crate: rust for crate, rust in asked.items() if rust and Version(rust) > Version(ours)} == {}
    for document in (INSTALLING, (ROOT / "CONTRIBUTING.md").read_text(), (ROOT / ".ci/run").read_text()):
        assert set(re.findall(r"cargo (\d[\d.]+\d)", document)) == {ours}


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=200).stdout


def test_versions_for_development_satisfy_what_is_asked_of_users() -> None:
    from packaging.requirements import Requirement

    pinned = {
        requirement.name: next(iter(requirement.specifier)).version
        for requirement in map(Requirement, itertools.chain(*PROJECT["dependency-groups"].values()))
    }
    project = PROJECT["project"]
    asked = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_the_pythons_it_says_it_runs_on_are_those_that_are_tested() -> None:
    from hitl import _core

    prefix = "Programming Language :: Python :: 3."
    said = [line for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    assert [f"3.{line.removeprefix(prefix)}" for line in said] == list(_core.PYTHONS)
    *others, last = _core.PYTHONS
    assert f"| {', '.join(_core.PYTHONS)} | tested;" in (ROOT / "docs" / "platforms.md").read_text()
    for document in ("durability.md", "worker-protocol.md"):
        assert f"{', '.join(others)} and {last} replay each other's" in (ROOT / "docs" / document).read_text()
    assert f"For Python {', '.join(others)} and {last} on Linux." in PAGE
    assert f"It needs Python {', '.join(others)} or {last} on a Linux" in INSTALLING


def test_the_systems_it_says_it_runs_on_are_those_that_are_tested() -> None:
    systems = [line for line in PROJECT["project"]["classifiers"] if line.startswith("Operating System ::")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert "| Linux | tested |" in (ROOT / "docs" / "platforms.md").read_text()


def test_the_page_of_the_package_is_rendered_whole_and_leads_nowhere_that_is_not_there() -> None:
    """Its links are whole addresses or none: an index has no file of this repository beside it."""
    rendered = readme_renderer.markdown.render(PAGE)
    assert rendered is not None
    assert "<table>" in rendered
    leads = re.findall(r"(?:href|src)=\"([^\"]*)\"", rendered)
    assert [target for target in leads if not target.startswith(("https://", "#"))] == []


def test_a_link_into_the_repository_would_be_found_on_that_page() -> None:
    rendered = readme_renderer.markdown.render("[more](docs/http.md), ![it](docs/images/x.png)")
    assert set(re.findall(r"(?:href|src)=\"([^\"]*)\"", rendered or "")) == {"docs/http.md", "docs/images/x.png"}


@pytest.mark.parametrize("document", [PAGE, INSTALLING], ids=["page", "installing"])
def test_every_extra_is_told(document: str) -> None:
    told = {
        name for row in re.findall(r"^\| (`.*?`) \|", document, re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    assert PROJECT["project"]["optional-dependencies"].keys() <= told


def test_what_is_public_is_told() -> None:
    (row,) = [line for line in INSTALLING.splitlines() if line.startswith("| Python | ")]
    told = re.findall(r"`(hitl(?:\.\w+)?)`", row.split(" | ")[1])
    assert sorted(told) == sorted([*PACKAGES, "hitl.middleware"])  # whose names no module of it could hide


@pytest.mark.slow
def test_the_sdist_is_small_and_holds_what_a_build_needs_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "maturin", "sdist", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert list(check_wheel.wrong_with_sdist(sdist)) == []

    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        str(path.relative_to(ROOT))
        for folder, pattern in (("src", "**/*"), ("python/hitl", "**/*"))
        for path in (ROOT / folder).glob(pattern)
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    beside = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert not (sources | beside) - names
    # cargo refuses a manifest that names a bench which is not there
    assert {name.partition("/")[0] for name in names} == beside | {"python", "src", "benches"}
    assert not [name for name in names if name.endswith((".so", ".pyc", ".pyd", ".db"))]


def test_no_release_has_failpoints() -> None:
    assert CARGO["features"]["default"] == ["python"]
    assert "failpoints" not in str(PROJECT["tool"]["maturin"])
    makefile = (ROOT / "Makefile").read_text()
    assert not [line for line in makefile.splitlines() if "--release" in line and "FAULTS" in line]
    # And if somebody asked for them, the compiler would refuse.
    check = ["rustc", "--edition=2024", "--crate-type=lib", "--emit=metadata", "-Awarnings", "-o", "-", "-O"]
    feature = ["--cfg", 'feature="failpoints"']
    source = str(ROOT / "src" / "faults.rs")
    refused = subprocess.run([*check, *feature, source], check=False, capture_output=True, text=True, timeout=200)
    assert refused.returncode != 0
    assert "never for a release" in refused.stderr
    subprocess.run([*check, source], check=True, capture_output=True, timeout=200)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("(MIT OR GPL-2.0) AND Unicode-3.0", True),
        ("MIT AND (GPL-2.0 OR AGPL-3.0)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
        ("AGPL-3.0-only", False),
    ],
)
def test_licences_are_judged_as_spdx_says(expression: str, allowed: bool) -> None:
    assert check_licences.is_allowed(expression) is allowed


@pytest.mark.parametrize("expression", ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT)"])
def test_what_is_no_expression_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_licences.is_allowed(expression)
