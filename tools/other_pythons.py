"""Tests on every Python that replays may meet: `python tools/other_pythons.py`, or `make test-pythons`.

The interpreters are the ones this machine has, on PATH or under pyenv, one of each minor version that `_core.PYTHONS`
names; nothing is fetched but packages. Each other than the running one gets a small virtual environment in
target/pythons, with the tests' packages at the versions of pyproject.toml, and runs the tests that lean on asyncio: the
order of a turn, its loops, and the corpus of old journals. The extension is built once, for the stable ABI of 3.11, and
what of the packages runs on any Python is copied from this environment: four in five of them need not be found, fetched
and unpacked again.
Then each replays what each has recorded. Where HITL_ALLOW_UNTESTED_PYTHON=1 is set, other versions join in. With
`--install` the environments are made, and nothing runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "target" / "pythons"
OLDEST, NEWEST_LOOKED_FOR = 11, 20

PACKAGES = (
    "aiohttp",
    "aiosqlite",
    "anyio",
    "docstring-parser",
    "httpx2",
    "hypothesis",
    "langchain",
    "langgraph",
    "openai",
    "openai-agents",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-proto",
    "opentelemetry-sdk",
    "prompt-toolkit",
    "pydantic",
    "pydantic-ai-slim",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "rich",
    "typer",
    "uvloop",
    "websockets",
)
TESTS = ("tests/python/unit", "tests/python/runs", "tests/python/waiting", "tests/python/replay/test_corpus.py")
PAIRS = "tests/python/replay/test_elsewhere.py"

_ASK = "import sys, sysconfig; print(*sys.version_info[:3], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"


def candidates() -> Iterator[Path]:
    """Whatever is called like a Python: on PATH, and under pyenv, whose commands on PATH may refuse to start."""
    for minor in range(OLDEST, NEWEST_LOOKED_FOR + 1):
        for folder in os.get_exec_path():
            if found := shutil.which(f"python3.{minor}", path=folder):
                yield Path(found)
    yield from sorted((pyenv_root() / "versions").glob("*/bin/python"))


def pyenv_root() -> Path:
    """Where pyenv keeps its versions, whether or not it is there."""
    if root := os.environ.get("PYENV_ROOT"):
        return Path(root)
    if pyenv := shutil.which("pyenv"):
        told = subprocess.run([pyenv, "root"], check=False, capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.strip():
            return Path(told.stdout.strip())
    return Path.home() / ".pyenv"


def version_of(interpreter: Path) -> tuple[int, int, int] | None:
    """None for what does not start, is older than 3.11, or is a free-threaded build."""
    try:
        said = subprocess.run([interpreter, "-c", _ASK], check=False, capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    if said.returncode != 0:
        return None
    major, minor, micro, free_threaded = map(int, said.stdout.split())
    return (major, minor, micro) if (major, minor) >= (3, OLDEST) and not free_threaded else None


def interpreters() -> dict[str, tuple[Path, str]]:
    """The newest interpreter of each minor version but the running one's: its path and full version."""
    best: dict[tuple[int, int], tuple[tuple[int, int, int], Path]] = {}
    for path in candidates():
        version = version_of(path)
        if version is None or version[:2] == sys.version_info[:2]:
            continue
        if version[:2] not in best or version > best[version[:2]][0]:
            best[version[:2]] = (version, path)
    return {
        "{}.{}".format(*minor): (path, ".".join(map(str, version))) for minor, (version, path) in sorted(best.items())
    }


def environment_of(minor: str, interpreter: Path) -> Path:
    """The Python of a virtual environment that has the tests' packages and, linked, this one; made where it is old."""
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    wanted = [line for line in pinned if line.partition("==")[0] in PACKAGES]
    here, missing = needed(wanted, minor)
    folder = ENVIRONMENTS / minor
    python, stamp = folder / "bin" / "python", folder / ".made"
    content = "\n".join([str(interpreter), *(f"{each.name}=={each.version}" for each in here), *missing])
    if not (stamp.exists() and stamp.read_text() == content):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        built = [f"{each.name}=={each.version}" for each in here if not runs_anywhere(each)]
        for package in here:
            if runs_anywhere(package):
                copy(package, site)
        subprocess.run([*installer(python), "--quiet", "--no-deps", *built], check=True)
        if missing:
            subprocess.run([*installer(python), "--quiet", *missing], check=True)
        (site / "hitl.pth").write_text(f"{ROOT / 'python'}\n")
        stamp.write_text(content)
    return python


