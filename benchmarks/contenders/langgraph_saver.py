"""LangGraph in process, over its SQLite saver. Argument: how many threads there are at the most; one for each client
where it is left out."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from benchmarks.contenders.host import Blocking, arguments, directory, serve
from benchmarks.contenders.langgraph_graph import builder


class LangGraphSaver(Blocking[Any]):
    """A thread for each job: its id is all that the answer needs."""

    packages = ("langgraph", "langgraph-checkpoint-sqlite")

    def __init__(self) -> None:
        self.settings = 'durable: SqliteSaver, WAL, synchronous=FULL, durability="sync"'
        # A client that waits for a place is as good as one whose work waits for a thread of a pool.
        self._places: AbstractContextManager[object] = nullcontext()
        if arguments():
            self._places = threading.Semaphore(int(arguments()[0]))
            self.settings += f", {arguments()[0]} threads"
        connection = sqlite3.connect(directory() / "checkpoints.db", check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        self._graph = builder.compile(checkpointer=SqliteSaver(connection))

    def ask(self, session: None) -> Any:
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        with self._places:
            paused = self._graph.invoke({"message": "go"}, config, durability="sync")
        if not paused["__interrupt__"]:
            raise RuntimeError("the graph did not pause")
        return config

    def answer(self, asked: Any) -> str:
        with self._places:
            return str(self._graph.invoke(Command(resume="done"), asked, durability="sync")["answer"])


if __name__ == "__main__":
    serve(LangGraphSaver)
