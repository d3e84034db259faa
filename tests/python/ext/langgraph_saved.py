"""A graph in a loop of its own, in a process that may be killed.

`python -m tests.python.ext.langgraph_saved STORE FILE` invokes it until it asks, says so and waits; with an answer as
third argument it goes on from there. `FILE` is told what ran.
"""

from __future__ import annotations

import operator
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from hitl.ext.langgraph import HitlSaver


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def graph(saver: Any, told: Path) -> Any:
    """Books, and beside that asks; then sends."""

    def ran(name: str) -> dict[str, list[str]]:
        with told.open("a") as file:
            file.write(f"{name}\n")
        return {"done": [name]}

    def ask(state: State) -> dict[str, list[str]]:
        return ran(interrupt("Send it?"))

    builder = StateGraph(State)
    builder.add_node("first", lambda state: ran("first"))
    builder.add_node("book", lambda state: ran("book"))
    builder.add_node("ask", ask)
    builder.add_node("send", lambda state: ran("send"))
    builder.add_edge(START, "first").add_edge("first", "book").add_edge("first", "ask")
    builder.add_edge(["book", "ask"], "send")
    return builder.compile(checkpointer=saver)


def main(store: str, told: str, answer: str | None = None) -> None:
    """See the module."""
    compiled, config = graph(HitlSaver(store), Path(told)), {"configurable": {"thread_id": "order 7"}}
    if answer is not None:
        print(compiled.invoke(Command(resume=answer), config)["done"])
        return
    asked = compiled.invoke({"done": []}, config)["__interrupt__"]
    print(asked[0].value, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
