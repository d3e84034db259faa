"""LangGraph in process, on one event loop, over its asynchronous SQLite saver."""

from __future__ import annotations

import uuid
from typing import Any

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from benchmarks.contenders.host import Asynchronous, directory, serve
from benchmarks.contenders.langgraph_graph import asynchronous


class LangGraphAsync(Asynchronous[Any]):
    """A thread of the graph for each job, as in `langgraph_saver`."""

    settings = 'durable: AsyncSqliteSaver, WAL, synchronous=FULL, durability="sync", nodes are coroutines'
    packages = ("langgraph", "langgraph-checkpoint-sqlite")

    def __init__(self) -> None:
        super().__init__()
        self._graph = self.runner.run(self._compiled())

    async def _compiled(self) -> Any:
        self._connection = await aiosqlite.connect(directory() / "checkpoints.db")
        await self._connection.execute("PRAGMA synchronous = FULL")
        return asynchronous.compile(checkpointer=AsyncSqliteSaver(self._connection))

    async def ask(self, session: None) -> Any:
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        paused = await self._graph.ainvoke({"message": "go"}, config, durability="sync")
        if not paused["__interrupt__"]:
            raise RuntimeError("the graph did not pause")
        return config

    async def answer(self, asked: Any) -> str:
        ended = await self._graph.ainvoke(Command(resume="done"), asked, durability="sync")
        return str(ended["answer"])

    def close(self) -> None:
        self.runner.run(self._connection.close())
        super().close()


if __name__ == "__main__":
    serve(LangGraphAsync)
