"""Check what we build with for known vulnerabilities and withdrawn releases: `python tools/check_advisories.py`.

Asks each registry by its ordinary client, with the addresses that are configured for it:

- crates of Cargo.lock: `cargo package` says which versions were withdrawn ("yanked"); the RustSec database says which
  have an advisory. It is fetched into target/ by git; `HITL_ADVISORY_DB` names another checkout; where git reaches
  nobody, tools/rustsec.json is asked, with a warning when it is older than 30 days.
- packages of this Python's environment: `pip` says which were withdrawn, `pip-audit` which have an advisory; where the
  registry tells of none, tools/pypa.json is asked, with the same warning.
- packages of ui/package-lock.json: `npm audit`.

Exits 1 where something was found that tools/advisories.toml does not name, or names with a date that has passed. What
does not answer at all (a mirror without advisories, a machine without git), and a copy that is old, is said and is no
failure; with `--strict`, which is for releases, it is one.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import pypa, rustsec
from tools.installed import pins

ROOT = Path(__file__).resolve().parent.parent
IGNORED = ROOT / "tools" / "advisories.toml"
DATABASE = "https://github.com/RustSec/advisory-db"
FETCHED = ROOT / "target" / "advisory-db"
OLD_AFTER = datetime.timedelta(days=30)
PATIENCE = 300
"""Seconds for one client."""

_YANKED_CRATE = re.compile(r"package `(\S+) v(\S+)` in Cargo.lock is yanked")


class NotAnsweredError(Exception):
    """A source said nothing of what it was asked."""


@dataclass(frozen=True)
class Finding:
    """Something that is known of a package in use; `id` is what the ignore list calls it."""

    package: str
    id: str
    title: str
    is_mere_note: bool = False

    def __str__(self) -> str:
        return f"{self.package}: {self.id}" + (f", {self.title}" if self.title else "")


@dataclass(frozen=True)
class Looked:
    """What a source said, and of how many packages."""

    at: int
    findings: list[Finding]
    beside: str = ""
    """What has to be said of the source itself."""
    is_old: bool = False
    """It knows nothing of the last 30 days."""


# -- crates -----------------------------------------------------------------------------------------------------------


def crates(project: Path) -> list[tuple[str, str]]:
    lock = tomllib.loads((project / "Cargo.lock").read_text())
    return [(package["name"], package["version"]) for package in lock["package"] if "source" in package]


def yanked_crates(project: Path = ROOT) -> Looked:
    """cargo looks at the registry's index whenever it packages, and the package is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["cargo", "package", "--locked", "--no-verify", "--allow-dirty", "--target-dir", folder]
        done = run(command, cwd=project, env={**os.environ, "CARGO_TERM_COLOR": "never"})
    if done.returncode != 0:
        raise NotAnsweredError(last_line(done.stderr))
    named = _YANKED_CRATE.findall(done.stderr)
    return Looked(len(crates(project)), [withdrawn(name, version) for name, version in named])


def rustsec_crates(project: Path = ROOT) -> Looked:
    database = rustsec_database()
    old = warning(database, rustsec.newest(database))
    packages = crates(project)
    findings = [
        Finding(f"{name} {version}", advisory.id, advisory.title, advisory.is_mere_note)
        for name, version in packages
        for advisory in rustsec.advisories(database, name, version)
    ]
    return Looked(len(packages), findings, old, is_old=bool(old))


def warning(database: Path, newest: str | None) -> str:
    """Of a copy that is old."""
    if newest is None:
        raise NotAnsweredError(f"{database} holds no advisories")
    age = today() - datetime.date.fromisoformat(newest)
    return f"WARNING: the copy is {age.days} days old, its newest advisory is of {newest}" if age > OLD_AFTER else ""


