"""A bank, for `examples/bank_transfer.py`: accounts in memory, and transfers that count once for each idempotency key.

    python -m examples.bank

`GET /accounts` is what everybody has, `POST /transfers` moves money under the header `Idempotency-Key`, and
`GET /transfers` shows what was moved. With `BANK_DELAY=20` it books at once and answers 20 seconds later: time enough
to kill whoever waits for the answer.
"""

from __future__ import annotations

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

Json = dict[str, Any]


class Bank(ThreadingHTTPServer):
    """Listens on loopback; port 0 takes a free one. `received` counts requests to move money, repeated ones too."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Desk)
        self.accounts = {"rent": 0, "savings": 500_00, "checking": 2_000_00}
        self.booked: dict[str, Json] = {}
        self.received = 0
        self._lock = Lock()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def book(self, key: str, order: Json) -> Json:
        """Move the money, or say again what came of it: a key counts once."""
        with self._lock:
            self.received += 1
            if key not in self.booked:
                cents, giver, taker = order["cents"], order["from"], order["to"]
                if self.accounts[giver] < cents:
                    return {"error": f"{giver} has only {self.accounts[giver]} cents"}
                self.accounts[giver] -= cents
                self.accounts[taker] += cents
                self.booked[key] = {"receipt": f"R-{len(self.booked) + 1}", **order}
            return self.booked[key]

    def before_reply(self) -> None:
        """After it has booked, and before it says so."""
        time.sleep(float(os.environ.get("BANK_DELAY", "0")))


class Desk(BaseHTTPRequestHandler):
    """One request."""

    @property
    def bank(self) -> Bank:
        assert isinstance(self.server, Bank)
        return self.server

    def do_GET(self) -> None:
        """`/accounts`, `/transfers`."""
        pages: dict[str, Any] = {"/accounts": self.bank.accounts, "/transfers": list(self.bank.booked.values())}
        self._reply(200 if self.path in pages else 404, pages.get(self.path, {"error": "there is no such page"}))

    def do_POST(self) -> None:
        """`/transfers`."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        receipt = self.bank.book(self.headers["Idempotency-Key"], order)
        self.bank.before_reply()
        self._reply(409 if "error" in receipt else 201, receipt)

    def _reply(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # whoever asked is gone, which is what this bank is there to show

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests read what the server says."""


if __name__ == "__main__":
    with Bank(8001) as bank:
        print(f"the bank is open at {bank.url}/accounts", flush=True)
        bank.serve_forever()
