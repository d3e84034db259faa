"""Serving an agent over HTTP, from a program or the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitl.serving.server import ServeError as ServeError
    from hitl.serving.server import Server as Server
    from hitl.serving.server import serve as serve

__all__ = ["ServeError", "Server", "serve"]


if not TYPE_CHECKING:
    # A checker that saw it would take every misspelt name for a public one.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'hitl.serving' has no attribute {name!r}")
        # Late: the command line reads the options without what serves.
        from hitl.serving import server

        return getattr(server, name)