def rustsec_database() -> Path:
    """A checkout that was named, else the one in target/, as new as git can get it, else what is kept here."""
    if named := os.environ.get("HITL_ADVISORY_DB"):
        return Path(named)
    if (FETCHED / ".git").exists():
        command = ["git", "-C", str(FETCHED), "pull", "--quiet", "--depth", "1", "--rebase"]
    else:
        shutil.rmtree(FETCHED, ignore_errors=True)
        command = ["git", "clone", "--quiet", "--depth", "1", DATABASE, str(FETCHED)]
    done = run(command, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
    if done.returncode == 0 or (FETCHED / "crates").is_dir():
        return FETCHED
    return rustsec.KEPT


# -- Python -----------------------------------------------------------------------------------------------------------


def yanked_pythons() -> Looked:
    with tempfile.TemporaryDirectory() as folder:
        asked, report = write_pins(folder), Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        done = run([*command, "--report", str(report), "-r", str(asked)])
        if done.returncode != 0:
            raise NotAnsweredError(last_line(done.stderr))
        items = json.loads(report.read_text())["install"]
    named = [(item["metadata"]["name"], item["metadata"]["version"]) for item in items if item.get("is_yanked")]
    return Looked(len(items), [withdrawn(name, version) for name, version in named])


def audited_pythons() -> Looked:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off"]
        done = run([*command, "--format", "json", "-r", str(write_pins(folder))])
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except ValueError:
        return kept_pythons(last_line(done.stderr))
    looked_at = [package for package in packages if "skip_reason" not in package]
    skipped = len(packages) - len(looked_at)
    if not looked_at:
        return kept_pythons("the registry tells of none")
    findings = [
        Finding(f"{package['name']} {package['version']}", found["id"], " ".join(found.get("aliases", [])))
        for package in looked_at
        for found in package["vulns"]
    ]
    return Looked(len(looked_at), findings, f"nothing is told of {skipped} others" if skipped else "")


def kept_pythons(reason: str) -> Looked:
    """What is kept here of the PyPA's database says, since nobody else does."""
    entries = pypa.entries(pypa.KEPT)
    installed = [pin.split("==") for pin in pins()]
    looked_at = [(name, version) for name, version in installed if canonicalize_name(name) in entries]
    findings = [
        Finding(f"{name} {version}", advisory.id, advisory.title)
        for name, version in looked_at
        for advisory in pypa.advisories(pypa.KEPT, name, version)
    ]
    unknown = len(installed) - len(looked_at)
    old = warning(pypa.KEPT, pypa.newest(pypa.KEPT))
    said = [
        f"asked of tools/{pypa.KEPT.name}, since {reason}",
        f"it does not know {unknown} others" if unknown else "",
        old,
    ]
    return Looked(len(looked_at), findings, "; ".join(filter(None, said)), is_old=bool(old))


def write_pins(folder: str) -> Path:
    path = Path(folder) / "pins.txt"
    path.write_text("\n".join(pins()) + "\n")
    return path


# -- npm --------------------------------------------------------------------------------------------------------------


def audited_npm() -> Looked:
    if shutil.which("npm") is None:
        raise NotAnsweredError("there is no npm")
    done = run(["npm", "audit", "--json", "--package-lock-only"], cwd=ROOT / "ui")
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise NotAnsweredError(last_line(done.stderr)) from None
    if "vulnerabilities" not in said:
        raise NotAnsweredError(said.get("message") or last_line(done.stderr))
    findings = {
        Finding(found["name"], found["url"].rpartition("/")[2], found["title"])
        for package in said["vulnerabilities"].values()
        for found in package["via"]
        # A package that is only affected by way of another one names that one.
        if isinstance(found, dict)
    }
    return Looked(said["metadata"]["dependencies"]["total"], sorted(findings, key=str))


# -- all of them ------------------------------------------------------------------------------------------------------

SOURCES: dict[str, Callable[[], Looked]] = {
    "crates, withdrawn": yanked_crates,
    "crates, RustSec": rustsec_crates,
    "Python, withdrawn": yanked_pythons,
    "Python, advisories": audited_pythons,
    "npm, advisories": audited_npm,
}


def withdrawn(name: str, version: str) -> Finding:
    return Finding(f"{name} {version}", f"yanked:{name}@{version}", "its publisher withdrew this release")


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)
    except FileNotFoundError:
        raise NotAnsweredError(f"there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise NotAnsweredError(f"{command[0]} took more than {PATIENCE} s") from None


def last_line(text: str) -> str:
    """What a client says last; hints of npm and pip come before."""
    return (text.strip().splitlines() or ["it ended without a word"])[-1].strip()


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def ignored() -> dict[str, datetime.date]:
    """Until when each advisory may pass. Every one has a reason."""
    entries = tomllib.loads(IGNORED.read_text())["ignore"]
    for entry in entries:
        if set(entry) != {"id", "reason", "until"} or not entry["reason"] or type(entry["until"]) is not datetime.date:
            raise ValueError(f"{IGNORED}: {entry} needs an id, a reason, and a date in `until`")
    return {entry["id"]: entry["until"] for entry in entries}


def judge(findings: list[Finding], passing: dict[str, datetime.date]) -> Iterator[tuple[str, bool]]:
    """A line about each finding, and whether it is a failure."""
    for finding in findings:
        until = passing.get(finding.id)
        if until is not None and today() < until:
            yield f"{finding} (ignored until {until})", False
        elif finding.is_mere_note:
            yield f"{finding} (a note)", False
        else:
            yield f"{finding}" + (f" (was ignored until {until})" if until else ""), True


def main(arguments: list[str]) -> int:
    """The process's exit code."""
    passing = ignored()
    failed, silent = False, 0
    for name, look in SOURCES.items():
        try:
            looked = look()
        except NotAnsweredError as error:
            silent += 1
            print(f"{name}: NOT CHECKED: {error}")
            continue
        silent += looked.is_old
        print(f"{name}: {looked.at} packages, {len(looked.findings)} findings" + f"; {looked.beside}".rstrip("; "))
        for line, is_failure in judge(looked.findings, passing):
            failed |= is_failure
            print(f"  {'FAILED' if is_failure else 'ok'}: {line}", file=sys.stderr if is_failure else sys.stdout)
    if failed:
        print(f"\nhint: update the package, or say in {IGNORED.relative_to(ROOT)} why it does no harm", file=sys.stderr)
    return int(failed or ("--strict" in arguments and silent > 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
