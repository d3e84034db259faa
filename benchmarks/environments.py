"""Where contenders live: an environment of its own for each, made at the first use from pinned requirements.

`contenders/requirements/NAME.txt` is for pip, `NAME.npm.txt` for npm, where there is one. Nothing else is downloaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "contenders" / "requirements"


class MissingTool(Exception):
    """What an environment needs is not on this machine."""


def interpreter(name: str | None, directory: Path) -> str:
    """The Python of the environment `name` in `directory`, made now if need be; None is the one that runs this."""
    if name is None:
        return sys.executable
    home = directory / name
    python = home / "bin" / "python"
    complete = home / "complete"
    wanted = "".join(path.read_text() for path in sorted(REQUIREMENTS.glob(f"{name}.*")))
    if complete.exists() and complete.read_text() == wanted:
        return str(python.absolute())
    print(f"installing {name} ...", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS / f"{name}.txt"], check=True
    )
    from_npm = REQUIREMENTS / f"{name}.npm.txt"
    if from_npm.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise MissingTool(f"{name} needs npm; hint: install node, or leave it out with --only")
        packages = from_npm.read_text().split()
        command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(home), *packages]
        subprocess.run(command, check=True)
    complete.write_text(wanted)
    return str(python.absolute())
