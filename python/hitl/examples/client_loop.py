"""The smallest client: plain HTTP, one turn at a time, every interrupt answered.

    python -m hitl.examples.client_loop http://127.0.0.1:8000 "delete the old logs file"

This is all there is to a client in any language. In Python `hitl.client.Client` does it with types; `hitl chat` is a
comfortable one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import httpx2

Interrupt = dict[str, Any]


def run_turn(http: httpx2.Client, session_id: str, content: str, answer: Callable[[Interrupt], Any]) -> str:
    """Send a message and return the agent's reply; `answer` is asked for the value of each interrupt on the way.

    Raises `RuntimeError` when the turn ends in an error.
    """
    http.post(f"/sessions/{session_id}/messages", json={"content": content}).raise_for_status()
    while True:
        # Comes back at once when there is something to do, after 30 seconds of "running" otherwise.
        response = http.get(f"/sessions/{session_id}", params={"wait": "true", "timeout": 30})
        session = response.raise_for_status().json()
        match session["status"]:
            case "idle":
                return str(session["response"]["content"])
            case "error":
                raise RuntimeError(session["error"])
            case "interrupted":
                for interrupt in session["interrupts"]:
                    resume(http, session_id, interrupt["interrupt_id"], answer(interrupt))
            case _:  # "running": ask again
                pass


def resume(http: httpx2.Client, session_id: str, interrupt_id: str, value: Any) -> None:
    """Post an answer. Whether it is new, sent again or too late, the next poll says how things stand."""
    body = {"interrupt_id": interrupt_id, "value": value}
    response = http.post(f"/sessions/{session_id}/resume", json=body)
    if response.status_code in (409, 410, 422):
        # 409: somebody else was first. 410: it has expired. 422: no valid answer, the interrupt still waits.
        print(response.json()["detail"], file=sys.stderr)
        return
    response.raise_for_status()


def ask_on_terminal(interrupt: Interrupt) -> Any:
    """Show an interrupt and read its answer."""
    print(json.dumps(interrupt["payload"], indent=2))
    if interrupt["type"] == "tool_approval":
        said = input("run it? [y, or why not] ")
        return {"approved": True} if said == "y" else {"approved": False, "reason": said}
    if interrupt["type"] == "user_input":
        return {"answers": {q["question"]: input(f"{q['question']} ") for q in interrupt["payload"]["questions"]}}
    return json.loads(input("answer, as JSON: "))


def main() -> None:
    url, content = sys.argv[1:]
    key = os.environ.get("HITL_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx2.Client(base_url=url, headers=headers, timeout=40) as http:
        session_id = http.post("/sessions").raise_for_status().json()["session_id"]
        print(run_turn(http, session_id, content, ask_on_terminal))


if __name__ == "__main__":
    main()