def needed(wanted: Iterable[str], minor: str) -> tuple[list[Distribution], list[str]]:
    """What these packages are and need on another Python: of this environment, and what it has not."""
    here: dict[str, Distribution] = {}
    missing: list[str] = []
    other = {"python_version": minor, "python_full_version": f"{minor}.0"}
    seen: set[tuple[str, str]] = set()
    left = [Requirement(line) for line in wanted]
    while left:
        asked = left.pop()
        name = canonicalize_name(asked.name)
        try:
            found = here.setdefault(name, distribution(name))
        except PackageNotFoundError:
            missing.append(f"{asked.name}{asked.specifier}")
            continue
        for extra in {"", *asked.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                requirements = map(Requirement, found.requires or ())
                left += [
                    each for each in requirements if not each.marker or each.marker.evaluate({**other, "extra": extra})
                ]
    return [here[name] for name in sorted(here)], sorted(set(missing))


def runs_anywhere(package: Distribution) -> bool:
    """Whether the package is the same for each Python of this system: it has no machine code but of the stable ABI."""
    lines = (package.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ").split("-") for line in lines if line.startswith("Tag: ")]
    return bool(tags) and all(abi == "abi3" or (abi == "none" and python.startswith("py")) for python, abi, _ in tags)


def copy(package: Distribution, site: Path) -> None:
    """Have a package of this environment in another one; without its scripts, which begin with this one's Python."""
    for file in package.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), site / file)


def installer(python: Path) -> list[str]:
    """The command that installs into another environment: uv where it is there, else the pip of this one."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", str(python)]
    return [sys.executable, "-m", "pip", "--python", str(python), "install", "--disable-pip-version-check"]


def passes(python: Path | str, *tests: str, processes: str = "auto", **environment: str) -> tuple[bool, str]:
    """Whether the tests pass, and what they print."""
    command = [python, "-m", "pytest", "-q", "-n", processes, "--dist", "worksteal", "-p", "no:cacheprovider", *tests]
    if python != sys.executable:  # there the package is on the path, and not installed
        command += ["-p", "hitl.testing.plugin"]
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    ran = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **environment}, text=True, **together)
    return ran.returncode == 0, ran.stdout


def tested(minor: str, interpreter: Path, tests: list[str], processes: int) -> tuple[bool, float, str]:
    """Whether the tests pass on an interpreter, in an environment of its own; after how many seconds, and the words."""
    python, began = environment_of(minor, interpreter), time.monotonic()
    passed, said = passes(python, *tests, processes=str(processes))
    return passed, time.monotonic() - began, said


def outcome(passed: bool, seconds: float) -> str:
    return f"{'passed' if passed else 'FAILED'}, {seconds:.0f} s"


def main(arguments: list[str]) -> int:
    """Run everything; the exit code. The last lines say what ran where. With `--install` nothing runs."""
    # Here, for what finds interpreters serves tools/try_wheel.py as well, which needs no hitl around it.
    from hitl import _core
    from hitl.pythons import ALLOW

    here = "{}.{}".format(*sys.version_info)
    found = interpreters()
    report = [f"Python {here} ({sys.executable}): this one, see `make test-python`"]
    chosen = {
        minor: path for minor, (path, _) in found.items() if minor in _core.PYTHONS or os.environ.get(ALLOW) == "1"
    }
    if "--install" in arguments:
        with ThreadPoolExecutor(max_workers=len(chosen) or None) as pool:
            list(pool.map(environment_of, chosen, chosen.values()))
        return 0
    failed = False
    there = [path for path in TESTS if (ROOT / path).exists()]
    # All at once: half of the time of a test is a wait, and so is that of an installation. A process of tests for each
    # processor is enough then, and each more would collect and rewrite every file anew, which takes as long as a fifth
    # of the tests.
    processes = max(2, (os.cpu_count() or 1) * 2 // max(1, len(chosen)))
    with ThreadPoolExecutor(max_workers=len(chosen) or None) as pool:
        running: dict[str, Future[tuple[bool, float, str]]] = {
            minor: pool.submit(tested, minor, interpreter, there, processes) for minor, interpreter in chosen.items()
        }
        for minor, (interpreter, version) in found.items():
            if minor not in running:
                report.append(f"Python {version} ({interpreter}): not run, hitl does not say that it works there")
                continue
            passed, seconds, said = running[minor].result()
            print(f"Python {version}: {interpreter}\n{said}", flush=True)
            report.append(f"Python {version} ({interpreter}): {outcome(passed, seconds)}")
            failed |= not passed
    report += [f"Python {minor}: not found" for minor in _core.PYTHONS if minor != here and minor not in found]
    if chosen:
        began = time.monotonic()
        others = os.pathsep.join(map(str, chosen.values()))
        passed, said = passes(sys.executable, PAIRS, HITL_TEST_PYTHONS=others)
        print(said, flush=True)
        report.append(f"Replays between all of these: {outcome(passed, time.monotonic() - began)}")
        failed |= not passed
    print("\n".join(report))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
