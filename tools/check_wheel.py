"""What is about to be uploaded, looked at: `python tools/check_wheel.py FILE...`, a part of `make wheel`.

A wheel: its name says what it is built for and `auditwheel` agrees, it keeps to the stable ABI (`abi3audit`), it holds
this package whole and nothing else, and it is small enough. An sdist: small enough, and without anything built. Both:
`twine check`, which renders the page that the package index shows. Exits 1 and says what is wrong.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "hitl"
CORE = "hitl/_core.abi3.so"

MEBIBYTE = 2**20
LARGEST_WHEEL = 16 * MEBIBYTE
LARGEST_INSTALLED = 48 * MEBIBYTE
LARGEST_SDIST = 2 * MEBIBYTE

NEWEST_GLIBC = (2, 28)
"""Of the Linux that a wheel needs: that of Debian 10, RHEL 8 and Ubuntu 20.04, and of whatever came later."""

_NAME = re.compile(r"hitl_runtime-(?P<version>[^-]+)-cp311-abi3-(?P<platform>[\w.]+)\.whl")
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
_METADATA = re.compile(
    r"hitl_runtime-[^/]+\.dist-info/(METADATA|WHEEL|RECORD|entry_points\.txt|licenses/LICENSE|sboms/[^/]+\.json)"
)


def package_files() -> set[str]:
    """What the package in this checkout consists of, without what is built."""
    return {
        f"hitl/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".so", ".pyc", ".pyd")
    }


def wrong_with_wheel(wheel: Path) -> Iterator[str]:
    """What a look at its name, its size and its content finds."""
    name = _NAME.fullmatch(wheel.name)
    if name is None:
        yield f"{wheel.name} is no wheel of hitl-runtime for the stable ABI of Python 3.11"
    elif name["platform"].startswith("linux_"):
        yield f"{name['platform']} is built for this machine's own system; an index takes manylinux and musllinux"
    elif (glibc := newest_glibc(name["platform"])) is not None and glibc > NEWEST_GLIBC:
        yield f"it needs glibc {glibc[0]}.{glibc[1]}, and should do with {NEWEST_GLIBC[0]}.{NEWEST_GLIBC[1]}"
    size = wheel.stat().st_size
    if size > LARGEST_WHEEL:
        yield f"it has {size:,} bytes, and should have at most {LARGEST_WHEEL:,}"
    with zipfile.ZipFile(wheel) as archive:
        members = {member.filename: member.file_size for member in archive.infolist() if not member.is_dir()}
    if (installed := sum(members.values())) > LARGEST_INSTALLED:
        yield f"installed it has {installed:,} bytes, and should have at most {LARGEST_INSTALLED:,}"
    held = {member for member in members if not _METADATA.fullmatch(member)}
    wanted = package_files() | {CORE}
    yield from (f"it lacks {member}" for member in sorted(wanted - held))
    yield from (f"it should not hold {member}" for member in sorted(held - wanted))
    metadata = {found[1] for member in members if (found := _METADATA.fullmatch(member))}
    yield from (
        f"its metadata lack {part}"
        for part in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
        if part not in metadata
    )
    if not any(part.startswith("sboms/") for part in metadata):
        yield "it has no SBOM of the crates in it"


def newest_glibc(platform: str) -> tuple[int, int] | None:
    """The oldest glibc that does, of a platform tag or several; None where it names none."""
    versions = [(int(major), int(minor)) for major, minor in _GLIBC.findall(platform)]
    return min(versions, default=None)


def wrong_with_sdist(sdist: Path) -> Iterator[str]:
    """What a look at its size and its content finds."""
    size = sdist.stat().st_size
    if size > LARGEST_SDIST:
        yield f"it has {size:,} bytes, and should have at most {LARGEST_SDIST:,}"
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    built = [
        name for name in sorted(members) if name.endswith((".so", ".pyc", ".pyd", ".db")) or "target" in name.split("/")
    ]
    yield from (f"it should not hold {name}" for name in built)
    wanted = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    wanted |= {f"python/{name}" for name in package_files()}
    yield from (f"it lacks {name}" for name in sorted(wanted - members))


def wrong_with_platform(wheel: Path) -> Iterator[str]:
    """What `auditwheel` and `abi3audit` say; the first knows Linux alone."""
    if "linux" in wheel.name:
        shown = told([sys.executable, "-m", "auditwheel", "show", str(wheel)])
        if isinstance(shown, Complaint):
            yield str(shown)
            return
        found = re.search(r'platform\s+tag:\s+"([\w.]+)"', shown)
        if found is None:
            yield f"auditwheel names no platform tag:\n{shown}"
            return
        print(f"{wheel.name}: auditwheel says {found[1]}")
        needs, says = newest_glibc(found[1]), newest_glibc(wheel.name)
        if found[1].startswith("linux_") or (needs is not None and says is not None and needs > says):
            yield f"its name says more than auditwheel: {found[1]}"
    audited = told([sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.11", str(wheel)])
    if isinstance(audited, Complaint):
        yield str(audited)


class Complaint(str):
    """What a tool printed that was not content."""

    __slots__ = ()


def told(command: list[str]) -> str:
    """What a tool prints, as a `Complaint` where it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode == 0 else Complaint(f"{' '.join(command[2:4])} says:\n{done.stdout.strip()}")


def main(files: list[Path]) -> int:
    """Look at everything; the exit code."""
    if not files:
        print("error: name the files, as in: python tools/check_wheel.py dist/*", file=sys.stderr)
        return 2
    wrong = 0
    for path in files:
        findings = (
            [*wrong_with_wheel(path), *wrong_with_platform(path)]
            if path.suffix == ".whl"
            else [*wrong_with_sdist(path)]
        )
        print(f"{path.name}: {path.stat().st_size / MEBIBYTE:.1f} MiB, {len(findings) or 'no'} findings")
        for finding in findings:
            print(f"  {finding}", file=sys.stderr)
        wrong += len(findings)
    twine = told([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    print(twine.strip(), file=sys.stderr if isinstance(twine, Complaint) else sys.stdout)
    return int(wrong > 0 or isinstance(twine, Complaint))


if __name__ == "__main__":
    sys.exit(main([Path(argument) for argument in sys.argv[1:]]))
