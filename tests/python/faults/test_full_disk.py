"""A store that cannot be written for a while: what has finished is held, and does not run a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.python.behaviours.faces.disk import full_disk
from tests.python.faults.slow import at_work, ran, serving
from tests.python.support.api import Json, ok
from tests.python.support.served import Served
from tests.python.support.waiting import eventually


def unstored(served: Served) -> int:
    count: int = ok(served.api.get("/health"))["unstored"]
    return count


@pytest.mark.parametrize("once", [False, True])
def test_a_step_that_finishes_meanwhile_is_stored_afterwards(tmp_path: Path, once: bool) -> None:
    place = tmp_path / "step"
    with serving(tmp_path) as served:
        session = at_work(served, place, once)
        with full_disk(served.pid):
            Path(f"{place}.go").touch()
            eventually(lambda: unstored(served), expected=1)
            assert served.api.session(session)["status"] == "running"
        assert served.api.wait(session)["response"]["content"] == "worked"
        eventually(lambda: unstored(served), expected=0)
        assert ran(place) == 1
        served.wait_for_line("is held until it can be")
        said = [line for line in served.lines if "is held until it can be" in line]
        assert len(said) == 1, said


def test_people_are_told_to_come_again_and_nothing_has_changed(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        api = served.api
        idle, asking = api.create(), api.create()
        assert api.send(asking, "null").status_code == 202
        asked: Json = api.wait(asking)["interrupts"][0]
        with full_disk(served.pid):
            for refused in (
                api.get("/readyz"),
                api.send(idle, "null"),
                api.resume(asking, asked["interrupt_id"], "yes"),
                api.post("/sessions", {}),
            ):
                assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
                assert int(refused.headers["Retry-After"]) > 0
            assert api.session(idle)["status"] == "idle"
            assert api.session(asking)["interrupts"] == [asked]
        eventually(lambda: api.get("/readyz").status_code, expected=200)
        ok(api.resume(asking, asked["interrupt_id"], "yes"))
        assert api.wait(asking)["response"]["content"] == "yes"


@pytest.mark.parametrize("once", [False, True])
def test_what_was_held_ends_with_the_server(tmp_path: Path, once: bool) -> None:
    place = tmp_path / "step"
    with serving(tmp_path) as served:
        session = at_work(served, place, once)
        with full_disk(served.pid):
            Path(f"{place}.go").touch()
            eventually(lambda: unstored(served), expected=1)
            served.stop()
    with serving(tmp_path) as served:
        after = served.api.wait(session)
        if once:
            # As after a crash: nobody knows what came of it, and a person says how to go on.
            assert [interrupt["type"] for interrupt in after["interrupts"]] == ["unknown_outcome"]
        else:
            assert after["response"]["content"] == "worked"
        assert ran(place) == (1 if once else 2)
