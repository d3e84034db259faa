"""The job as a LangGraph graph: two steps and the question are nodes, so that a resume repeats neither step."""

from __future__ import annotations

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from benchmarks.contenders.host import work


class State(TypedDict, total=False):
    """What a thread keeps."""

    message: str
    first: int
    answer: str
    second: int


def first(state: State) -> State:
    """The step before the question."""
    return {"first": work(1)}


def question(state: State) -> State:
    """What a resume runs again: it does nothing but ask."""
    return {"answer": interrupt({"type": "question", "prompt": "Go on?"})}


def second(state: State) -> State:
    """The step after it."""
    return {"second": work(2)}


builder = StateGraph(State)
for node in (first, question, second):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "first")
builder.add_edge("first", "question")
builder.add_edge("question", "second")
builder.add_edge("second", END)
graph = builder.compile()
"""What the dev server serves; it brings its own saver."""
