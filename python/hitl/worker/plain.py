"""A worker that imports the agent itself, for where forking is not safe.

``python -m hitl.worker.plain turn|pool MODULE:ATTR [PATH...]``; standard input is the channel of
docs/worker-protocol.md.
"""

from __future__ import annotations

import os
import sys

from hitl.driver.code_version import code_version
from hitl.driver.frames import encode_frame
from hitl.errors import AgentLoadError
from hitl.turn import lease
from hitl.worker import isolation
from hitl.worker.child import run_child
from hitl.worker.loading import load_agent, without_collections

_EXIT_IMPORT = 3


def main(arguments: list[str]) -> int:  # noqa: RET503 - run_child does not return
    """The worker's life; the exit code is 3 when the agent cannot be imported, which the server is told as well."""
    isolation.die_with(None)
    isolation.set_name("hitl-worker")
    channel = isolation.take_standard_input()
    isolation.keep_from_children()
    isolation.leave_terminal()
    isolation.give_back_open_files()
    lease.go_by(lease.take_page())
    mode, spec, *paths = arguments
    isolation.prepend_paths(paths)
    try:
        with without_collections():
            agent = load_agent(spec)
    except AgentLoadError as error:
        with os.fdopen(channel, "wb") as stream:
            stream.write(encode_frame({"frame": "failed", "message": str(error), "hint": error.hint}))
        return _EXIT_IMPORT
    run_child(channel, agent, mode, code_version(agent, paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
