"""What `GET /health` answers: a server's account of itself, and of those that share its store."""

from __future__ import annotations

from dataclasses import dataclass, field

from hitl.client.models import Json


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """One of the servers that share a store, as another one knows it.

    name: its machine and process, as `hitl servers` lists it. server_id: which life of that process.
    serves_http: whether it takes requests. max_workers: how many turns may be at work there, 0 where it runs none.
    code: the code of its agent, None where it runs no turns. silent_ms: how long ago its last beat was.
    """

    name: str
    server_id: str
    version: str
    agent: str | None
    code: str | None
    serves_http: bool
    max_workers: int
    running_workers: int
    draining: bool
    silent_ms: int
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Json) -> ServerHealth:
        return cls(
            data["name"],
            data["server_id"],
            data["version"],
            data["agent"],
            data.get("code"),
            data["serves_http"],
            data["max_workers"],
            data["running_workers"],
            data["draining"],
            data["silent_ms"],
            data,
        )


@dataclass(frozen=True, slots=True)
class Health:
    """The server's own account of itself. `max_workers` bounds the turns at work.

    servers: all that share its store; None where only one can have it.
    differences: what of them is not alike and should be: `agent`, `version`, `code`, `options`, `policy`.
    """

    status: str
    max_workers: int
    running_workers: int
    total_sessions: int
    raw: Json = field(repr=False, compare=False)
    servers: tuple[ServerHealth, ...] | None = None
    differences: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Json) -> Health:
        servers = data.get("servers")
        return cls(
            data["status"],
            data["max_workers"],
            data["running_workers"],
            data["total_sessions"],
            data,
            None if servers is None else tuple(map(ServerHealth.from_json, servers)),
            tuple(data.get("differences") or ()),
        )
