"""A wheel as a newcomer meets it: `python tools/try_wheel.py dist/*.whl`, a part of `make wheel`.

For each Python that is here, the tested ones and others (`tools/other_pythons.py` says how they are found), a bare
virtual environment: no compiler on PATH, and far from this checkout, whose settings pytest would find. pip installs the
wheel there, with `--only-binary`, and then, in an empty directory: import, `hitl demo` up to a file that is deleted
after a yes, `hitl init`, the test of that project, and its server with what its compose file says.
On a Python that is not tested, the import, and the refusal to serve. With an sdist in the wheel's place, which cargo
builds first, the same on this Python alone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.other_pythons import installer, interpreters

NO_COMPILER = "/nowhere"
"""PATH besides the environment's own commands: neither cargo nor a C compiler."""

IMPORTS = "import hitl, hitl._core as core; print(hitl.__version__, hitl.__file__, *core.PYTHONS)"

# With the client that the wheel brings: the server, a message, and the server's key or nothing.
ASKS = """
import sys
from hitl.client import Client
url, message, key = sys.argv[1:]
with Client(url, api_key=key or None) as client:
    session = client.ask(client.create_session().session_id, message)
    (asked,) = session.interrupts
    client.answer(asked.interrupt_id, {"approved": True})
    print(client.wait(session.session_id).response.content)
"""

_URL = re.compile(r"is served on (http://\S+)")


