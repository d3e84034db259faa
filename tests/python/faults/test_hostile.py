"""200 clients that mean no good beside 20 who work: the work goes on, nothing is lost, and the server is as before."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.python.faults.honest import Account, work
from tests.python.faults.hostile import KINDS
from tests.python.support.api import Api, ok
from tests.python.support.served import ROOT, Served
from tests.python.support.waiting import eventually

HOSTILE, HONEST, PAIRS = 200, 20, 5
SECONDS = float(os.environ.get("HITL_TEST_HOSTILE_SECONDS", "50"))
"""How long the ten phases take together; `make hostile` takes ten minutes."""
ROUNDS = 4
"""How often it is measured before it counts as slow: somebody else may have needed the machine."""
ROOT_KEY = "a key for those who look after it"
MORE_MEMORY = 64 * 1024 * 1024
"""Bytes that the server may have more afterwards, its own work included."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300 + 10 * SECONDS),
    pytest.mark.skipif(sys.platform != "linux", reason="addresses besides 127.0.0.1, and /proc"),
]


def resident(server: Served) -> int:
    """Bytes of memory that the server has."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024


def open_files(server: Served) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def make_key(api: Api, name: str, *scopes: str) -> str:
    made = api.post("/keys", {"name": name, "scopes": scopes})
    assert made.status_code == 201, made.text
    key: str = made.json()["key"]
    return key


@contextmanager
def enemies(url: str, key: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.python.faults.hostile", url, key, str(HOSTILE)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(stream: IO[str] | None, word: str) -> None:
    assert stream is not None
    stream.write(f"{word}\n")
    stream.flush()


def slowdown(account: Account) -> float:
    """How much longer a request takes beside them: a phase with them by the one before, the median of these."""
    kinds = {kind: [number for what, number in account.latencies if what == kind] for kind in ("calm", "hostile")}
    pairs = sorted(set(kinds["calm"]) & set(kinds["hostile"]))[-PAIRS:]
    medians = [[statistics.median(account.latencies[kind, number]) for kind in ("calm", "hostile")] for number in pairs]
    return statistics.median(hostile / calm for calm, hostile in medians)


async def measure(server: Served, keys: list[str], process: subprocess.Popen[str], account: Account) -> int:
    """Phases with and without them, by turns, until they are known not to slow the work down too much.

    The memory that the server had before they came.
    """
    workers = [
        asyncio.ensure_future(work(server.url, key, f"honest-{number}", account)) for number, key in enumerate(keys)
    ]

    async def phase(kind: str, number: int) -> None:
        tell(process.stdin, "go" if kind == "hostile" else "rest")
        account.phase = (kind, number)
        ended, _ = await asyncio.wait(workers, timeout=SECONDS / PAIRS / 2, return_when=asyncio.FIRST_COMPLETED)
        for worker in ended:
            worker.result()

    await phase("warm", 0)
    memory = resident(server)
    for number in range(ROUNDS * PAIRS):
        await phase("calm", number)
        await phase("hostile", number)
        if (number + 1) % PAIRS == 0 and slowdown(account) <= 2:
            break
    account.over = True
    await asyncio.gather(*workers)
    return memory


def test_who_means_no_good_keeps_nobody_from_working(tmp_path: Path) -> None:
    options = {"isolation": "task", "workers": 4, "max_body": 65_536, "store": f"sqlite:{tmp_path / 'hitl.db'}"}
    with Served("playbook", environment={"HITL_API_KEY": ROOT_KEY}, **options) as server:
        server.api.http.headers["authorization"] = f"Bearer {ROOT_KEY}"
        keys = [make_key(server.api, f"honest-{number}", "read", "send", "answer") for number in range(HONEST)]
        account, before = Account(), open_files(server)
        with enemies(server.url, make_key(server.api, "hostile", "read")) as process:
            calm = asyncio.run(measure(server, keys, process, account))
            said, _ = process.communicate("\n", timeout=100)
        came = json.loads(said)
        assert came.keys() == {kind.__name__ for kind in KINDS}, came
        reckon(server.api, account)
        # The client of this test holds one; whoever was cut off is gone.
        eventually(lambda: open_files(server) <= before + 8, True)
        after = resident(server)
        figures = {"slowdown": slowdown(account), "sessions": len(account.done), "memory": [calm, after], "came": came}
        print(json.dumps(figures))
        assert figures["slowdown"] <= 2, figures
        assert after <= calm + MORE_MEMORY, figures


def reckon(api: Api, account: Account) -> None:
    """Every session has its result, and every answer was counted once."""
    assert len(account.answers) == 2 * len(account.done)
    for session_id, words in account.done.items():
        session = api.session(session_id)
        assert (session["status"], json.loads(session["response"]["content"])) == ("idle", words)
        records = ok(api.get("/interrupts", session_id=session_id, limit=1000))
        told = {record["interrupt_id"]: record["value"] for record in records}
        assert sorted(told.values()) == sorted(words)
        assert {record["status"] for record in records} == {"resolved"}
        assert all(account.answers[interrupt_id] == value for interrupt_id, value in told.items())
    metrics = api.get("/metrics").text
    assert f'hitl_interrupts_settled_total{{outcome="resolved"}} {len(account.answers)}\n' in metrics
