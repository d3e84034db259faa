"""Processes and threads that run turns: plain asyncio, speaking docs/worker-protocol.md to the server."""
