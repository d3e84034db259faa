"""An instance that is brought to a point in time is another one, and goes on from there; a standby is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.cluster.conftest import AGENT
from tests.python.cluster.test_commands import command
from tests.python.deploy.test_backups import figure
from tests.python.support import instance
from tests.python.support.api import ok
from tests.python.support.instance import Instance
from tests.python.support.receiver import Receiver
from tests.python.support.served import Served
from tests.python.support.waiting import eventually

SLOW = 90.0
"""Seconds that recovery may take on a busy machine."""


@pytest.fixture
def room() -> Iterator[Path]:
    with instance.room() as directory:
        yield directory


def archived(original: Instance) -> bool:
    """Whether everything written until now can be recovered elsewhere."""
    segment = original.ask("SELECT pg_walfile_name(pg_switch_wal())")
    eventually(lambda: original.ask("SELECT last_archived_wal FROM pg_stat_archiver") >= segment, True, SLOW)
    return True


def primary(server: Instance) -> bool:
    """Whether it takes writes."""
    return server.ask("SELECT pg_is_in_recovery()") == "f"


def test_what_waited_at_a_point_in_time_waits_again_and_no_notice_goes_out_before_adoption(
    room: Path,
) -> None:
    original, copy, archive = room / "original", room / "copy", room / "archive"
    archive.mkdir(mode=0o777)
    archive.chmod(0o777)
    instance.make(original)
    archiving = ("archive_mode=on", f"archive_command=cp %p {archive}/%f")
    with Receiver() as receiver:
        webhook = {"url": receiver.url}
        with Instance(original, *archiving) as first:
            first.backup(copy)
            with Served(AGENT, store=first.address, park_after=0, webhook_allow_private=True) as server:
                session_id = server.api.create()
                assert server.api.send(session_id, "null", webhook=webhook).status_code == 202
                interrupt = server.api.wait(session_id)["interrupts"][0]["interrupt_id"]
                first.ask("SELECT pg_create_restore_point('before_the_answer')")
                ok(server.api.resume(session_id, interrupt, "in the original"))
                assert server.api.wait(session_id)["response"]["content"] == "in the original"
                assert figure(server.api, "hitl_outbox_held") == 0
                receiver.next()
            assert archived(first)

        (copy / "recovery.signal").touch()
        target = ("recovery_target_name=before_the_answer", "recovery_target_action=promote")
        with Instance(copy, *archiving[:1], f"restore_command=cp {archive}/%f %p", *target) as second:
            eventually(lambda: primary(second), True, SLOW)
            with Served(AGENT, store=second.address, park_after=0, webhook_allow_private=True) as server:
                server.wait_for_line("no notice goes out before hitl store adopt")
                (waiting,) = ok(server.api.get("/interrupts"))
                assert waiting["interrupt_id"] == interrupt
                ok(server.api.resume(session_id, interrupt, "in the copy"))
                assert server.api.wait(session_id)["response"]["content"] == "in the copy"
                assert figure(server.api, "hitl_outbox_held") == 1
                assert receiver.is_empty
                assert json.loads(command("store", "adopt", second.address))["was_restored"] is True
                assert receiver.next().body["response"]["content"] == "in the copy"
                assert figure(server.api, "hitl_outbox_held") == 0
            assert "whole" in command("audit", "verify", "--store", second.address)
        # Its settings are cleared one day, and it stays the one that is served.
        with Instance(copy) as second:
            assert json.loads(command("store", "adopt", second.address))["was_restored"] is False


def test_a_standby_that_is_promoted_is_the_one_that_is_served(room: Path) -> None:
    original, standby = room / "original", room / "standby"
    instance.make(original)
    with Instance(original) as first:
        with Served(AGENT, store=first.address, park_after=0) as server:
            session_id = server.api.create()
            interrupt = server.api.settled(session_id, "null", 1)["interrupts"][0]["interrupt_id"]
        first.backup(standby, "-R")
    with Instance(standby) as second:
        second.ask("SELECT pg_promote()")
        eventually(lambda: primary(second), True, SLOW)
        with Served(AGENT, store=second.address, park_after=0) as server:
            assert figure(server.api, "hitl_outbox_held") == 0
            ok(server.api.resume(session_id, interrupt, "at the standby"))
            assert server.api.wait(session_id)["response"]["content"] == "at the standby"
        assert json.loads(command("store", "adopt", second.address))["was_restored"] is False
