"""A server that starts, and a database that does not answer."""

from __future__ import annotations

import socket

from tests.python.cluster.conftest import Serve


def test_a_server_says_which_database_it_waits_for(serve: Serve) -> None:
    with socket.socket() as silent, socket.socket() as free:
        for place in (silent, free):
            place.bind(("127.0.0.1", 0))
        # Connections are taken, and nobody says a word there.
        silent.listen()
        address = f"postgresql://hitl:secret@127.0.0.1:{silent.getsockname()[1]}/hitl"
        port = free.getsockname()[1]
        free.close()
        server = serve(address, port=port, stands_by=True)
        server.wait_for_line("has not answered yet")
        assert any(address.replace(":secret", "") in line for line in server.lines), server.lines
        assert not any("secret" in line for line in server.lines)
