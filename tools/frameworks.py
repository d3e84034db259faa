"""Tests of frameworks in environments of their own: `python -m tools.frameworks`, or `make test-frameworks`.

Each dependency group of pyproject.toml besides `dev`, `example` and `wheel` is a framework whose pins exclude those of
our tools. It gets an environment of its own in target/frameworks, which has what the group says and borrows everything
else from this one; it is made anew when the group, the tools or this Python have changed. There run the tests that are
named after the group: its part of the common proof and of the behaviours, `tests/python/ext/test_<group>*.py`, its page
and its example. With `--types` mypy checks `hitl.ext.<group>` there instead, and pyright its page and its example.

With `--oldest` it is the oldest version of each framework that its extra takes, of those that `dev` has too, and what
runs is the common proof, in one isolation: `make test-frameworks-oldest`. `--install` makes the environments, and runs
nothing.

A further framework is a line in pyproject.toml, and one more among the modules that mypy leaves out.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.python.docs.snippets import programs_of
from tools.strict_types import complaints, examples_of

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "target" / "frameworks"
SHARED_GROUPS = ("dev", "example", "wheel")
"""Groups that are no framework's."""

FRAMEWORKS = ROOT / "tests" / "python" / "behaviours" / "frameworks"
"""Whose agents the common proof is about, by framework: an extra that is none has none."""

OLDEST = "oldest-"
"""How the environments of the oldest versions begin."""

_NAME = re.compile(r"[\w.-]+")


def groups() -> dict[str, list[str]]:
    """What each framework's environment has, by the framework's name as modules, pages and tests have it."""
    declared: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    return {name.replace("-", "_"): lines for name, lines in declared.items() if name not in SHARED_GROUPS}


def oldest() -> dict[str, list[str]]:
    """What the environment of each framework's oldest version has, by the framework's name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    found = {}
    for extra, lines in extras.items():
        name = extra.replace("-", "_")
        if (FRAMEWORKS / f"{name}.py").exists():
            own = [re.sub(r">=([^,]+).*", r"==\1", line) for line in lines]
            # What a framework pins besides goes with each of its versions.
            beside = [line for line in groups().get(name, ()) if _name_of(line) not in {_name_of(each) for each in own}]
            found[name] = [*own, *beside]
    return found


def constraints(wanted: list[str]) -> list[str]:
    """The versions of the other tools, but for those packages of which the group has its own."""
    declared: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    own = {_name_of(line) for line in wanted}
    return [re.sub(r"\[.*\]", "", line) for line in declared if _name_of(line) not in own]


def environment_of(name: str, wanted: list[str]) -> Path:
    """The Python of a framework's environment, which is made where it is not there, or old."""
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / ".made"
    borrowed, pinned = sysconfig.get_path("purelib"), constraints(wanted)
    content = hashlib.sha256("\n".join([sys.version, sys.executable, borrowed, *wanted, *pinned]).encode()).hexdigest()
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests and the types may both be about to make it
        if stamp.exists() and stamp.read_text() == content:
            return python
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # Behind its own packages on the path, with the links that are there in turn, such as that to this package.
        (site / "borrowed.pth").write_text(f"import site; site.addsitedir({borrowed!r})\n")
        (folder / "constraints.txt").write_text("\n".join(pinned))
        subprocess.run([*installer(python), "--quiet", "--constraint", folder / "constraints.txt", *wanted], check=True)
        stamp.write_text(content)
    return python


def installer(python: Path) -> list[str]:
    """The command that installs into another environment: uv where it is there, else the pip of this one."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", str(python)]
    return [sys.executable, "-m", "pip", "--python", str(python), "install", "--disable-pip-version-check"]


def tests_of(name: str) -> list[str]:
    """The files in which a framework's tests are; `-k` picks its own out of them."""
    folder = ROOT / "tests" / "python"
    shared = [
        *(folder / "ext" / f"test_{each}.py" for each in ("older_answers", "served", "state_size", "told", "upgrades")),
        folder / "docs" / "test_python_blocks.py",
    ]
    own = [*sorted((folder / "ext").glob(f"test_{name}*.py")), *(folder / "examples").glob(f"test_ext_{name}.py")]
    if (folder / "behaviours" / "frameworks" / f"{name}.py").exists():
        own += sorted((folder / "behaviours").glob("test_*ing.py"))
    return [str(path.relative_to(ROOT)) for path in (*shared, *own)]


def check_tests(name: str, python: Path, *arguments: str) -> bool:
    """Whether a framework's tests pass; they print what they have to say."""
    command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-k", name, *tests_of(name)]
    return subprocess.run([*command, *arguments], check=False, cwd=ROOT).returncode == 0


def check_proof(name: str, python: Path, *arguments: str) -> bool:
    """Whether the common proof of a framework passes in one isolation."""
    command = [python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", f"{name} and task"]
    proof = "tests/python/ext/test_served.py"
    return subprocess.run([*command, proof, *arguments], check=False, cwd=ROOT).returncode == 0


def check_types(name: str, python: Path) -> bool:
    """Whether mypy has nothing to say about the framework's module, where it has one (of a recipe there is none), and
    pyright nothing about its examples and its page."""
    with TemporaryDirectory() as folder:
        page = f"docs/{name.replace('_', '-')}.md"
        programs = programs_of(page, Path(folder)) if (ROOT / page).exists() else []
        if wrong := complaints([*examples_of(name), *programs], python=python):
            print("\n".join(wrong))
            return False
    # File by file: what the settings leave out is left out of folders and packages.
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "python/hitl/ext" / name).rglob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--python-executable", python, *files]
    return not files or subprocess.run(command, check=False, cwd=ROOT).returncode == 0


def main(arguments: list[str]) -> int:
    """Run everything; the exit code. Arguments besides `--types`, `--oldest` and `--install` are pytest's."""
    failed, is_oldest, is_install = [], "--oldest" in arguments, "--install" in arguments
    arguments = [each for each in arguments if each != "--oldest"]
    for name, wanted in (oldest() if is_oldest else groups()).items():
        print(f"{name}: {', '.join(wanted)}", flush=True)
        python = environment_of(f"{OLDEST}{name}" if is_oldest else name, wanted)
        if is_install:
            continue
        if is_oldest:
            passed = check_proof(name, python, *arguments)
        else:
            passed = check_types(name, python) if "--types" in arguments else check_tests(name, python, *arguments)
        if not passed:
            failed.append(name)
    if not is_install:
        print(f"FAILED with {', '.join(failed)}" if failed else "passed in each environment")
    return 1 if failed else 0


def _name_of(line: str) -> str:
    found = _NAME.match(line)
    assert found is not None, line
    return found[0].lower().replace("_", "-")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
