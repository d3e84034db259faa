"""A real PgBouncer before the database of a test, which lends a connection for a transaction only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.python.support import postgres
from tests.python.support.waiting import eventually

SETTINGS = """\
[databases]
* = host={database} user=postgres
[pgbouncer]
pool_mode = transaction
default_pool_size = {size}
listen_addr =
unix_socket_dir = {home}
auth_type = any
logfile = {home}/log
"""


@contextmanager
def before(database: str, size: int) -> Iterator[str]:
    """The address of `database` by way of a pool of `size` connections; PgBouncer ends afterwards."""
    home = Path(tempfile.mkdtemp(prefix="hitl-pooler-"))
    settings = SETTINGS.format(database=postgres.socket_of(database).parent, size=size, home=home)
    (home / "ini").write_text(settings)
    # It does not run as root either.
    who = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        shutil.chown(home, who)
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    pooler = subprocess.Popen([program, "-q", "-u", who, home / "ini"], stdin=subprocess.DEVNULL, cwd="/")
    try:
        eventually((home / ".s.PGSQL.6432").exists, True)
        name = urlsplit(database).path.removeprefix("/")
        yield f"postgresql://postgres@/{name}?host={home}&port=6432"
    finally:
        pooler.terminate()
        pooler.wait()
        shutil.rmtree(home)
