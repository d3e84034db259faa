"""DBOS in process. Arguments: `postgres`, which is a real one, started for this; or `sqlite` and how often, in seconds,
a waiting workflow looks there for its answer (the default of DBOS is 1)."""

from __future__ import annotations

from typing import Any

from dbos import DBOS, DBOSConfig

from benchmarks.contenders import postgres
from benchmarks.contenders.host import Asynchronous, arguments, directory, serve, work

A_WEEK = 7 * 24 * 3600.0


@DBOS.step()
async def step(number: int) -> int:
    return work(number)


@DBOS.workflow()
async def job(message: str) -> str:
    await step(1)
    await DBOS.set_event_async("asked", {"type": "question", "prompt": "Go on?"})
    answer = await DBOS.recv_async("answer", timeout_seconds=A_WEEK)
    await step(2)
    return str(answer)


class DbosWorkflow(Asynchronous[Any]):
    """A workflow for each job; the question is an event of it, the answer a message to it."""

    packages = ("dbos",)

    def __init__(self) -> None:
        super().__init__()
        self._postgres: postgres.Postgres | None = None
        config: DBOSConfig = {"name": "benchmark", "run_admin_server": False, "console_log_level": "ERROR"}
        config["executor_id"] = "benchmark"
        config["log_level"] = "ERROR"
        if arguments() == ["postgres"]:
            self.packages = ("dbos", postgres.PACKAGE)
            self._postgres = postgres.start(directory() / "postgres")
            self.settings = f"durable: Postgres, {self._postgres.settings}; LISTEN/NOTIFY"
            config["system_database_url"] = self._postgres.address.replace("/postgres?", "/dbos?")
        else:
            config["system_database_url"] = f"sqlite:///{directory() / 'dbos.db'}"
            config["notification_listener_polling_interval_sec"] = polling = float(arguments()[1])
            self.settings = f"durable: SQLite as DBOS opens it, polled every {polling:g} s"
        self._dbos = DBOS(config=config)
        DBOS.launch()

    async def ask(self, session: None) -> Any:
        handle = await DBOS.start_workflow_async(job, "go")
        if await DBOS.get_event_async(handle.workflow_id, "asked", timeout_seconds=60) is None:
            raise RuntimeError("the workflow did not ask")
        return handle

    async def answer(self, asked: Any) -> str:
        await DBOS.send_async(asked.workflow_id, "done", "answer")
        return str(await asked.get_result())

    def close(self) -> None:
        DBOS.destroy()
        if self._postgres is not None:
            self._postgres.close()
        super().close()


if __name__ == "__main__":
    serve(DbosWorkflow)
