"""A turn that is at work each time that its server is killed may be why, and is suspended once that went on for too
long."""

from __future__ import annotations

from pathlib import Path

from tests.python.faults.slow import at_work, ran, serving
from tests.python.support.waiting import eventually


def test_a_turn_under_which_server_after_server_is_killed_is_suspended(tmp_path: Path) -> None:
    place = tmp_path / "step"
    with serving(tmp_path, max_recoveries=1) as served:
        session = at_work(served, place, once=False)
    # With the first server it has begun, and come further.
    for times in (2, 3):
        with serving(tmp_path, max_recoveries=1) as served:
            eventually(lambda: ran(place), times)
            assert served.api.session(session)["status"] == "running"
    with serving(tmp_path, max_recoveries=1) as served:
        failed = served.api.wait(session)
        assert (failed["status"], failed["error_code"]) == ("error", "worker_exited")
        assert failed["error"] == "The server that had this turn at work ended without a word, time and again"
        assert ran(place) == 3
        served.wait_for_line("more often than --max-recoveries")
        place.with_suffix(".go").touch()
        assert served.api.post(f"/sessions/{session}/retry").status_code == 202
        assert served.api.wait(session)["response"]["content"] == "worked"


def test_servers_that_end_in_order_do_not_count(tmp_path: Path) -> None:
    place = tmp_path / "step"
    with serving(tmp_path, max_recoveries=0, shutdown_timeout=0) as served:
        session = at_work(served, place, once=False)
        served.stop()
    for times in (2, 3):
        with serving(tmp_path, max_recoveries=0, shutdown_timeout=0) as served:
            eventually(lambda: ran(place), times)
            assert served.api.session(session)["status"] == "running"
            served.stop()
    place.with_suffix(".go").touch()
    with serving(tmp_path, max_recoveries=0) as served:
        assert served.api.wait(session)["response"]["content"] == "worked"
