"""An instance that is brought to a point in time is another one, and goes on from there; a standby is the same."""

from __future__ import annotations

import json
from contextlib import ExitStack

from tests.python.cluster.conftest import AGENT
from tests.python.cluster.test_commands import command
from tests.python.deploy.test_backups import figure
from tests.python.support.api import ok
from tests.python.support.own_postgres import OwnPostgres, own_postgres
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


def wait_until_archived(original: OwnPostgres) -> None:
    """Until everything that was written can be recovered elsewhere."""
    segment = original.execute("SELECT pg_walfile_name(pg_switch_wal())")
    eventually(lambda: original.execute("SELECT last_archived_wal FROM pg_stat_archiver") >= segment, True)


def test_what_waited_at_a_point_in_time_waits_again_and_no_notice_goes_out_before_adoption() -> None:
    with ExitStack() as stack:
        original, receiver = stack.enter_context(own_postgres()), stack.enter_context(Receiver())
        archive = original.home / "archive"
        original.set("archive_mode = on", f"archive_command = 'mkdir -p {archive} && cp %p {archive}/%f'")
        original.restart("fast")
        copy = stack.enter_context(original.backup())
        with Served(AGENT, store=original.address, park_after=0, webhook_allow_private=True) as server:
            session_id = server.api.create()
            assert server.api.send(session_id, "null", webhook={"url": receiver.url}).status_code == 202
            interrupt = server.api.wait(session_id)["interrupts"][0]["interrupt_id"]
            original.execute("SELECT pg_create_restore_point('before_the_answer')")
            ok(server.api.resume(session_id, interrupt, "in the original"))
            assert server.api.wait(session_id)["response"]["content"] == "in the original"
            assert figure(server.api, "hitl_outbox_held") == 0
            receiver.next()
        wait_until_archived(original)

        copy.set(
            "archive_mode = off",
            f"restore_command = 'cp {archive}/%f %p'",
            "recovery_target_name = 'before_the_answer'",
            "recovery_target_action = 'promote'",
        )
        copy.signals("recovery")
        copy.start()
        eventually(lambda: copy.is_primary, True)
        with Served(AGENT, store=copy.address, park_after=0, webhook_allow_private=True) as server:
            server.wait_for_line("no notice goes out before hitl store adopt")
            (waiting,) = ok(server.api.get("/interrupts"))
            assert waiting["interrupt_id"] == interrupt
            ok(server.api.resume(session_id, interrupt, "in the copy"))
            assert server.api.wait(session_id)["response"]["content"] == "in the copy"
            assert figure(server.api, "hitl_outbox_held") == 1
            assert receiver.is_empty
            assert json.loads(command("store", "adopt", copy.address))["was_restored"] is True
            assert receiver.next().body["response"]["content"] == "in the copy"
            assert figure(server.api, "hitl_outbox_held") == 0
        assert "whole" in command("audit", "verify", "--store", copy.address)
        # Its settings are cleared one day, and it stays the one that is served.
        copy.set("recovery_target_name = ''")
        copy.restart("fast")
        assert json.loads(command("store", "adopt", copy.address))["was_restored"] is False


def test_a_standby_that_is_promoted_is_the_one_that_is_served() -> None:
    with own_postgres() as original:
        with Served(AGENT, store=original.address, park_after=0) as server:
            session_id = server.api.create()
            interrupt = server.api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]
        with original.backup("-R") as standby:
            original.stop("fast")
            standby.start()
            standby.promote()
            with Served(AGENT, store=standby.address, park_after=0) as server:
                assert figure(server.api, "hitl_outbox_held") == 0
                ok(server.api.resume(session_id, interrupt, "at the standby"))
                assert server.api.wait(session_id)["response"]["content"] == "at the standby"
            assert json.loads(command("store", "adopt", standby.address))["was_restored"] is False
