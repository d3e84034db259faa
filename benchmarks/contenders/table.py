"""Who is compared."""

from __future__ import annotations

from typing import NamedTuple

MANY = 6_000
"""Enough that what a contender keeps of a few thousand, such as pages of its database, is full before it is counted."""


class Entry(NamedTuple):
    """One contender: `module` of this package, started with `arguments` in the environment of that name.

    `paused` sessions are left waiting when memory is measured, under `arguments_paused` where they differ, by that many
    clients; none where it is 0.

    A contender that does the job in several ways has an entry for each, with its `form`: which of them is the best
    depends on the load, and the tables show that one.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    environment: str | None = None
    paused: int = MANY
    clients_paused: int = 32
    arguments_paused: tuple[str, ...] | None = None
    form: str = ""

    @property
    def title(self) -> str:
        """Tells it from every other entry."""
        return f"{self.name}, {self.form}" if self.form else self.name


# What waits leaves memory after a minute by default, as it does in Restate: too long for a benchmark to wait.
_SOON = ("--park-after", "1")

_LANGGRAPH = "LangGraph, SQLite saver"
_RESTATE = "Restate"
DBOS_ON_POSTGRES = "DBOS, Postgres"

REFERENCE = "hitl, task"
"""What the others are compared with."""

ON_POSTGRES = "hitl, task, Postgres"
"""What the others that write to PostgreSQL are compared with besides: the same server, the same settings."""

CONTENDERS = (
    Entry(
        "hitl, process",
        "hitl_server",
        ("process", "sqlite"),
        paused=1_000,
        arguments_paused=("process", "sqlite", *_SOON),
    ),
    Entry(REFERENCE, "hitl_server", ("task", "sqlite"), arguments_paused=("task", "sqlite", *_SOON)),
    Entry(
        "hitl, process, Postgres",
        "hitl_server",
        ("process", "postgres"),
        paused=1_000,
        arguments_paused=("process", "postgres", *_SOON),
    ),
    Entry(ON_POSTGRES, "hitl_server", ("task", "postgres"), arguments_paused=("task", "postgres", *_SOON)),
    Entry("hitl, task, memory store", "hitl_server", ("task", "memory"), arguments_paused=("task", "memory", *_SOON)),
    Entry("hitl, in process", "hitl_run"),
    Entry("a process a turn (forkserver)", "forkserver", paused=40, clients_paused=4),
    Entry(_LANGGRAPH, "langgraph_saver", environment="langgraph", form="a thread a client"),
    Entry(_LANGGRAPH, "langgraph_saver", ("4",), "langgraph", paused=0, form="four threads"),
    Entry(_LANGGRAPH, "langgraph_async", environment="langgraph", paused=0, form="asynchronous"),
    Entry("LangGraph dev server", "langgraph_dev", environment="langgraph_dev", paused=300),
    # At the interval that is quick for one client, a few hundred that wait would do nothing but look.
    Entry("DBOS, SQLite", "dbos_workflow", ("sqlite", "0.01"), "dbos", paused=300, arguments_paused=("sqlite", "1")),
    Entry(DBOS_ON_POSTGRES, "dbos_workflow", ("postgres",), "dbos", paused=300),
    Entry(
        _RESTATE,
        "restate_service",
        ("waits",),
        "restate",
        1_000,
        arguments_paused=("waits", "1"),
        form="the question awaited",
    ),
    Entry(_RESTATE, "restate_service", ("replies",), "restate", paused=0, form="the question a reply"),
    Entry("OpenAI Agents SDK", "openai_agents_run", environment="openai_agents"),
)
