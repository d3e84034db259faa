"""An agent whose author names its version, and which cannot be replayed."""

import hitl


@hitl.agent(version="2026-11", replay=False)
async def agent(message, state):
    return message, state