class Bare:
    """A virtual environment with a wheel in it, and a directory that is empty."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "environment" / "bin" / "python"
        self.empty = folder / "empty"
        self.home = folder / "home"

    @classmethod
    def made(cls, folder: Path, interpreter: Path, *wanted: str) -> Bare:
        """In a folder that is empty, with what pip understands by `wanted`; nothing is built unless that says so."""
        bare = cls(folder)
        bare.empty.mkdir(parents=True)
        bare.home.mkdir()
        subprocess.run([interpreter, "-m", "venv", "--without-pip", folder / "environment"], check=True)
        command = [*installer(bare.python), "--quiet", "--only-binary", ":all:", *wanted]
        # Most of what pip would compile is never imported here.
        subprocess.run(command, check=True, env={**os.environ, "PIP_NO_COMPILE": "1"})
        return bare

    def environment(self, **more: str) -> dict[str, str]:
        """Variables for a program there: nothing of ours, no key, no compiler."""
        path = os.pathsep.join([str(self.python.parent), NO_COMPILER])
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **more}

    def command(self, name: str) -> str:
        """A command that is installed there."""
        return str(self.python.parent / name)

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """What it prints; `CalledProcessError`, with that, where it fails."""
        done = subprocess.run(
            command,
            cwd=cwd or self.empty,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=200,
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
        return done.stdout

    @contextmanager
    def serving(self, *command: str, cwd: Path | None = None, **variables: str) -> Iterator[str]:
        """A server that prints where it listens, until the end of the block; then Ctrl-C ends it."""
        process = subprocess.Popen(
            command,
            cwd=cwd or self.empty,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        giving_up = threading.Timer(200, process.kill)
        giving_up.start()
        try:
            yield self._url_of(process)
            process.send_signal(signal.SIGINT)
            if (code := process.wait()) != 130:
                raise AssertionError(f"{command} ended with {code} after Ctrl-C")
        finally:
            giving_up.cancel()
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @staticmethod
    def _url_of(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if found := _URL.search(line):
                return found[1]
        raise AssertionError("no server listens; printed was:\n" + "".join(printed))


def imports(bare: Bare) -> tuple[str, list[str]]:
    """What is imported, from that environment and from nowhere else: its version, and the Pythons it is tested on."""
    version, place, *tested = bare.run(str(bare.python), "-W", "error", "-c", IMPORTS).split()
    if not Path(place).is_relative_to(bare.python.parents[1]):
        raise AssertionError(f"hitl is imported from {place}")
    return version, tested


def demo(bare: Bare) -> None:
    """`hitl demo`, up to a file that is deleted after a yes."""
    with bare.serving(bare.command("hitl"), "demo", "--port", "0") as url:
        if not (answer := ask(bare, url, "delete the old logs file")).startswith("Done: old_logs.txt is gone."):
            raise AssertionError(answer)
    files = {path.name for path in (bare.empty / "demo_files").iterdir()}
    if files != {"downloads", "todo.txt"}:
        raise AssertionError(f"after the deletion there are {sorted(files)}")


def project(bare: Bare) -> None:
    """`hitl init`: its test passes, and it is served with the variables that its compose file has."""
    bare.run(bare.command("hitl"), "init", "mine")
    there = bare.empty / "mine"
    passed = bare.run(str(bare.python), "-m", "pytest", "-q", "-W", "error", cwd=there)
    if "3 passed" not in passed:
        raise AssertionError(passed)
    key = "a key of sixteen letters, at least"
    says = dict(re.findall(r'^ {6}(HITL_\w+): "?([^"$\n]+)"?$', (there / "compose.yaml").read_text(), re.MULTILINE))
    here = {
        "HITL_STORE": f"sqlite:{bare.home}/hitl.db",
        "HITL_HOST": "127.0.0.1",
        "HITL_PORT": "0",
        "HITL_API_KEY": key,
    }
    with bare.serving(bare.command("hitl"), "serve", cwd=there, **(says | here)) as url:
        if (answer := ask(bare, url, "refund A-1 40", key)) != "refunded 40 euros for A-1":
            raise AssertionError(answer)


def ask(bare: Bare, url: str, message: str, key: str = "") -> str:
    """What the agent says at the end, once what it asked was approved."""
    return bare.run(str(bare.python), "-c", ASKS, url, message, key).strip()


def refusal(bare: Bare) -> None:
    """On a Python that hitl is not tested on, nothing is served."""
    try:
        printed = bare.run(bare.command("hitl"), "demo", "--port", "0")
    except subprocess.CalledProcessError as error:
        printed = error.output
    if "error: hitl is tested on Python" not in printed:
        raise AssertionError(printed)


def try_on(minor: str, bare: Bare) -> str:
    """Everything that works on that Python; what that was, in words."""
    version, tested = imports(bare)
    if (printed := bare.run(bare.command("hitl"), "--version")) != f"hitl {version}\n":
        raise AssertionError(f"the command is of another version: {printed}")
    if minor not in tested:
        refusal(bare)
        return f"hitl {version} is imported, and refuses to serve: not a tested version"
    demo(bare)
    project(bare)
    return f"hitl {version} is imported, demo and project run"


def pythons() -> dict[str, Path]:
    """One of each minor version that is here, this one's among them."""
    here = "{}.{}".format(*sys.version_info)
    return {here: Path(sys.executable), **{minor: path for minor, (path, _) in interpreters().items()}}


def main(arguments: Sequence[str]) -> int:
    """Try it everywhere, an sdist on this Python alone; the exit code."""
    if len(arguments) != 1 or not arguments[0].endswith((".whl", ".tar.gz")):
        print(f"error: one wheel or one sdist can be tried, not {list(arguments)}", file=sys.stderr)
        return 2
    path = Path(arguments[0]).resolve()
    wanted = ["--no-binary", "hitl-runtime", f"{path}[test]"] if path.suffix == ".gz" else [f"{path}[test]"]
    failed = False
    report = []
    for minor, interpreter in sorted(pythons().items()):
        if path.suffix == ".gz" and interpreter != Path(sys.executable):
            continue
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="hitl-wheel-") as folder:
                said = try_on(minor, Bare.made(Path(folder).resolve(), interpreter, *wanted))
        except (AssertionError, subprocess.CalledProcessError) as error:
            failed = True
            said = f"FAILED, {error}\n{getattr(error, 'output', None) or ''}"
        report.append(f"Python {minor}: {said}, {time.monotonic() - began:.0f} s")
    print("\n".join(report))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
