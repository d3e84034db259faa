"""`hitl.run` with a store, in process: no server, no HTTP."""

from __future__ import annotations

import hitl
from benchmarks.agents import pair
from benchmarks.contenders.host import Asynchronous, directory, serve


class HitlRun(Asynchronous[str]):
    """Each job is a session of the store; it goes on from what the store has of it."""

    settings = "durable: SQLite, WAL, synchronous=FULL"
    packages = ("hitl-runtime",)

    def __init__(self) -> None:
        super().__init__()
        self._store = hitl.Store(f"sqlite:{directory() / 'hitl.db'}")

    async def ask(self, session: None) -> str:
        paused = await hitl.run(pair, "go", store=self._store)
        if paused.status != "interrupted":
            raise RuntimeError(f"the run is {paused.status}: {paused.error}")
        return paused.session_id

    async def answer(self, asked: str) -> str:
        state = await hitl.RunState.from_store(pair, self._store, asked)
        for interrupt in state.interrupts:
            state.answer(interrupt, "done")
        return str((await hitl.run(pair, state, store=self._store)).output)

    def close(self) -> None:
        self.runner.run(self._store.close())
        super().close()


if __name__ == "__main__":
    serve(HitlRun)
