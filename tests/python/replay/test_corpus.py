"""Journals that earlier releases paused: this one goes on with them. What a later one wrote is refused."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from hitl import interrupt
from hitl.errors import ReplayMismatch, UnreadableJournal
from tests.python.replay.corpus import paused, release_0_1, release_0_2
from tests.python.replay.loops import on_own_loop
from tests.python.support.local import LocalTurn

_JOURNALS = sorted(paused.FOLDER.glob("*.json"))
_AGENTS = {
    f"{release.__name__.rpartition('.')[2]}-{name}": agent
    for release in (release_0_1, release_0_2)
    for name, agent in release.AGENTS.items()
}


def _agent_of(path: Path) -> Any:
    module, _, name = path.stem.partition("-")
    return importlib.import_module(f"{paused.__package__}.{module}").AGENTS[name]


@pytest.mark.parametrize("path", _JOURNALS, ids=lambda path: path.stem)
def test_a_turn_that_an_earlier_release_paused_goes_on(path: Path) -> None:
    on_own_loop(paused.go_on(_agent_of(path), json.loads(path.read_text())))


def test_every_agent_of_this_release_has_a_journal() -> None:
    assert {path.stem for path in _JOURNALS} == set(_AGENTS)


@pytest.mark.parametrize("name", sorted(_AGENTS))
def test_this_release_still_writes_journals_that_it_can_go_on_with(name: str) -> None:
    async def both() -> None:
        await paused.go_on(_AGENTS[name], await paused.record(_AGENTS[name]))

    on_own_loop(both())


def test_another_agent_does_not_go_on_with_it() -> None:
    recorded = json.loads((paused.FOLDER / "release_0_1-runs_tools.json").read_text())
    with pytest.raises(ReplayMismatch, match="hint:"):
        on_own_loop(paused.go_on(release_0_1.AGENTS["shares"], recorded))


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"entry": "teleport", "to": "0#2"}, r"journal\[1\]: there is no entry `teleport`"),
        ({"entry": "step", "path": "0#1"}, r"journal\[1\]: an entry `step` has no `step`"),
    ],
)
def test_a_journal_of_a_later_release_is_refused_before_anything_runs(entry: dict[str, Any], complaint: str) -> None:
    ran = []

    async def agent() -> None:
        ran.append(True)
        await interrupt({"type": "q"})

    async def refused() -> None:
        journal = [{"at": 1, "entry": "start", "code": "code-9", "python": "3.11"}, {"at": 2, **entry}]
        with pytest.raises(UnreadableJournal, match=complaint):
            await LocalTurn(journal=journal).run(agent)

    on_own_loop(refused())
    assert not ran
