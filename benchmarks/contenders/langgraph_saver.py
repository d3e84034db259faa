"""LangGraph in process, over its SQLite saver."""

from __future__ import annotations

import sqlite3
import uuid
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from benchmarks.contenders.host import Blocking, directory, serve
from benchmarks.contenders.langgraph_graph import builder


class LangGraphSaver(Blocking[Any]):
    """A thread for each job: its id is all that the answer needs."""

    settings = 'durable: SqliteSaver, WAL, synchronous=FULL, durability="sync"'
    packages = ("langgraph", "langgraph-checkpoint-sqlite")

    def __init__(self) -> None:
        connection = sqlite3.connect(directory() / "checkpoints.db", check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        self._graph = builder.compile(checkpointer=SqliteSaver(connection))

    def ask(self, session: None) -> Any:
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        paused = self._graph.invoke({"message": "go"}, config, durability="sync")
        if not paused["__interrupt__"]:
            raise RuntimeError("the graph did not pause")
        return config

    def answer(self, asked: Any) -> str:
        return str(self._graph.invoke(Command(resume="done"), asked, durability="sync")["answer"])


if __name__ == "__main__":
    serve(LangGraphSaver)
