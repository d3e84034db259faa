"""Check that the committed web inbox is what its source makes, and how large it is: `python tools/check_ui.py`.

Builds `ui/` into a folder of its own and compares. Exits 1 where a file differs. Without node, or with one that is too
old for the build, only the size is checked, and that is said.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, COMMITTED = ROOT / "ui", ROOT / "src/server/assets/ui"
LARGEST = 60 * 1024
"""Bytes of all files together, each gzipped."""
OLDEST_NODE = (20, 19)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def has_node() -> bool:
    if shutil.which("npm") is None or (node := shutil.which("node")) is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


def build(folder: Path) -> None:
    for command in (["npm", "ci", "--no-audit", "--no-fund"], ["npm", "run", "build", "--", "--outDir", str(folder)]):
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    committed = contents(COMMITTED)
    size = sum(len(gzip.compress(data, 9)) for data in committed.values())
    if size > LARGEST:
        sys.exit(f"the web inbox takes {size:,} bytes gzipped, of {LARGEST:,} at most")
    if not has_node():
        print("there is no recent node: the web inbox is not compared with its source")
        return
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        built = contents(Path(folder))
    differing = sorted(name for name in {*built, *committed} if built.get(name) != committed.get(name))
    if differing:
        sys.exit(f"src/server/assets/ui is not what ui/ makes: {', '.join(differing)}\n\nhint: make ui, and commit")
    print(f"web inbox: {size:,} bytes gzipped, as its source makes it")


if __name__ == "__main__":
    main()
