"""The pytest plugin: fixtures for testing agents against a real server, with a scripted person.

def test_it(hitl_server, human):
    server = hitl_server(my_agent)
    human.on("delete_file").approve()
    assert server.send("delete it").content == "done"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from hitl.client import Client
    from hitl.testing.human import Human
    from hitl.testing.live_server import HitlServer


@pytest.fixture
def human() -> Human:
    """The person who answers: `human.on("delete_file").approve()`. What nobody answers fails the test."""
    from hitl.testing.human import Human

    return Human()


@pytest.fixture
def hitl_server(human: Human) -> Iterator[HitlServer]:
    """Serve an agent: `server = hitl_server(my_agent)`, then `server.send("...")`. Stopped when the test ends."""
    from hitl.testing.live_server import HitlServer

    servers = HitlServer(human)
    yield servers
    servers.stop()


@pytest.fixture
def hitl_replay(hitl_server: HitlServer) -> HitlServer:
    """`hitl_server`, where a turn leaves memory whenever it waits: every answer goes through a replay of the turn.

    An agent that does not do the same again fails its test with a `ReplayMismatch`, and not in production. Used in the
    place of `hitl_server`, or beside it.
    """
    hitl_server.options.setdefault("park_after", 0)
    return hitl_server


@pytest.fixture
def hitl_client(hitl_server: HitlServer) -> Client:
    """A client of the server that the test started last."""
    from hitl.testing.live_server import LatestClient

    return cast("Client", LatestClient(hitl_server))
